"""What engines tell of a request in totals: tokens drafted and accepted, and rounds; nothing by position.

A mean acceptance length follows at the draft length that was measured, and at no other. Whoever wants other lengths
from it must assume something of the positions: `with_constant_match`, only where it is asked for by name.

llama.cpp's timings tell no rounds. ``predicted_n`` counts every token that was sampled: the one of prefill, those of
steps without a draft, and in a round the accepted ones and one more. So ``predicted_n`` - 1 - ``draft_n_accepted`` are
its steps, with a draft or without one: the last token of a length limit never has one, and a draft may be given up.
Tokens accepted beyond the end of the text are in ``draft_n_accepted`` alone, so that steps may also be too few.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.acceptance.curves import Acceptance, Curve
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable

MOST_COUNT = 1 << 53  # beyond, float64 does not count
_NEAR = 0.05  # of K: rounds at the ends of a text, which draft less or nothing, move the mean by a few percent
_LEAST_STEPS = 1 / _NEAR  # a request, so that one step more or less at its end moves the mean by no more
_HALVINGS = 60
# rounds, accepted, drafted, and K where it is told: vLLM; TensorRT-LLM; SGLang, newest names first
NAMES = (
    ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens"),
    ("num_spec_steps", "total_accepted_draft_tokens", "total_draft_tokens", "num_spec_tokens"),
    ("spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts", None),
    ("spec_verify_ct", "spec_accepted_drafts", "spec_proposed_drafts", None),
    ("spec_verify_ct", "spec_accept_token_num", "spec_draft_token_num", None),
)


@dataclass(frozen=True)
class Totals:
    """Counts over one request, or over the interval of one log line.

    Attributes
    ----------
    place
        For messages.
    accepted, drafted
        Draft tokens; `drafted` is None where it is not told.
    rounds
        Verification rounds; None where they are not told, and all are then taken to draft K tokens.
    steps
        Where steps with and without a draft are told instead of rounds.
    draft_length
        K as configured; None where it is not told.
    tenant
        Whose request.
    """

    place: str
    accepted: float
    drafted: float | None
    rounds: float | None
    draft_length: int | None = None
    tenant: str | None = None
    steps: float | None = None


def totals_in(tree: Any, place: str, faults: Faults, tenant: str | None = None) -> Iterator[Totals]:
    """Walk parsed JSON to the totals of every request: vLLM, TensorRT-LLM, SGLang's meta_info, llama.cpp's timings."""
    if isinstance(tree, dict):
        named = tree.get("tenant", tenant)
        tenant = named if isinstance(named, str) else tenant
        found = _named(tree, place, tenant, faults)
        if found is not None:
            yield found
            return
        for key, value in tree.items():
            yield from totals_in(value, f"{place}.{printable(key, 30)}", faults, tenant)
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from totals_in(value, f"{place}[{i}]", faults, tenant)


def _named(tree: Mapping[str, Any], place: str, tenant: str | None, faults: Faults) -> Totals | None:
    """Take the totals out of one object; None if it holds none."""
    if "predicted_n" in tree:  # llama.cpp leaves draft_n and draft_n_accepted out when they are 0
        counts = [tree["predicted_n"], tree.get("draft_n_accepted", 0), tree.get("draft_n", 0)]
        if not _whole(counts, place, "predicted_n, draft_n_accepted and draft_n", faults):
            return None
        predicted, accepted, drafted = counts
        if accepted - predicted >= MOST_DRAFT_TOKENS:
            faults.add(
                f"{place}: draft_n_accepted is {accepted}, predicted_n {predicted}; accepted tokens are predicted, but "
                "for those of the last draft"
            )
            return None
        return Totals(place, accepted, drafted, None, None, tenant, predicted - 1 - accepted)
    for rounds, accepted, drafted, configured in NAMES:
        if rounds in tree and accepted in tree and drafted in tree:
            counts = [tree[rounds], tree[accepted], tree[drafted]]
            if not _whole(counts, place, f"{rounds}, {accepted} and {drafted}", faults):
                return None
            k = tree.get(configured) if configured else None
            return Totals(place, counts[1], counts[2], counts[0], k if type(k) is int else None, tenant)
    return None


def _whole(counts: Sequence[Any], place: str, names: str, faults: Faults) -> bool:
    well = all(type(count) is int and 0 <= count <= MOST_COUNT for count in counts)
    if not well:
        faults.add(f"{place}: {names} are whole numbers from 0 on")
    return well


def from_totals(requests: Sequence[Totals], source: str, measured_at: int | None = None) -> Acceptance:
    """Make one curve for each tenant and draft length; it tells the acceptance at that length alone.

    Parameters
    ----------
    measured_at
        K that was configured, where the counts do not tell it.

    Raises
    ------
    InputError
        Counts that contradict one another; a K that is neither told nor follows; nothing drafted at all.
    """
    faults = Faults()
    groups: dict[tuple[str | None, int], list[Totals]] = {}
    notes: dict[str, None] = {}
    by_setting: dict[tuple[str | None, int | None], list[Totals]] = {}
    for each in requests:
        if each.drafted == 0 or each.rounds == 0:
            continue
        if each.drafted is not None and each.accepted > each.drafted:
            faults.add(f"{each.place}: {each.accepted:g} tokens accepted of {each.drafted:g} drafted")
        by_setting.setdefault((each.tenant, each.draft_length), []).append(each)
    faults.raise_if_any()
    if not by_setting:
        raise InputError(f"{source}: no request in it drafted anything; is speculative decoding on?")
    for (tenant, told), alike in by_setting.items():
        k = told or measured_at or _follows(alike, source, notes, faults)
        if k is not None:
            groups.setdefault((tenant, k), []).extend(alike)
    curves = [_curve(alike, k, tenant, source, notes, faults) for (tenant, k), alike in groups.items()]
    faults.raise_if_any()
    lengths = ", ".join(str(k) for k in dict.fromkeys(k for _, k in groups))
    notes.setdefault(
        f"{source}: totals, nothing by position: they tell the acceptance at K = {lengths} and at no other length"
    )
    return Acceptance(tuple(curves), tuple(notes))


def _follows(requests: Sequence[Totals], source: str, notes: dict[str, None], faults: Faults) -> int | None:
    """K from the tokens drafted a round, of the requests that tell rounds, where that is nearly a whole number."""
    telling = [each for each in requests if each.drafted is not None and (each.rounds or each.steps) is not None]
    rounds = sum(each.rounds or each.steps or 0.0 for each in telling)
    short = any(each.steps is not None for each in telling) and rounds < _LEAST_STEPS * len(telling)
    mean = sum(each.drafted or 0.0 for each in telling) / rounds if rounds > 0 and not short else None
    k = 0 if mean is None else round(mean)
    if mean is None or k < 1 or abs(mean - k) > _NEAR * k:
        seen = (
            "the counts do not tell K" if mean is None else f"{mean:.2f} tokens were drafted a round, so K is not told"
        )
        faults.add(f"{source}: {seen}; say it with --acceptance-at K, or record acceptance by position")
        return None
    notes.setdefault(
        f"{source}: K = {k} follows from {mean:.2f} tokens drafted a round; if the engine stops drafts early (as with "
        "--spec-draft-p-min), say its maximum with --acceptance-at"
    )
    return k


def _curve(
    requests: Sequence[Totals], k: int, tenant: str | None, source: str, notes: dict[str, None], faults: Faults
) -> Curve:
    """Mean acceptance length over rounds, with the jackknife over requests."""
    if not 1 <= k <= MOST_DRAFT_TOKENS:
        faults.add(f"{source}: K = {k}; a draft has 1 to {MOST_DRAFT_TOKENS} tokens")
        return Curve(np.empty(0), k, tenant)
    accepted = np.array([each.accepted for each in requests], dtype=np.float64)
    rounds = np.array([_rounds(each, k) for each in requests])
    drafted = sum(each.drafted for each in requests if each.drafted is not None)
    if not _fit(requests, k, rounds, source, faults):
        return Curve(np.empty(0), k, tenant)
    if 0 < drafted < (1 - _NEAR) * k * rounds.sum():
        notes.setdefault(
            f"{source}: {drafted / rounds.sum():.2f} tokens were drafted a round, not K = {k}: tokens not drafted "
            "count as rejected, so the acceptance is a lower bound"
        )
    for note in _rounds_notes(requests, k, rounds, source if tenant is None else f"{source}, {printable(tenant)}"):
        notes.setdefault(note)
    mean = min(1.0, float(accepted.sum() / rounds.sum()) / k)
    survival = np.full(k, mean)
    if len(requests) < 2:
        return Curve(survival, k, tenant, float(rounds.sum()), by_position=False, requests=len(requests))
    left_out = (accepted.sum() - accepted) / (rounds.sum() - rounds) / k
    variance = (len(requests) - 1) / len(requests) * float(((left_out - left_out.mean()) ** 2).sum())
    quantile = float(stdtrit(len(requests) - 1, 0.975))
    covariance = np.full((k, k), variance)
    return Curve(
        survival, k, tenant, float(rounds.sum()), covariance, quantile, "requests", False, requests=len(requests)
    )


def _rounds(each: Totals, k: int) -> float:
    """Rounds of one request; a round drafts at most K tokens, so that there are no fewer than that makes."""
    if each.rounds is not None:
        return each.rounds
    return max(each.steps or 0.0, (each.drafted or 0.0) / k)


def _fit(requests: Sequence[Totals], k: int, rounds: NDArray[np.float64], source: str, faults: Faults) -> bool:
    """Whether the counts can be those of drafts of K tokens; notes what contradicts."""
    drafted = sum(each.drafted for each in requests if each.drafted is not None)
    accepted = sum(each.accepted for each in requests)
    # steps lack at most the last round and the tokens accepted in it
    wrong = [
        each for each in requests if each.steps is not None and (each.drafted or 0.0) > k * max(0.0, each.steps + k)
    ]
    for each in wrong:
        faults.add(
            f"{each.place}: {each.drafted:g} tokens drafted and {each.accepted:g} of them accepted, in "
            f"{(each.steps or 0.0) + each.accepted + 1:g} predicted, contradict K = {k}; say the right --acceptance-at"
        )
    if not wrong and max(drafted, accepted) > (1 + _NEAR) * k * rounds.sum():
        faults.add(
            f"{source}: {max(drafted, accepted) / rounds.sum():.2f} tokens a round are more than K = {k}; say "
            "the right --acceptance-at (drafts that branch, --speculative-eagle-topk above 1, have no one length)"
        )
        return False
    return not wrong


def _rounds_notes(requests: Sequence[Totals], k: int, rounds: NDArray[np.float64], place: str) -> Iterator[str]:
    """Say where rounds were not told, and what remains in doubt."""
    untold = [each for each in requests if each.rounds is None and each.steps is None and each.drafted is not None]
    if untold:
        whole = len(untold) == len(requests)
        who = "holds no rounds" if whole else f"{len(untold)} of {len(requests)} requests tell no rounds"
        yield f"{place}: {who}: every round {'' if whole else 'of theirs '}is taken to have drafted K = {k} tokens"
    if all(each.steps is None for each in requests):
        return
    accepted = sum(each.accepted for each in requests)
    drafting = float(sum((each.drafted or 0.0) / k if each.rounds is None else each.rounds for each in requests))
    doubt = (
        f"; if each held K = {k} tokens there were {drafting:.1f}, and the mean acceptance length is "
        f"{1 + accepted / drafting:.2f}, not {1 + accepted / rounds.sum():.2f}"
    )
    yield (
        f"{place}: llama.cpp's timings tell no rounds: the {rounds.sum():g} tokens predicted beside the one of prefill "
        "and those accepted are taken for rounds; steps without a draft (the last token of a length limit, drafts "
        f"given up) are among them, and a text that ends within a draft hides one"
        f"{doubt if drafting < rounds.sum() else ''}"
    )


def with_constant_match(acceptance: Acceptance) -> Acceptance:
    """Give totals a curve by position: the one whose conditional match probability is the same at every position.

    p solves 1 + p + … + p^K = the mean acceptance length; then S_j = p^j. Errors follow to first order.

    Raises
    ------
    InputError
        Every curve is known by position already.
    """
    if all(curve.by_position for curve in acceptance.curves):
        raise InputError(
            "--assume constant-match is for files that hold totals, and these hold acceptance by position: leave it out"
        )
    curves, notes = [], []
    for curve in acceptance.curves:
        if curve.by_position:
            curves.append(curve)
            continue
        k = curve.draft_length
        p = _constant_match(curve.mean_length(k) - 1.0, k)
        survival = np.power(p, np.arange(1.0, k + 1))
        each = np.arange(1, k + 1) * p ** np.arange(k)  # dS_j / dp
        error = curve.length_error(k)
        covariance = None if error is None else np.outer(each, each) * (error / float(each.sum())) ** 2
        curves.append(replace(curve, survival=survival, covariance=covariance, by_position=True))
        whose = "" if curve.tenant is None else f", tenant {printable(curve.tenant)}"
        notes.append(
            f"assumed{whose}: one match probability, {p:.3f}, at every position of drafts of {k} tokens; what it says "
            f"of K below {k} is an assumption, not a measurement"
        )
    return Acceptance(tuple(curves), (*acceptance.notes, *notes))


def _constant_match(accepted: float, k: int) -> float:
    """The p with p + … + p^k = accepted tokens a round."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        if float((p ** np.arange(1, k + 1)).sum()) < accepted:
            low = p
        else:
            high = p
    return high
