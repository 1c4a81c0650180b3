"""Per-request metrics by position: what vLLM, SGLang, TensorRT-LLM and ik_llama.cpp send with each response.

With the steps of each request (vLLM's ``--per-request-spec-decode-metrics detailed``), a position that was not drafted
is told from one that was rejected. Histograms and counts by depth cannot tell them apart.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance.counters import agree
from oracle.acceptance.curves import Acceptance, Curve, clustered
from oracle.acceptance.totals import MOST_COUNT, NAMES
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable

STEPS = ("per_step_accepted", "per_step_drafted")
# rounds by number of accepted tokens: vLLM and TensorRT-LLM; SGLang now and formerly
HISTOGRAMS = ("acceptance_histogram", "spec_correct_drafts_histogram", "spec_accept_histogram")
DEPTHS = "draft_by_depth"  # ik_llama.cpp
_DRAFTED = ("num_draft_tokens", "total_draft_tokens", "spec_num_proposed_drafts")
_LOWER_BOUNDS = (
    "some requests drafted fewer than K tokens a round and hold no steps: positions not drafted count as rejected, so "
    "the rates are lower bounds; record per-request metrics as `detailed` (vLLM) to tell them apart"
)
_Counts = tuple[NDArray[np.float64], NDArray[np.float64]]


def metrics_in(tree: Any, place: str, tenant: str | None = None) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Walk parsed JSON to every object that holds a request's metrics; a key ``tenant`` around it names its tenant."""
    if isinstance(tree, dict):
        named = tree.get("tenant", tenant)
        tenant = named if isinstance(named, str) else tenant
        if STEPS[0] in tree or DEPTHS in tree or _histogram_name(tree):
            yield tree, place, tenant
            return
        for key, value in tree.items():
            yield from metrics_in(value, f"{place}.{printable(key, 30)}", tenant)
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from metrics_in(value, f"{place}[{i}]", tenant)


def _histogram_name(metrics: dict[str, Any]) -> str | None:
    return next((name for name in HISTOGRAMS if metrics.get(name) is not None), None)


def from_requests(tree: Any, source: str) -> Acceptance:
    """Gather the metrics of requests into one curve for each tenant and configured draft length.

    Raises
    ------
    InputError
        Metrics that contradict themselves; nothing drafted at all.
    """
    faults = Faults()
    groups: dict[tuple[str | None, int], list[_Counts]] = {}
    notes: dict[str, None] = {}
    for metrics, place, tenant in metrics_in(tree, source):
        found = counts_of(metrics, place, faults, notes)
        if found is None:
            continue
        counts, varying = found
        if varying:
            notes.setdefault(
                f"{source}: the engine drafted fewer than K tokens in some rounds; not drafted is not counted as "
                "rejected, but if it stops where it expects a rejection, survival is still over-estimated"
            )
        groups.setdefault((tenant, counts[0].size), []).append(counts)
    faults.raise_if_any()
    curves = [_joined(counts, depth, tenant) for (tenant, depth), counts in groups.items()]
    curves = [curve for curve in curves if len(curve.survival)]
    if not curves:
        raise InputError(f"{source}: no request in it drafted anything; is speculative decoding on?")
    return Acceptance(tuple(curves), tuple(notes))


def counts_of(
    metrics: dict[str, Any], place: str, faults: Faults, notes: dict[str, None]
) -> tuple[_Counts, bool] | None:
    """Rounds at risk and accepted tokens by position of one request, and whether its drafts varied in length.

    Returns
    -------
    ((K,) at risk, (K,) accepted), varied; or None where it holds no counts or a fault was noted.
    """
    if STEPS[0] in metrics:
        found = _steps(metrics, place, faults)
    elif DEPTHS in metrics:
        found = _depths(metrics[DEPTHS], place, faults, notes)
    else:
        found = _histogram(metrics, place, faults, notes)
    if found is not None:
        _check_totals(metrics, found[0], place, faults)
    return found


def _check_totals(metrics: dict[str, Any], counts: _Counts, place: str, faults: Faults) -> None:
    """Note totals beside the counts by position that contradict them."""
    drafting, accepted = counts[0][0], counts[1].sum()
    possible = [drafting]
    if STEPS[0] in metrics:
        possible.append(len(metrics[STEPS[0]]))  # steps without a draft may count as rounds
    for name in dict.fromkeys(names[0] for names in NAMES):
        told = metrics.get(name)
        if type(told) is int and not any(agree(told, rounds) for rounds in possible):
            faults.add(f"{place}: {name} is {told}, the counts by position are of {drafting:g} rounds; which holds?")
    for name in dict.fromkeys(names[1] for names in NAMES):
        told = metrics.get(name)
        if type(told) is int and not agree(told, accepted):
            faults.add(f"{place}: {name} is {told}, the counts by position sum to {accepted:g}; which holds?")


def _joined(counts: list[_Counts], depth: int, tenant: str | None) -> Curve:
    drafting = [(risk, hits) for risk, hits in counts if risk[0] > 0]
    if not drafting:
        return Curve(np.empty(0), depth, tenant)
    return clustered(np.stack([risk for risk, _ in drafting]), np.stack([hits for _, hits in drafting]), depth, tenant)


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= MOST_COUNT for item in value)


