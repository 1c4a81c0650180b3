"""The latency model: what a round costs, as a small versioned JSON file that can be typed by hand.

T(m) = beta0_ms[m] + alpha_ms_per_expert[m] U + context_ms_per_token L for the verification pass over m = k + 1
positions, and draft_ms(k) for drafting k tokens, 0 at k = 0. An m that is not in the file is never made up.

A file may hold several batch sizes, each with a block of its own. Reading one then gives a `ModelByBatchSize`, which
prices nothing until `at_batch_size` has picked a block; a batch size that was not measured is never made up either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from oracle.errors import Faults, InputError
from oracle.files import read_text, shown
from oracle.latency.model_checks import check_batch_sizes, check_draft, check_number, check_verify
from oracle.latency.model_file import VERIFY_KEYS, read_blocks, write_blocks
from oracle.outputs import atomic_output


@dataclass(frozen=True)
class DraftLine:
    """Draft time a k + b for k >= 1: `ms_per_token` is a, `base_ms` is b."""

    ms_per_token: float
    base_ms: float


@dataclass(frozen=True)
class DraftTable:
    """Draft time at each measured draft length: `ms[i]` milliseconds at `k[i]`, k rising, from 1 on."""

    k: tuple[int, ...]
    ms: tuple[float, ...]


@dataclass(frozen=True)
class LatencyModel:
    """Cost coefficients of a target and its draft; all times in milliseconds.

    Parameters
    ----------
    m
        The measured numbers of verified positions, strictly rising, from 1 on.
    beta0_ms, alpha_ms_per_expert
        For each m: base time, and time of one more unique expert (mean per MoE layer).
    context_ms_per_token
        Time of one more context token: one number for all m, or one for each m.
    draft
        Draft time by draft length.
    reject_ms
        Further time of a round with k >= 1 (rejection sampling), usually 0.
    fit
        How the numbers came about: errors, covariance, metrics, provenance; None for a hand-typed model.
    batch_size
        Requests in the passes that were measured; None where it is not said.

    Raises
    ------
    InputError
        All faults of the values, at once.
    """

    m: tuple[int, ...]
    beta0_ms: tuple[float, ...]
    alpha_ms_per_expert: tuple[float, ...]
    context_ms_per_token: float | tuple[float, ...]
    draft: DraftLine | DraftTable
    reject_ms: float = 0.0
    fit: Mapping[str, Any] | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        faults = Faults()
        check_verify(vars(self), "latency model: ", faults)
        check_draft(vars(self.draft), "latency model: draft.", self.m, faults)
        check_number(self.reject_ms, "latency model: reject_ms", faults, least=0.0)
        if self.batch_size is not None:
            check_number(self.batch_size, "latency model: batch_size", faults, whole=True, least=1)
        faults.raise_if_any()
        plain: dict[str, Any] = {"m": tuple(int(m) for m in self.m), "reject_ms": float(self.reject_ms)}
        for name in VERIFY_KEYS[1:]:
            value = getattr(self, name)
            plain[name] = tuple(map(float, value)) if isinstance(value, list | tuple) else float(value)
        plain["batch_size"] = None if self.batch_size is None else int(self.batch_size)
        for name, value in plain.items():  # numbers of other libraries become Python's, so that JSON can hold them
            object.__setattr__(self, name, value)

    @property
    def blocks(self) -> "tuple[LatencyModel, ...]":
        """The models of the batch sizes, by rising batch size; the model itself where there is one."""
        return (self,)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The measured batch sizes, rising; none where the model does not say."""
        return tuple(block.batch_size for block in self.blocks if block.batch_size is not None)

    def at_batch_size(self, batch_size: int | None) -> "LatencyModel":
        """Give the model of one batch size, exactly as measured.

        Parameters
        ----------
        batch_size
            Requests in a pass; None takes the only block there is.

        Raises
        ------
        InputError
            A batch size that was not measured (the measured ones are named), or None where there are several.
        """
        found = [block for block in self.blocks if block.batch_size == batch_size]
        if found:
            return found[0]
        if batch_size is None and len(self.blocks) == 1:
            return self.blocks[0]
        measured = ", ".join(map(str, self.batch_sizes))
        if batch_size is None:
            raise InputError(
                f"the latency model holds several batch sizes ({measured}) and each has its own costs; say which one "
                "with --batch-size"
            )
        if not measured:
            raise InputError(
                f"the latency model says no batch size, so there is none to pick for --batch-size {batch_size}; leave "
                "the option out, or fit rounds that have a column batch_size"
            )
        raise InputError(
            f"the latency model has no batch size {batch_size}; measured: {measured}; record rounds at batch size "
            f"{batch_size} and fit again, or take a measured one (nothing is interpolated)"
        )

    @property
    def draft_lengths(self) -> tuple[int, ...]:
        """The k this model can price, rising: m = k + 1 is measured and, for k >= 1, the draft time is known."""
        return tuple(m - 1 for m in self.m if self.has(m - 1))

    def has(self, k: int) -> bool:
        """Whether a round with draft length k can be priced; k = 0 needs m = 1 only."""
        drafted = k == 0 or isinstance(self.draft, DraftLine) or k in self.draft.k
        return drafted and k + 1 in self.m

    def draft_ms(self, k: int) -> float:
        """Time to draft k tokens, ms; 0 at k = 0.

        Raises
        ------
        InputError
            The draft table lacks k.
        """
        if k == 0:
            return 0.0
        if isinstance(self.draft, DraftLine):
            return self.draft.ms_per_token * k + self.draft.base_ms
        if k not in self.draft.k:
            raise InputError(missing_m_error(self, k + 1))
        return self.draft.ms[self.draft.k.index(k)]

    def context_of(self, m: int) -> float:
        """Time of one more context token at m, ms."""
        return self.coefficients(m)[2]

    def coefficients(self, m: int) -> tuple[float, float, float]:
        """(beta0_ms, alpha_ms_per_expert, context_ms_per_token) at m.

        Raises
        ------
        InputError
            The model lacks m.
        """
        if m not in self.m:
            raise InputError(missing_m_error(self, m))
        i, c = self.m.index(m), self.context_ms_per_token
        return self.beta0_ms[i], self.alpha_ms_per_expert[i], c[i] if isinstance(c, tuple) else c

    @classmethod
    def from_json(cls, text: str, source: str = "latency model") -> "LatencyModel":
        """Read a model from JSON text; `source` names it in messages.

        Returns
        -------
        LatencyModel
            A `ModelByBatchSize` where the file holds several batch sizes.

        Raises
        ------
        InputError
            Every fault found: not strict JSON, another format or version, unknown or missing keys, wrong types,
            lengths, order or signs.
        """
        values, fit = read_blocks(text, source)
        blocks = [cls(**(each | {"draft": _draft(each["draft"])})) for each in values]
        return replace(blocks[0], fit=fit) if len(blocks) == 1 else ModelByBatchSize(blocks, fit)

    @classmethod
    def load(cls, path: str | Path) -> "LatencyModel":
        """Read a model file.

        Raises
        ------
        InputError
            The file cannot be read, is not UTF-8, or `from_json` refuses it.
        """
        source = shown(path)
        return cls.from_json(read_text(path, "a latency model is a JSON file"), source)

    def to_json(self) -> str:
        """Give the model as readable JSON; `from_json` gives the same model back."""
        return write_blocks([vars(block) | {"draft": dict(vars(block.draft))} for block in self.blocks], self.fit)

    def save(self, path: str | Path) -> None:
        """Write the model file; it appears whole or not at all."""
        text = self.to_json()
        with atomic_output(path) as partial:
            partial.write_text(text, encoding="utf-8")


