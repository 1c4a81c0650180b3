"""What the source found about language contexts, and whether these traces show it; the words follow from rules.

A finding with a direction, and the source's effect where it gives one, carried over to these traces: of a share the
odds ratio, applied to the share that is compared with here (a difference of shares could be more than there is room
for); of experts the difference, scaled by `top_k`:

- *shows*: the interval leaves 0 out on the source's side;
- *does not show*: it leaves 0 out on the other side, or holds 0 and leaves the source's effect out;
- *not decidable here*: it holds 0 and the source's effect (or the source gives none), there are fewer than ten clusters
  or no interval, or the traces lack what is compared.

A finding of no spike, against the spike that the source saw at a change of script: *shows* if the interval holds 0 or
lies below it and leaves that spike out; *does not show* if it lies above 0; else *not decidable here*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oracle.contrasts.comparisons import REST, Comparison, Difference
from oracle.contrasts.groups import CONTROL_FLOW, OTHER_CODE, PROSE, Group
from oracle.contrasts.lengths import AT_LEAST_4, AT_MOST_1
from oracle.contrasts.steps import AFTER_CHANGE, AT_CHANGE
from oracle.intervals import FEW_CLUSTERS

SHOWS, DOES_NOT, UNDECIDED = "shows", "does not show", "not decidable here"
SOURCE_TOP_K = 8  # experts a token in each layer of the source's target
SCRIPT_LEVELS = (3.12, 2.66)  # new experts per layer at a change of script and elsewhere


@dataclass(frozen=True)
class Claim:
    """One finding of the source (arXiv 2609.22156).

    Attributes
    ----------
    name
        In one line.
    about
        `lengths`, `experts` or `mismatches`: which comparisons hold it.
    group, against, measure
        The comparison; measure "" for new experts, in every column there is.
    sign
        Of the difference; 0 for a finding of no spike.
    said
        The source's numbers as it gives them.
    levels
        The two that its effect lies between, the group's first: shares, or experts per layer for a target of
        `SOURCE_TOP_K`; None where it gives none.
    part_of
        Name of the claim that it is another reading of: the source states one finding; "" for a finding of its own.
    """

    name: str
    about: Literal["lengths", "experts", "mismatches"]
    group: Group
    against: str
    measure: str
    sign: int
    said: str
    levels: tuple[float, float] | None
    part_of: str = ""

    @property
    def finding(self) -> str:
        """What it counts as."""
        return self.part_of or self.name


_CONTROL = "control flow: longer drafts than elsewhere (k* >= 4)"
_MISMATCH = "first mismatch: no spike against the step before"
CLAIMS = (
    Claim(
        "code formatting: longer drafts than prose vocabulary (k* >= 4)",
        "lengths",
        Group("label", "code_formatting"),
        PROSE.name,
        AT_LEAST_4,
        1,
        "0.718 [0.614; 0.818] against 0.193 [0.119; 0.276]",
        (0.718, 0.193),
    ),
    Claim(
        "script change: shorter drafts than prose vocabulary (k* >= 4)",
        "lengths",
        Group("label", "script_change"),
        PROSE.name,
        AT_LEAST_4,
        -1,
        "0.045 [0.010; 0.100] against 0.193 [0.119; 0.276]",
        (0.045, 0.193),
    ),
    Claim(
        "script change: the shortest drafts (k* <= 1)",
        "lengths",
        Group("label", "script_change"),
        PROSE.name,
        AT_MOST_1,
        1,
        "k* = 1, its shortest: 0.937 [0.867; 0.990]",
        None,
    ),
    Claim(
        "code ↔ prose: longer drafts than prose vocabulary (k* >= 4)",
        "lengths",
        Group("change", "code ↔ prose"),
        PROSE.name,
        AT_LEAST_4,
        1,
        "0.697, descriptive, against 0.193 [0.119; 0.276]",
        (0.697, 0.193),
    ),
    Claim(
        _CONTROL,
        "lengths",
        CONTROL_FLOW,
        REST,
        AT_LEAST_4,
        1,
        "longer, no number",
        None,
    ),
    Claim(
        "control flow: longer drafts than other code (k* >= 4)",
        "lengths",
        CONTROL_FLOW,
        OTHER_CODE.name,
        AT_LEAST_4,
        1,
        "the source compares with all else, prose included",
        None,
        _CONTROL,
    ),
    Claim(
        "Latin ↔ Cyrillic: more new experts",
        "experts",
        Group("change", "Cyrillic ↔ Latin"),
        REST,
        "",
        1,
        "3.12 against 2.66 of 8: +0.46 [+0.26; +0.66]",
        SCRIPT_LEVELS,
    ),
    Claim(
        _MISMATCH,
        "mismatches",
        AT_CHANGE,
        REST,
        "",
        0,
        "3.31 against 3.30 of 8: +0.01 [-0.05; +0.07]",
        SCRIPT_LEVELS,
    ),
    Claim(
        "row after the first mismatch, which reads the wrong token: no spike",
        "mismatches",
        AFTER_CHANGE,
        REST,
        "",
        0,
        "the source does not say which of the two rows it took",
        SCRIPT_LEVELS,
        _MISMATCH,
    ),
)


@dataclass(frozen=True)
class Finding:
    """A claim of the source beside what these traces say.

    Attributes
    ----------
    claim
        The source's.
    effect
        The source's difference carried over to these traces, pooled; None where it gives none.
    measure
        What was compared here; "" if nothing could be.
    pooled, within
        The differences here, None where the traces lack what is compared.
    verdict, verdict_within
        `SHOWS`, `DOES_NOT` or `UNDECIDED`, by rule.
    verdict_from_1, verdict_within_from_1
        The same where only lengths from 1 on may be chosen, as in the source; None where that changes nothing by
        definition.
    """

    claim: Claim
    effect: float | None
    measure: str
    pooled: Difference | None
    within: Difference | None
    verdict: str
    verdict_within: str
    verdict_from_1: str | None = None
    verdict_within_from_1: str | None = None


def verdict(sign: int, effect: float | None, found: Difference | None) -> str:
    """Say by rule whether a difference shows what the source found.

    Parameters
    ----------
    sign
        Of the source's difference, 0 for no spike.
    effect
        The source's difference, for no spike the spike that is ruled out; in units of `found`.
    """
    interval = None if found is None else found.difference.interval
    if found is None or interval is None or found.clusters < FEW_CLUSTERS:
        return UNDECIDED
    low, high = interval.low, interval.high
    if sign == 0:
        if low > 0:
            return DOES_NOT
        return SHOWS if effect is not None and high < effect else UNDECIDED
    if sign < 0:
        low, high, effect = -high, -low, None if effect is None else -effect
    if low > 0:
        return SHOWS
    return DOES_NOT if high < 0 or (effect is not None and high < effect) else UNDECIDED


def findings(
    lengths: Sequence[Comparison],
    experts: Sequence[Comparison],
    mismatches: Sequence[Comparison],
    top_k: int | None,
    from_1: Sequence[Comparison] | None = None,
) -> list[Finding]:
    """Hold every claim of the source against these traces, new experts in each column that the traces hold.

    Parameters
    ----------
    lengths, experts, mismatches
        The comparisons here.
    top_k
        Experts a token here.
    from_1
        Those of draft lengths where only lengths from 1 on may be chosen; None where `lengths` are.
    """
    about = {"lengths": lengths, "experts": experts, "mismatches": mismatches}
    rows = []
    for claim in CLAIMS:
        for found in _about(about[claim.about], claim) or (None,):
            effect, words = _held_against(claim, found, top_k)
            again: tuple[str | None, ...] = (None, None)
            if claim.about == "lengths" and from_1 is not None:
                again = _held_against(claim, next(iter(_about(from_1, claim)), None), top_k)[1]
            pooled, within = (None, None) if found is None else (found.pooled, found.within)
            measure = "" if found is None else found.measure
            rows.append(Finding(claim, effect, measure, pooled, within, *words, *again))
    return rows


def counted(rows: Sequence[Finding]) -> dict[str, str]:
    """Say of each finding of the source, by its name, what all of its readings and expert columns say together."""
    together: dict[str, list[Finding]] = {}
    for one in rows:
        together.setdefault(one.claim.finding, []).append(one)
    return {name: _together(some) for name, some in together.items()}


def _together(rows: Sequence[Finding]) -> str:
    pooled, within = {one.verdict for one in rows}, {one.verdict_within for one in rows}
    if pooled == {SHOWS}:
        return "show, pooled and within generations" if within == {SHOWS} else "show pooled only"
    if pooled == {DOES_NOT}:
        return "do not show"
    return "depend on the reading" if len(pooled) > 1 else UNDECIDED


def _held_against(claim: Claim, found: Comparison | None, top_k: int | None) -> tuple[float | None, tuple[str, ...]]:
    """The source's effect carried over, pooled, and the verdicts pooled and within generations."""
    both = (None, None) if found is None else (found.pooled, found.within)
    effects = [_effect(claim, one, top_k) for one in both]
    return effects[0], tuple(verdict(claim.sign, e, one) for e, one in zip(effects, both, strict=True))


def _about(rows: Sequence[Comparison], claim: Claim) -> list[Comparison]:
    """Give the comparisons that a claim is about: one, or one an expert column."""
    return [
        row
        for row in rows
        if (row.group, row.against) == (claim.group, claim.against) and claim.measure in ("", row.measure)
    ]


def _effect(claim: Claim, found: Difference | None, top_k: int | None) -> float | None:
    """Carry the source's effect over: see the module."""
    if claim.levels is None or found is None or found.against.value is None:
        return None
    here, there = claim.levels
    if claim.about != "lengths":
        return None if top_k is None else (here - there) * top_k / SOURCE_TOP_K
    ratio, share = here / (1 - here) * (1 - there) / there, found.against.value
    return ratio * share / (1 - share + ratio * share) - share
