"""What ``draft-oracle policies`` is asked to score how: by expectation, on recorded matches, or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from oracle.errors import Faults, InputError, printable

if TYPE_CHECKING:
    from oracle.policies import Inputs
    from oracle.policies.laid_out import LaidOut

MATCHES = ("token_id", "draft_token_id")
LOG = ("logged_draft_length", "logged_advance")
LOGGED = "logged"
_COLUMNS_SHOWN = 30


@dataclass(frozen=True)
class Asked:
    """What is scored how.

    Attributes
    ----------
    families
        Scored by expectation, after tuning where they have a parameter.
    realised
        Whether recorded matches are scored on.
    logged
        Whether the engine's logged rounds are scored, on recorded matches only.
    notes
        Why a policy has no expected score, or none at all.
    unrealised
        Why there are no realised scores, where draft tokens were recorded.
    """

    families: list[str]
    realised: bool
    logged: bool = False
    notes: list[str] = field(default_factory=list)
    unrealised: list[str] = field(default_factory=list)


@dataclass
class _Tried:
    """The first fault of each way to score; None: there is none."""

    unmatched: InputError | None = None
    unexpected: InputError | None = None
    unrealised: InputError | None = None


def own_columns(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns of lengths that a user brings along."""
    from oracle.policies import parse_policy  # noqa: PLC0415

    wanted: list[str] = []
    faults = Faults()
    for text in texts:
        if not text.startswith("column:"):
            continue
        try:
            policy = parse_policy(text)
        except InputError as error:
            faults.add(str(error))
            continue
        for name in sorted(policy.columns - set(names)):
            listed = ", ".join(printable(other, 40) for other in names[:_COLUMNS_SHOWN])
            faults.add(
                f"policy '{printable(text)}': the traces have no column '{printable(name)}'; the columns there: "
                f"{listed}"
            )
        wanted += policy.columns
    faults.raise_if_any()
    return wanted


def asked(texts: Sequence[str], names: set[str], laid: "LaidOut") -> Asked:
    """Tell policies with an expected score from the engine's log, which has none unless matches are certain."""
    families = list(texts) or _families(names)
    explicit = LOGGED in families
    logs = explicit or (not texts and names.issuperset(LOG))
    tried = _tried(laid, matches=names.issuperset(MATCHES), logs=logs)
    realised = names.issuperset(MATCHES) and tried.unmatched is None
    unrealised = [] if tried.unmatched is None else [_why_unmatched(tried.unmatched)]
    if not logs:
        return Asked(families, realised, unrealised=unrealised)
    others = [text for text in families if text != LOGGED]
    if tried.unexpected is None:
        return Asked([*others, LOGGED], realised, unrealised=unrealised)
    if not realised:
        if explicit:
            raise tried.unexpected
        why = f"{LOGGED}: not scored, since the traces hold no {' and '.join(MATCHES)}"
        return Asked(others, realised, notes=[why], unrealised=unrealised)
    if tried.unrealised is not None:
        if explicit:
            raise tried.unrealised
        why = f"{LOGGED}: not scored, since {'; '.join(tried.unrealised.faults)}"
        return Asked(others, realised, notes=[why])
    why = (
        f"{LOGGED}: realised score only: a log says nothing of positions at which no round of the engine started, and "
        "expectation goes there"
    )
    return Asked(others, realised, logged=True, notes=[why])


def _tried(laid: "LaidOut", *, matches: bool, logs: bool) -> _Tried:
    """Walk over the traces to learn what they can be scored on."""
    found = _Tried()
    if not matches and not logs:
        return found
    for one in laid.over(partial(_tried_on, matches=matches, logs=logs)):
        found.unmatched = found.unmatched or one.unmatched
        found.unexpected = found.unexpected or one.unexpected
        found.unrealised = found.unrealised or one.unrealised
    return found


def _tried_on(batch: "Inputs", *, matches: bool, logs: bool) -> _Tried:
    from oracle.policies import lengths_of  # noqa: PLC0415
    from oracle.realised.problem import ShortChainsError, realised_problem  # noqa: PLC0415

    found, actual = _Tried(), None
    if matches:
        try:
            actual = realised_problem(batch.traces, batch.costs.k_max, like=batch.problem)
        except ShortChainsError as error:
            found.unmatched = error
    if logs:
        try:
            lengths_of([LOGGED], batch)
        except InputError as error:
            found.unexpected = error
    if logs and actual is not None:
        try:
            lengths_of([LOGGED], replace(batch, problem=actual))
        except InputError as error:
            found.unrealised = error
    return found


def _why_unmatched(error: InputError) -> str:
    """Say why there are no realised scores: chains are shorter than the drafts priced."""
    return (
        f"no realised scores: {error.faults[0]}; a draft model's chains can be recorded whole, prompt lookup "
        "proposes nothing where it finds nothing: its costs charge every round the full draft length all the same"
    )


def _families(names: set[str]) -> list[str]:
    """The families that the traces have the columns for."""
    from oracle.tuning import FAMILIES  # noqa: PLC0415

    needs = {"budget": ("category",)} | dict.fromkeys(
        ("confidence", "confidence@keep", "survival", "survival@keep", "goodput", "slope"), ("draft_prob",)
    )
    return [family for family in FAMILIES if names.issuperset(needs.get(family, ()))]
