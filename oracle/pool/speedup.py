"""A speed-up by drafts: what it takes from memory, and what is known of what it gives."""

from dataclasses import dataclass

from oracle.errors import Faults
from oracle.levers.matches import mean_length
from oracle.pool.ranges import NOT_NEGATIVE, POSITIVE, SHARE, Range, check_ranges


@dataclass(frozen=True)
class Speedup:
    """A draft model, MTP heads, or a draft that needs no weights.

    Attributes
    ----------
    name
        Unique.
    draft_length
        k, tokens drafted each round.
    parameters, bytes_per_parameter
        Of the draft.
    extra_bytes
        Buffers and graphs of its own.
    parameters_read
        Of the draft, for one draft token; None: all.
    kv_bytes_per_token
        Of the draft's own KV cache, each token of context; its drafts need k slots more, as the target's do.
    acceptance, acceptance_length
        Probability that a draft token is accepted, given those before it; or the mean acceptance length. At most one.
    round_host_ms
        Host work of a round, besides that of a step.
    round_base_ms, round_ms_per_tenant
        A line through measured rounds (draft and verification), by tenants that decode together.
    """

    name: str
    draft_length: int
    parameters: float = 0.0
    bytes_per_parameter: float = 2.0
    extra_bytes: int = 0
    parameters_read: float | None = None
    kv_bytes_per_token: float = 0.0
    acceptance: float | None = None
    acceptance_length: float | None = None
    round_host_ms: float = 0.0
    round_base_ms: float | None = None
    round_ms_per_tenant: float | None = None

    @property
    def resident_bytes(self) -> int:
        """Bytes that are taken whatever the tenants do."""
        return round(self.parameters * self.bytes_per_parameter) + self.extra_bytes

    @property
    def read_share(self) -> float:
        """Share of the resident bytes that one draft token reads."""
        if not self.resident_bytes:
            return 0.0
        read = self.parameters if self.parameters_read is None else self.parameters_read
        return read * self.bytes_per_parameter / self.resident_bytes

    @property
    def is_measured(self) -> bool:
        """Whether the line of measured rounds is used."""
        return self.round_base_ms is not None

    @property
    def length(self) -> float | None:
        """Mean acceptance length; None where nothing is known of it."""
        if self.acceptance is not None:
            return float(mean_length(self.acceptance, self.draft_length))
        return self.acceptance_length

    def check(self, place: str, longest: int, faults: Faults) -> None:
        """Note what is out of range."""
        rules = dict.fromkeys(
            (
                "parameters",
                "extra_bytes",
                "parameters_read",
                "kv_bytes_per_token",
                "round_host_ms",
                "round_ms_per_tenant",
            ),
            NOT_NEGATIVE,
        )
        rules |= {"bytes_per_parameter": Range(above=0, most=8), "acceptance": SHARE, "round_base_ms": POSITIVE}
        rules["draft_length"] = Range(least=1, most=longest, whole=True)
        check_ranges(self, rules, place, faults)
        most = self.draft_length + 1
        if self.acceptance is not None and self.acceptance_length is not None:
            faults.add(f"{place}acceptance and acceptance_length are two forms of the same; leave one of them out")
        elif self.acceptance_length is not None and not 1 <= self.acceptance_length <= most:
            faults.add(
                f"{place}acceptance_length is {self.acceptance_length:g}; a round of {self.draft_length} draft tokens "
                f"emits from 1 to {most:g} tokens, the bonus token included"
            )
        if self.parameters_read is not None and self.parameters_read > self.parameters:
            faults.add(
                f"{place}parameters_read is {self.parameters_read:g}, more than its {self.parameters:g} parameters"
            )
        if (self.round_base_ms is None) != (self.round_ms_per_tenant is None):
            faults.add(f"{place}round_base_ms and round_ms_per_tenant go together; give both or none")
        if self.is_measured and self.round_host_ms:
            faults.add(f"{place}measured rounds hold round_host_ms already; leave out one or the other")
