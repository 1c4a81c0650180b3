"""The sentences on the page of serving levers: each speaks of the setting that is advised, its cap included."""

import math
from collections.abc import Sequence

from oracle.levers.advised import Advice, Stretch, counted, set_in
from oracle.levers.answer import Answer, Run
from oracle.levers.deployment import Deployment
from oracle.levers.experts import hit_share
from oracle.levers.procedure import Configuration
from oracle.summaries.levers_admission import caps, configured, setting
from oracle.summaries.levers_experts import COUNTS_THEM
from oracle.summaries.shares import amount, percent, several

_RESTS = "what to set rests on how many experts a pass reads, see set"


def headline(found: Answer) -> str:
    """Say what to set; before it, what counting the experts that a step goes to would set, where that is another."""
    other = otherwise(found)
    if other is None:
        return setting(found)
    return unsettled(found.deployment, float(set_in(found)[0].batch), setting(other), setting(found))


def unsettled(deployment: Deployment, batch: float, counted_setting: str, stated_setting: str) -> str:
    """Put what counting the experts would set before what the deployment's own reading of them sets."""
    hit = percent(float(hit_share(deployment, batch)))
    return (
        f"not settled: a step of {several(batch, 'request')} hits {hit} of the experts; if those are counted, "
        f"{counted_setting}; {COUNTS_THEM}. As the deployment states it, every pass reading all experts: "
        f"{stated_setting}"
    )


def otherwise(found: Answer) -> Answer | None:
    """Give the answer with the experts counted that a pass goes to, where that sets something else; else None."""
    other = counted(found)
    if other is None:
        return None
    (one, cap), (two, other_cap) = set_in(found), set_in(other)
    return None if one.same_as(two) and (cap is None) == (other_cap is None) else other


def margin(found: Answer, advised: Advice) -> str:
    """Say how far the next best is, and what limits the batch."""
    best, second = advised.priced[0], advised.priced[1]
    gap = float(second.parts.total_ms / best.parts.total_ms) - 1
    B, C = float(best.parts.batch), float(found.regime.concurrency)
    if advised.cap is not None:
        bound = f"the cap admits {amount(B)} of {several(C, 'request')}"
        own = f" at its own {amount(float(second.parts.batch))} admitted"
    else:
        together = "the one request decodes alone" if C == 1 else f"all {several(C, 'request')} decode together"
        bound = together if B >= C else f"the KV cache holds {amount(B)} of {several(C, 'request')}"
        own = ""
    return f"{percent(gap)} dearer is the next best, {configured(found.deployment, second.configuration)}{own}; {bound}"


def lengths(found: Answer, advised: Advice) -> str:
    """Say which draft length the model would take, all levers and the cap decided again for each."""
    stated, (last, _) = found.deployment.speculation.draft_length, advised.by_length[-1]
    length, best = min(advised.by_length, key=lambda pair: float(pair[1].decided.cost_ms))
    saved = 1 - float(best.decided.cost_ms) / advised.cost_ms
    if not best.decided.speculation_on:
        return f"speculation does not pay at any of 1 … {last} draft tokens"
    if length == stated or saved <= 0:
        best_of = "is" if stated == 1 else "are"
        return f"{several(stated, 'draft token')} {best_of} the best of 1 … {last}"
    named = configured(found.deployment, best.decided.configuration())
    capped = f", at most {float(best.decided.batch):g} admitted" if best.capped else ""
    return f"stated: {stated}; of 1 … {last} the model would draft {length} ({named}{capped}), {percent(saved)} cheaper"


def certainty(found: Answer, advised: Advice) -> str:
    """Say what the intervals leave of the advice."""
    if not found.has_intervals:
        if otherwise(found) is not None:
            return f"nothing: {_RESTS}"
        return "no intervals were given on repetitiveness, prefix share or eta: values taken as exact"
    states = f"at {found.deployment.precisions[advised.configuration.precision].name}"
    states += "" if advised.cap is None else f" with {advised.cap:g} admitted"
    states += f": speculation {advised.speculation}, prefix cache {advised.prefix}"
    within = "within the intervals"
    if counted(found) is not None:
        within += ", with all experts read or those counted that a step goes to,"
    if len(advised.possible) == 1:
        return f"{states}; this configuration is the cheapest everywhere {within.rstrip(',')}"
    named = "; ".join(_possible(found.deployment, *each, cap=advised.cap) for each in advised.possible)
    plain = advised.cap is None and not any(capped for _, capped in advised.possible)
    may = "configurations may be the cheapest" if plain else "settings may be advised"
    said = f"{states}; {within} {len(advised.possible)} {may}: {named}"
    return said if otherwise(found) is None else f"nothing: {_RESTS}; {said}"


def _possible(deployment: Deployment, each: Configuration, capped: bool, cap: float | None) -> str:
    said = configured(deployment, each)
    return f"{said}, admission capped" if capped else f"{said}, not capped" if cap is not None else said


def ordered(found: Answer) -> str:
    """Compare with both readings of the source's procedure."""
    said = []
    for name, each in (("literal", found.literal), ("speculation-aware", found.aware)):
        if each.same_as(found.joint):
            said.append(f"{name}: the same")
        else:
            more = percent(float(each.cost_ms / found.joint.cost_ms) - 1)
            said.append(f"{name}: {configured(found.deployment, each.configuration())}, {more} dearer")
    return "; ".join(said)


def ranges(deployment: Deployment, runs: Sequence[Run | Stretch], spec: str) -> str:
    """Say where what holds changes."""
    named = [
        configured(deployment, run.configuration) + (caps(run) if isinstance(run, Stretch) else "") for run in runs
    ]
    if len(runs) == 1:
        return f"nowhere: {named[0]} throughout"
    return "; ".join(f"{spanned(run.low, run.high, spec)}: {name}" for run, name in zip(runs, named, strict=True))


def spanned(low: float, high: float, spec: str) -> str:
    """Write a range; without an upper end it goes on."""
    if math.isinf(high):
        return f"from {low:{spec}} on"
    return f"{low:{spec}}" if low == high else f"{low:{spec}} – {high:{spec}}"


def look_again(found: Answer, advised: Advice) -> str:
    """Name the nearest changes of the advice in each direction."""
    regime = found.regime.values()
    said = []
    for name, runs, spec in (
        ("concurrency", advised.by_concurrency, ",.0f"),
        ("repetitiveness", advised.by_repetitiveness, ".3f"),
        ("prefix share", advised.by_prefix_share, ".3f"),
    ):
        value = regime[name.replace(" ", "_")]
        # between two points of the scan a value belongs to the nearer range that holds the advice
        at = next((i for i, run in enumerate(runs) if run.low <= value <= run.high and _is(advised, run)), None)
        if at is None:
            said.append(f"{name} is at a flip now")
            continue
        ends = [f"below {runs[at].low:{spec}}"] if at > 0 else []
        ends += [f"above {runs[at].high:{spec}}"] if at < len(runs) - 1 else []
        said += [f"{name} {' or '.join(ends)}"] if ends else []
    return f"after every change of precision or draft length; with {', '.join(said) or 'nothing else in reach'}"


def _is(advised: Advice, run: Stretch) -> bool:
    return run.configuration == advised.configuration and (run.caps is None) == (advised.cap is None)
