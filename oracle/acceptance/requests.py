"""Per-request metrics: what vLLM (``--per-request-spec-decode-metrics``) and TensorRT-LLM send with each response.

With the steps of each request (detailed), a position that was not drafted is told from one that was rejected.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance.curves import Acceptance, Curve, clustered
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable

STEPS = ("per_step_accepted", "per_step_drafted")
HISTOGRAM = "acceptance_histogram"
_Counts = tuple[NDArray[np.float64], NDArray[np.float64]]


def metrics_in(tree: Any, place: str, tenant: str | None = None) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Walk parsed JSON to every object that holds a request's metrics; a key ``tenant`` around it names its tenant."""
    if isinstance(tree, dict):
        named = tree.get("tenant", tenant)
        tenant = named if isinstance(named, str) else tenant
        if STEPS[0] in tree or HISTOGRAM in tree:
            yield tree, place, tenant
            return
        for key, value in tree.items():
            yield from metrics_in(value, f"{place}.{printable(key, 30)}", tenant)
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from metrics_in(value, f"{place}[{i}]", tenant)


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
        found = _steps(metrics, place, faults) if STEPS[0] in metrics else _histogram(metrics, place, faults, notes)
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


def _joined(counts: list[_Counts], depth: int, tenant: str | None) -> Curve:
    drafting = [(risk, hits) for risk, hits in counts if risk[0] > 0]
    if not drafting:
        return Curve(np.empty(0), depth, tenant)
    return clustered(np.stack([risk for risk, _ in drafting]), np.stack([hits for _, hits in drafting]), depth, tenant)


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _configured(metrics: dict[str, Any], least: int, place: str, faults: Faults) -> int | None:
    """K as configured; the longest draft seen where the engine does not say."""
    k = metrics.get("num_spec_tokens")
    k = least if k is None else k
    if type(k) is not int or not max(least, 0) <= k <= MOST_DRAFT_TOKENS:
        faults.add(f"{place}: num_spec_tokens is {k!r}; a whole number from the longest draft, {least}, on")
        return None
    return k


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
    given = metrics[HISTOGRAM]
    if isinstance(given, dict) and all(str(key).isdecimal() for key in given):
        rounds_of = {int(key): value for key, value in given.items()}
        if max(rounds_of, default=0) > MOST_DRAFT_TOKENS:
            faults.add(f"{place}: {HISTOGRAM} counts {max(rounds_of)} accepted tokens; at most {MOST_DRAFT_TOKENS}")
            return None
        given = [rounds_of.get(j, 0) for j in range(max(rounds_of, default=0) + 1)]
    if not _whole_numbers(given):
        faults.add(f"{place}: {HISTOGRAM} holds the rounds by accepted tokens: whole numbers from 0 on")
        return None
    k = _configured(metrics, max((j for j, rounds in enumerate(given) if rounds), default=0), place, faults)
    if not k or not sum(given):
        return None
    rounds = np.zeros(k + 1)
    rounds[: min(len(given), k + 1)] = given[: k + 1]
    surviving = rounds[::-1].cumsum()[::-1]  # rounds that accepted at least j tokens, j = 0 … K
    drafted = metrics.get("num_draft_tokens", metrics.get("total_draft_tokens"))
    if isinstance(drafted, int) and drafted < k * surviving[0]:
        notes.setdefault(
            "some requests drafted fewer than K tokens a round and hold no steps: positions not drafted count as "
            "rejected, so the rates are lower bounds; record per-request metrics as `detailed`"
        )
    return (surviving[:-1], surviving[1:]), False