class ModelByBatchSize(LatencyModel):
    """Latency models of several batch sizes, as one file holds them.

    `blocks`, `batch_sizes`, `at_batch_size`, `fit`, `to_json` and `save` work; whatever prices a round belongs to one
    batch size, and asking for it here raises an `InputError` that names `--batch-size`.

    Parameters
    ----------
    blocks
        Models with rising batch sizes.
    fit
        How the numbers came about; its ``by_batch_size`` holds the record of each block under its batch size.

    Raises
    ------
    InputError
        Fewer than two blocks, or batch sizes that are missing or do not rise.
    """

    def __init__(self, blocks: Sequence[LatencyModel], fit: Mapping[str, Any] | None = None) -> None:
        faults = Faults()
        check_batch_sizes([block.batch_size for block in blocks], "latency model: verify", faults)
        if len(blocks) < 2:
            faults.add(f"latency model: {len(blocks)} batch sizes; a model by batch size holds at least two")
        faults.raise_if_any()
        records = (fit or {}).get("by_batch_size")
        records = records if isinstance(records, Mapping) else {}
        with_records = tuple(replace(block, fit=records.get(str(block.batch_size))) for block in blocks)
        vars(self).update(_blocks=with_records, _fit=fit)

    def _refuse(self) -> NoReturn:
        """Say that a batch size must be picked first."""
        self.at_batch_size(None)
        raise AssertionError("several batch sizes never give one model")

    _one: Any = property(_refuse)
    m = beta0_ms = alpha_ms_per_expert = context_ms_per_token = draft = reject_ms = batch_size = _one
    fit: Any = property(lambda self: self._fit)

    @property
    def blocks(self) -> tuple[LatencyModel, ...]:
        """The models of the batch sizes, by rising batch size."""
        blocks: tuple[LatencyModel, ...] = vars(self)["_blocks"]
        return blocks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelByBatchSize) and (self.blocks, self.fit) == (other.blocks, other.fit)

    def __hash__(self) -> int:
        return hash(self.batch_sizes)

    def __repr__(self) -> str:
        return f"ModelByBatchSize({self.blocks!r})"


def _draft(values: Mapping[str, Any]) -> DraftLine | DraftTable:
    """Make the draft times of checked JSON values."""
    return DraftTable(tuple(values["k"]), tuple(map(float, values["ms"]))) if "k" in values else DraftLine(**values)


def missing_m_error(model: LatencyModel, m: int, source: str = "") -> str:
    """Say that a round over m positions cannot be priced, what can be, and the way out; for an `InputError`."""
    where, k = (f"{source}: " if source else ""), m - 1
    way_out = f"record rounds with draft length {k} and fit again, or lower --k-max"
    if m in model.m and isinstance(model.draft, DraftTable):
        known = ", ".join(map(str, model.draft.k))
        return f"{where}the latency model has no draft time for k = {k}; measured: k = {known}; {way_out}"
    if m == 1:
        way_out = "record rounds with draft length 0 and fit again, or set --k-min 1"
    measured = ", ".join(map(str, model.m))
    return f"{where}the latency model has no m = {m} (k = {k}); measured: m = {measured}; {way_out}"