def _configured(metrics: dict[str, Any], least: int, place: str, faults: Faults) -> int | None:
    """K as configured; the longest draft seen where the engine does not say."""
    k = metrics.get("num_spec_tokens")
    if k is None:
        k = _proposed(metrics, least)
    if type(k) is not int or not max(least, 0) <= k <= MOST_DRAFT_TOKENS:
        faults.add(
            f"{place}: num_spec_tokens is {printable(repr(k), 40)}; a whole number from the longest draft, {least}, on"
        )
        return None
    return k


def _proposed(metrics: dict[str, Any], least: int) -> int:
    """K from SGLang's proposed drafts, where all rounds drafted the same; else the longest draft seen."""
    drafted, rounds = metrics.get("spec_num_proposed_drafts"), metrics.get("spec_verify_ct")
    if type(drafted) is int and type(rounds) is int and rounds > 0 and drafted % rounds == 0:
        return max(least, drafted // rounds)
    return least


def _steps(metrics: dict[str, Any], place: str, faults: Faults) -> tuple[_Counts, bool] | None:
    """Counts by position from the steps of a request."""
    accepted, drafted = (metrics.get(name) for name in STEPS)
    if not _whole_numbers(accepted) or not _whole_numbers(drafted):
        faults.add(f"{place}: {STEPS[0]} and {STEPS[1]} are lists of whole numbers from 0 on, one a round")
        return None
    assert isinstance(accepted, list)
    assert isinstance(drafted, list)
    if len(accepted) != len(drafted):
        faults.add(f"{place}: {len(accepted)} steps accepted, {len(drafted)} drafted; one number a round in both")
        return None
    for i, (a, d) in enumerate(zip(accepted, drafted, strict=True)):
        if a > d:
            faults.add(f"{place}, step {i}: {a} tokens accepted of {d} drafted")
            return None
    k = _configured(metrics, max(drafted, default=0), place, faults)
    if not k:
        return None
    position = np.arange(1, k + 1)
    a, d = np.array(accepted)[:, None], np.array(drafted)[:, None]
    at_risk = ((d >= position) & (a >= position - 1)).sum(axis=0).astype(np.float64)
    hits = (a >= position).sum(axis=0).astype(np.float64)
    return (at_risk, hits), any(0 < d < k for d in drafted)


def _histogram(
    metrics: dict[str, Any], place: str, faults: Faults, notes: dict[str, None]
) -> tuple[_Counts, bool] | None:
    """Counts by position from rounds by number of accepted tokens; dense (a list) or sparse (an object)."""
    name = _histogram_name(metrics)
    assert name is not None
    given = metrics[name]
    if isinstance(given, dict) and all(str(key).isdecimal() and len(key) <= 9 for key in given):
        rounds_of = {int(key): value for key, value in given.items()}
        if max(rounds_of, default=0) > MOST_DRAFT_TOKENS:
            faults.add(f"{place}: {name} counts {max(rounds_of)} accepted tokens; at most {MOST_DRAFT_TOKENS}")
            return None
        given = [rounds_of.get(j, 0) for j in range(max(rounds_of, default=0) + 1)]
    if not _whole_numbers(given):
        faults.add(f"{place}: {name} holds the rounds by accepted tokens: whole numbers from 0 on")
        return None
    k = _configured(metrics, max((j for j, rounds in enumerate(given) if rounds), default=0), place, faults)
    if not k or not sum(given):
        return None
    rounds = np.zeros(k + 1)
    rounds[: min(len(given), k + 1)] = given[: k + 1]
    surviving = rounds[::-1].cumsum()[::-1]  # rounds that accepted at least j tokens, j = 0 … K
    drafted = next((metrics[each] for each in _DRAFTED if each in metrics), None)
    if isinstance(drafted, int) and drafted < k * surviving[0]:
        notes.setdefault(_LOWER_BOUNDS)
    return (surviving[:-1], surviving[1:]), False


def _depths(rows: Any, place: str, faults: Faults, notes: dict[str, None]) -> tuple[_Counts, bool] | None:
    """Counts by position from tokens drafted and accepted at each depth, from 1 on."""
    names = ("depth", "draft_n", "draft_n_accepted")
    listed = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    counts = [[row.get(name) for name in names] for row in rows] if listed else []
    if not counts or not all(_whole_numbers(row) for row in counts) or len(counts) > MOST_DRAFT_TOKENS:
        faults.add(f"{place}: {DEPTHS} holds {', '.join(names)} for each depth: whole numbers from 0 on")
        return None
    depth, drafted, accepted = np.array(counts, dtype=np.float64).T
    if (depth != np.arange(1, len(depth) + 1)).any():
        faults.add(f"{place}: depths of {DEPTHS} count from 1 without a gap")
        return None
    at_risk = np.append(drafted[0], accepted[:-1])
    if (accepted > np.minimum(at_risk, drafted)).any():
        faults.add(f"{place}: {DEPTHS} accepts more tokens than were drafted there, or than were accepted before it")
        return None
    if (drafted < drafted[0]).any():
        notes.setdefault(_LOWER_BOUNDS)
    return (at_risk, accepted), False
