"""The latency model: what a round costs, as a small versioned JSON file that can be typed by hand.

T(m) = beta0_ms[m] + alpha_ms_per_expert[m] U + context_ms_per_token L for the verification pass over m = k + 1
positions, and draft_ms(k) for drafting k tokens, 0 at k = 0. An m that is not in the file is never made up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.files import atomic_output, shown
from oracle.latency.model_checks import check_draft, check_keys, check_number, check_verify, kind_of
from oracle.latency.strict_json import read_strictly, write_readably

FORMAT = "draft-oracle/latency-model"
VERSION = 1
VERIFY_KEYS = ("m", "beta0_ms", "alpha_ms_per_expert", "context_ms_per_token")
LINE_KEYS = ("ms_per_token", "base_ms")
TABLE_KEYS = ("k", "ms")


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

    def __post_init__(self) -> None:
        faults = Faults()
        check_verify(vars(self), "latency model: ", faults)
        check_draft(vars(self.draft), "latency model: draft.", self.m, faults)
        check_number(self.reject_ms, "latency model: reject_ms", faults, least=0.0)
        faults.raise_if_any()
        plain = {"m": tuple(int(m) for m in self.m), "reject_ms": float(self.reject_ms)}
        for name in VERIFY_KEYS[1:]:
            value = getattr(self, name)
            plain[name] = tuple(map(float, value)) if isinstance(value, list | tuple) else float(value)
        for name, value in plain.items():  # numbers of other libraries become Python's, so that JSON can hold them
            object.__setattr__(self, name, value)

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

        Raises
        ------
        InputError
            Every fault found: not strict JSON, another format or version, unknown or missing keys, wrong types,
            lengths, order or signs.
        """
        tree = read_strictly(text, source)
        _refuse_other_formats(tree, source)
        faults = Faults()
        check_keys(tree, f"{source}: ", ("format", "version", "verify", "draft"), ("reject_ms", "fit"), faults)
        verify, draft = _object(tree, source, "verify", faults), _object(tree, source, "draft", faults)
        if verify is not None:
            check_keys(verify, f"{source}: verify.", VERIFY_KEYS, (), faults)
            check_verify(verify, f"{source}: verify.", faults)
        if draft is not None:
            needed = TABLE_KEYS if draft.keys() & set(TABLE_KEYS) else LINE_KEYS
            check_keys(draft, f"{source}: draft.", needed, (), faults)
            check_draft(draft, f"{source}: draft.", (verify or {}).get("m"), faults)
        check_number(tree.get("reject_ms", 0.0), f"{source}: reject_ms", faults, least=0.0)
        _object(tree, source, "fit", faults)
        faults.raise_if_any()
        assert verify is not None  # or there were faults
        assert draft is not None
        return cls(
            **{key: verify[key] for key in VERIFY_KEYS},
            draft=DraftTable(tuple(draft["k"]), tuple(map(float, draft["ms"]))) if "k" in draft else DraftLine(**draft),
            reject_ms=tree.get("reject_ms", 0.0),
            fit=tree.get("fit"),
        )

    @classmethod
    def load(cls, path: str | Path) -> "LatencyModel":
        """Read a model file.

        Raises
        ------
        InputError
            The file cannot be read, is not UTF-8, or `from_json` refuses it.
        """
        source = shown(path)
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source}: is not UTF-8 text (byte {error.start}); a latency model is a JSON file"
            ) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{source}: cannot be read ({why}); check the path and its permissions") from error
        return cls.from_json(text, source)

    def to_json(self) -> str:
        """Give the model as readable JSON; `from_json` gives the same model back."""
        tree: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "verify": {key: getattr(self, key) for key in VERIFY_KEYS},
            "draft": dict(vars(self.draft)),
            "reject_ms": self.reject_ms,
        }
        if self.fit is not None:
            tree["fit"] = self.fit
        return write_readably(tree) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the model file; it appears whole or not at all."""
        text = self.to_json()
        with atomic_output(path) as partial:
            partial.write_text(text, encoding="utf-8")


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


def _object(tree: Mapping[str, Any], source: str, key: str, faults: Faults) -> dict[str, Any] | None:
    """Give the object under `key`, None if it is missing or something else (which is a fault)."""
    value = tree.get(key)
    if isinstance(value, dict):
        return value
    if key in tree and (value is not None or key != "fit"):
        faults.add(f"{source}: {key} is {kind_of(value)}; it is an object")
    return None


def _refuse_other_formats(tree: Any, source: str) -> None:
    """Raise at once where nothing else in the file can be judged."""
    if not isinstance(tree, dict):
        raise InputError(
            f"{source}: holds {kind_of(tree)}; a latency model is an object with format, version, verify and draft"
        )
    if tree.get("format") != FORMAT:
        found = printable(repr(tree["format"])) if "format" in tree else "missing"
        raise InputError(f'{source}: format is {found}; a latency model says "format": "{FORMAT}"')
    version = tree.get("version")
    if version != VERSION or isinstance(version, bool):
        found = printable(repr(version)) if "version" in tree else "missing"
        raise InputError(
            f"{source}: version is {found}; this program reads version {VERSION}; fit the rounds again with it"
        )
