"""What is shown of a memory plan: one page first, then the tables it rests on."""

import math

from oracle.pool.answer import Choice, PoolAnswer
from oracle.pool.budget import name_of
from oracle.pool.early_exit import MOST_BATCH, largest_batch_saving
from oracle.pool.plan import GIB
from oracle.pool.worth import Worth
from oracle.summaries.pool_tables import (
    budget_table,
    early_exit_table,
    speedups_table,
    stated_table,
    tenants_table,
)
from oracle.summaries.shares import percent
from oracle.tables import Table, words

_SAVING = 0.01  # below, early exit is called nothing


def pool_tables(found: PoolAnswer) -> list[Table]:
    """Give every table, the page first."""
    tables = [answer_table(found), budget_table(found)]
    if found.plan.tenants:
        tables.append(tenants_table(found))
    if found.worths:
        tables.append(speedups_table(found))
    if found.early_exit is not None:
        tables.append(early_exit_table(found))
    return [*tables, stated_table(found.plan)]


def answer_table(found: PoolAnswer) -> Table:
    """Say on one page what fits, what each speed-up costs and gives, and what is left open."""
    facts = [(_fits_head(found, each), _fits(found, each)) for each in _one_per_weights(found)]
    if found.chosen is None:
        what = "not one tenant" if any(choice.budget.fits for choice in found.choices) else "nothing"
        facts.append(("chosen", f"{what} fits at any precision stated, so speed-ups have no pool to take from"))
    else:
        choice = found.choices[found.chosen]
        facts += [*_chosen(found, choice), *((w.speedup.name, _worth(w)) for i, w in found.worths if i == found.chosen)]
        facts += _everywhere(found)
    if found.early_exit is not None:
        facts.append(("early exit", _early_exit(found)))
    facts += [("left open", said) for said in found.left_open]
    facts.append(("from", _origin(found)))
    memory = found.plan.memory
    what = "left for KV by weights and reserve" if memory.is_pool else "of usable HBM"
    title = f"Memory pool: {memory.usable_bytes / GIB:.2f} GiB {what}"
    rows = [{"fact": fact, "value": value} for fact, value in facts]
    return Table("pool", title, (words("", "fact"), words("", "value", most=600)), rows)


def _one_per_weights(found: PoolAnswer) -> list[Choice]:
    """One choice for each precision of the weights: what fits does not depend on that of KV."""
    seen: dict[str, Choice] = {}
    for choice in found.choices:
        seen.setdefault(choice.served.weights.name, choice)
    return list(seen.values())


def _fits_head(found: PoolAnswer, choice: Choice) -> str:
    return "pool" if found.plan.memory.is_pool else choice.served.weights.name


def _fits(found: PoolAnswer, choice: Choice) -> str:
    laid = choice.budget
    if found.plan.memory.is_pool:
        return f"{laid.pool_bytes / GIB:.2f} GiB for KV"
    size = f"{laid.weights_bytes / 1e9:.1f} GB of weights, {laid.weights_bytes / GIB:.2f} GiB"
    if not laid.fits:
        return f"does not fit: {size}, {-laid.pool_bytes / GIB:.2f} GiB too many"
    left = f"{laid.pool_bytes / GIB:.2f} GiB left for KV ({percent(laid.pool_bytes / laid.usable_bytes)} of the HBM)"
    idle = ""
    if laid.idle_weights_bytes:
        idle = f"; {laid.idle_weights_bytes / GIB:.2f} GiB of the weights are those that a token does not use"
    return f"fits: {size}; {left}{idle}"


def _chosen(found: PoolAnswer, choice: Choice) -> list[tuple[str, str]]:
    """Say what follows holds for, and how many tenants fit there."""
    facts = []
    if len(found.choices) > 1:
        facts.append(("what follows", f"at {name_of(found.plan, choice.served)}, the first stated that fits"))
    laid, asked = choice.budget, found.plan.tenants_asked
    if laid.tenants is None or laid.tenant_bytes is None:
        return facts
    total, count = laid.tenant_bytes
    enough = "all fit" if total <= laid.pool_bytes else f"{asked - laid.tenants:,} do not fit"
    facts.append(
        (
            "tenants",
            f"{laid.tenants:,} of this mix fit, {total / count / GIB:.3f} GiB each; {asked:,} are asked for: {enough}",
        )
    )
    if choice.dense_tenants is not None:
        lost = choice.dense_tenants - laid.tenants
        facts.append(
            (
                "experts",
                f"weights that a token does not use take the place of {lost:,} tenants: {choice.dense_tenants:,} "
                f"would fit without them",
            )
        )
    best = max(found.choices, key=lambda each: each.budget.tenants or 0)
    if best is not choice and (best.budget.tenants or 0) > laid.tenants:
        facts.append(("most tenants", f"{best.budget.tenants:,} at {name_of(found.plan, best.served)}"))
    return facts


