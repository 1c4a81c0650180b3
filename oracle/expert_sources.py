"""Where the unique experts of traces come from, over all their batches."""


class ExpertSources:
    """Where the unique experts of batches come from."""

    def __init__(self) -> None:
        self._holds_positions: dict[str, bool] = {}

    def add(self, name: str, positions: int) -> None:
        """Note a batch's source."""
        self._holds_positions[name] = self._holds_positions.get(name, False) or positions > 0

    @property
    def names(self) -> list[str]:
        """All sources, sorted: batches without positions do not count, if any holds some."""
        filled = [name for name, holds_positions in self._holds_positions.items() if holds_positions]
        return sorted(filled or list(self._holds_positions)[:1])