def _worth(each: Worth) -> str:
    """Say what one speed-up costs, what it gives, and where both are the same."""
    own = each.having.draft_bytes
    cost = f"takes {_size(own)}, {percent(each.pool_share)} of the pool" if own else "takes no memory of its own"
    if not each.having.fits:
        return f"{cost}: does not fit"
    if each.tenants_lost is None:
        still = 1 / (1 - each.pool_share) if each.pool_share < 1 else math.inf
        return f"{cost}; at a full pool each tenant left has to be {still:.3f} times as fast to make up for it"
    cost += f", {_with_kv(each)}and {each.tenants_lost:,} of {each.without.tenants:,} tenants"
    if each.having.tenants == 0:
        return f"{cost}: none is left"
    if each.length_needed is None:
        return f"{cost}; what it gives is not known without times"
    return f"{cost}; {_gives(each)}; {_needs(each)}"


def _size(size: int) -> str:
    """Show bytes in GiB, small ones in MiB."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):,.3g} MiB"


def _with_kv(each: Worth) -> str:
    more = _tenant(each.having.tenant_bytes) - _tenant(each.without.tenant_bytes)
    return f"{more / (1 << 20):,.1f} MiB more for each tenant " if more else ""


def _tenant(mean: tuple[int, int] | None) -> float:
    return 0.0 if mean is None else mean[0] / mean[1]


def _gives(each: Worth) -> str:
    if each.gain is None or each.same_gain is None:
        return "its acceptance is not stated"
    said = f"at a full pool it {_verdict(each.gain)}: {each.gain:.3f} times the tokens"
    said += f" ({each.tokens_per_s_without:,.0f} → {each.tokens_per_s_with:,.0f} a second)"
    said += f", {each.same_gain:.3f} times at the same tenants"
    if each.asked_gain is not None and each.asked is not None and each.asked < (each.without.tenants or 0):
        said = (
            f"at the {each.asked:,} tenants asked for it {_verdict(each.asked_gain)}: {each.asked_gain:.3f} times the "
            f"tokens; {said}"
        )
    if each.pays is not None and not (len(each.pays) == 1 and each.pays[0] == (1, math.inf)):
        ranges = ", ".join(_range(*pair) for pair in each.pays)
        said += f"; pays with {ranges} tenants" if each.pays else "; pays with no number of tenants"
    return said


def _verdict(gain: float) -> str:
    return "pays" if gain > 1 else "does not pay"


def _everywhere(found: PoolAnswer) -> list[tuple[str, str]]:
    """Say in how many precisions each speed-up pays at the tenants asked for, as far as they fit."""
    facts = []
    for speedup in found.plan.speedups if len(found.choices) > 1 else ():
        gains = [(i, w.asked_gain) for i, w in found.worths if w.speedup is speedup and w.asked_gain is not None]
        on = [name_of(found.plan, found.choices[i].served) for i, gain in gains if gain > 1]
        if gains:
            where = f": {'; '.join(on)}" if 0 < len(on) < len(gains) else ""
            said = f"{speedup.name} pays in {len(on)} of {len(gains)} that can be judged{where}"
            facts.append(("all precisions", said))
    return facts


def _range(low: int, high: float) -> str:
    if math.isinf(high):
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,.0f}"


def _needs(each: Worth) -> str:
    """Say the break-evens."""
    if each.acceptance_needed is None or math.isinf(each.acceptance_needed):
        said = f"it would need {each.length_needed:.2f} tokens a round, more than {each.speedup.draft_length + 1}"
    else:
        said = f"break-even at {each.length_needed:.2f} tokens a round (acceptance {each.acceptance_needed:.3f})"
    size = each.most_draft_bytes
    if size is None:
        return said
    return f"{said} or {size / GIB:.2f} GiB of draft" if size >= 0 else f"{said}; no size of draft pays"


def _early_exit(found: PoolAnswer) -> str:
    exits, saved = found.plan.early_exit, found.early_exit
    if exits is None or saved is None:
        return "not stated"
    alone = float(saved.lockstep[0])
    last = largest_batch_saving(exits, _SAVING)
    if last == MOST_BATCH:
        tail = f"{percent(_SAVING)} or more at every batch size: no token goes through all layers"
    else:
        tail = f"{percent(_SAVING)} or more up to a batch of {last:,}" if last else f"never {percent(_SAVING)}"
    said = f"saves {percent(alone)} of a step at batch 1; in lockstep {tail}"
    if found.at_once:
        at = int(saved.batch.searchsorted(found.at_once))
        that_fit = " that fit" if found.at_once < found.plan.tenants_asked else ""
        said += (
            f"; at the {found.at_once:,} tenants{that_fit} {percent(saved.lockstep[at])} in lockstep, "
            f"{percent(saved.compaction[at])} with compaction, {percent(saved.refilling[at])} if freed rows "
            "were refilled; takes nothing from the pool"
        )
    return said


def _origin(found: PoolAnswer) -> str:
    timing = found.plan.timing
    if timing is None:
        return "bytes and tenants are exact for what is stated; no times"
    if timing.is_measured:
        return "bytes and tenants are exact for what is stated; times are lines through stated measurements"
    return (
        "bytes and tenants are exact for what is stated; times are calculated from bytes read, none was measured; "
        "tokens are expected ones for the acceptance stated"
    )
