"""What is shown of a memory plan: one page first, then the tables it rests on."""

import math

from oracle.pool.answer import Choice, PoolAnswer
from oracle.pool.budget import name_of
from oracle.pool.early_exit import MOST_BATCH, largest_batch_saving
from oracle.pool.measured_experts import MeasuredExperts
from oracle.pool.plan import GIB
from oracle.pool.unique_experts import measured_at
from oracle.pool.worth import Verdict, Worth, verdict
from oracle.summaries.pool_tables import (
    DEPENDS_ON,
    budget_table,
    early_exit_table,
    judged,
    slashed,
    speedups_table,
    stated_table,
    tenants_table,
)
from oracle.summaries.shares import percent, several
from oracle.tables import Table, words

_SAVING = 0.01  # below, early exit is called nothing
TWO_READINGS = (
    "a: verifying drafts takes time on top of reading bytes; b: it hides behind reading, a pass takes the longer of "
    "reading bytes and computing all its tokens, that of the plain step included; a verdict stands where both agree"
)
_ANY = "any number of"


def pool_tables(found: PoolAnswer) -> list[Table]:
    """Give every table, the page first."""
    tables = [answer_table(found), budget_table(found)]
    if found.plan.tenants:
        tables.append(tenants_table(found))
    if found.worths:
        tables.append(speedups_table(found))
    if found.early_exit is not None:
        tables.append(early_exit_table(found))
    return [*tables, stated_table(found)]


def answer_table(found: PoolAnswer) -> Table:
    """Say on one page what fits, what each speed-up costs and gives, and what is left open."""
    facts = [(_fits_head(found, each), _fits(found, each)) for each in _one_per_weights(found)]
    if found.chosen is None:
        what = "not one tenant" if any(choice.budget.fits for choice in found.choices) else "nothing"
        facts.append(("chosen", f"{what} fits at any precision stated, so speed-ups have no pool to take from"))
    else:
        choice = found.choices[found.chosen]
        here = [each for i, each in found.worths if i == found.chosen]
        facts += _chosen(found, choice)
        if any(each.hidden is not None for each in here):
            facts.append(("a / b", TWO_READINGS))
        facts += [(each.speedup.name, _worth(found, each)) for each in here]
        facts += _everywhere(found)
    if found.early_exit is not None:
        facts.append(("early exit", _early_exit(found)))
    if found.measured is not None:
        facts.append(("unique experts", _experts(found.measured)))
    facts += [("left open", said) for said in found.left_open]
    facts.append(("from", _origin(found)))
    memory = found.plan.memory
    what = "left for KV by weights and reserve" if memory.is_pool else "of usable HBM"
    title = f"Memory pool: {memory.usable_bytes / GIB:.2f} GiB {what}"
    rows = [{"fact": fact, "value": value} for fact, value in facts]
    return Table("pool", title, (words("", "fact"), words("", "value", most=1000)), rows)


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
        idle = f"; one token does not use {laid.idle_weights_bytes / GIB:.2f} GiB of the weights"
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
        facts.append(("experts", _idle(found, choice, choice.dense_tenants - laid.tenants)))
    best = max(found.choices, key=lambda each: each.budget.tenants or 0)
    if best is not choice and (best.budget.tenants or 0) > laid.tenants:
        facts.append(("most tenants", f"{best.budget.tenants:,} at {name_of(found.plan, best.served)}"))
    return facts


def _idle(found: PoolAnswer, choice: Choice, lost: int) -> str:
    """Say what room the weights take that one token does not use, and that a batch uses many of them all the same."""
    room = f"weights that one token does not use take the room of {several(lost, 'tenant')}"
    if choice.hit_share is None:
        return f"{room}; a batch uses more of them than one token, how many is not known: experts are not stated"
    how = "as measured" if measured_at(found.plan.unique_experts, 0) else "by the uniform formula"
    n = choice.budget.tenants or 0
    batch = "one tenant" if n == 1 else f"the {n:,} tenants that fit"
    return (
        f"{room}, but a step of {batch} uses {percent(choice.hit_share)} of the experts of a layer ({how}), and the "
        "next step others: they cannot be dropped"
    )


def _worth(found: PoolAnswer, each: Worth) -> str:
    """Say what one speed-up costs, what it gives, and where both are the same."""
    cost = _cost(found, each)
    if not each.having.fits:
        return f"{cost}: does not fit"
    if each.tenants_lost is None:
        still = 1 / (1 - each.pool_share) if each.pool_share < 1 else math.inf
        return f"{cost}; at a full pool each tenant left has to be {still:.3f} times as fast to make up for it"
    cost += f"; displaces {each.tenants_lost:,} of {several(each.without.tenants or 0, 'tenant')}"
    if each.having.tenants == 0:
        return f"{cost}: none is left"
    if each.length_needed is None:
        return f"{cost}; what it gives is not known without times"
    return f"{cost}; {_gives(each)}; {_needs(each)}"


def _size(size: int) -> str:
    """Show bytes in GiB, small ones in MiB."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):,.3g} MiB"


def _cost(found: PoolAnswer, each: Worth) -> str:
    """Say what a speed-up takes from the pool: its weights, and what it adds to the KV of how many tenants."""
    own, share = each.having.draft_bytes, percent(each.pool_share)
    weights = f"{_size(own)} of weights" if own else "no weights"
    if each.having.tenants is None:
        unsaid = "; KV of its own is not in that" if each.speedup.kv_bytes_per_token else ""
        return f"takes {weights}, {share} of the pool{unsaid}" if own else f"takes {weights}{unsaid}"
    if not each.held or not each.kv_bytes:
        return f"takes {_size(own)}, {share} of the pool" if own else "takes no memory"
    n = each.held
    where = f"each of the {n:,} tenants that {'fit with it' if n < each.wanted else 'are asked for'}"
    kv = f"{_with_kv(found, each)} for {where if n > 1 else 'one tenant'}, {_size(each.kv_bytes)}"
    return f"takes {_size(each.taken_bytes)}, {share} of the pool: {weights}, and {kv}"


def _with_kv(found: PoolAnswer, each: Worth) -> str:
    """Say what each tenant holds more, and what of: slots that drafts are written to, and KV of the draft's own."""
    total, count = each.having.draft_tenant_bytes
    kv, slots = found.plan.kv, several(each.speedup.draft_length, "draft token")
    blocks = f" in blocks of {kv.block_tokens:,}" if kv is not None and kv.block_tokens > 1 else ""
    own = " and KV of its own" if each.speedup.kv_bytes_per_token else ""
    return f"{total / count / (1 << 20):,.1f} MiB (slots for {slots}{blocks}{own})"


def _gives(each: Worth) -> str:
    if each.gain is None or each.same_gain is None:
        return "its acceptance is not stated"
    of = each.readings
    said = f"at a full pool it {judged([r.gain for r in of])}: {slashed([r.gain for r in of])} times the tokens"
    before = slashed([r.tokens_per_s_without for r in of], ",.0f")
    said += f" ({before} → {slashed([r.tokens_per_s_with for r in of], ',.0f')} a second)"
    said += f", {slashed([r.same_gain for r in of])} times at the same tenants"
    if each.asked_gain is not None and each.asked is not None and each.asked < (each.without.tenants or 0):
        gains = [r.asked_gain for r in of]
        asked = several(each.asked, "tenant")
        said = f"at the {asked} asked for it {judged(gains)}: {slashed(gains)} times the tokens; {said}"
    ranges = list(dict.fromkeys(_ranges(r) for r in of))
    return said if ranges == [_ANY] else f"{said}; pays with {' / '.join(ranges)} tenants"


def _everywhere(found: PoolAnswer) -> list[tuple[str, str]]:
    """Say in how many precisions each speed-up pays at the tenants asked for, as far as they fit."""
    facts = []
    for speedup in found.plan.speedups if len(found.choices) > 1 else ():
        verdicts = {
            name_of(found.plan, found.choices[i].served): verdict([r.asked_gain for r in w.readings])
            for i, w in found.worths
            if w.speedup is speedup and w.asked_gain is not None
        }
        on = [name for name, said in verdicts.items() if said is Verdict.PAYS]
        unsure = [name for name, said in verdicts.items() if said is Verdict.DEPENDS]
        if verdicts:
            where = f": {'; '.join(on)}" if 0 < len(on) < len(verdicts) else ""
            said = f"{speedup.name} pays in {len(on)} of {len(verdicts)} that can be judged{where}"
            if unsure:
                said += f"; in {len(unsure)} it {DEPENDS_ON}: {'; '.join(unsure)}"
            facts.append(("all precisions", said))
    return facts


def _ranges(each: Worth) -> str:
    """Numbers of tenants at which it pays."""
    if not each.pays:
        return "no number of"
    return _ANY if each.pays == ((1, math.inf),) else ", ".join(_range(*pair) for pair in each.pays)


def _range(low: int, high: float) -> str:
    if math.isinf(high):
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,.0f}"


def _needs(each: Worth) -> str:
    """Say the break-evens."""
    of = each.readings
    length = slashed([r.length_needed for r in of], ".2f")
    needed = [r.acceptance_needed for r in of]
    out_of_reach = [value is None or math.isinf(value) for value in needed]
    if all(out_of_reach):
        said = f"it would need {length} tokens a round, more than {each.speedup.draft_length + 1}"
    else:
        never = f"; more than {each.speedup.draft_length + 1} is out of reach" if any(out_of_reach) else ""
        said = f"break-even at {length} tokens a round (acceptance {slashed(needed)}{never})"
    sizes = [r.most_draft_bytes for r in of]
    if sizes[0] is None:
        return said
    if all(size is not None and size < 0 for size in sizes):
        return f"{said}; no size of draft pays"
    shown = dict.fromkeys("none" if size is None or size < 0 else _size(int(size)) for size in sizes)
    return f"{said} or {' / '.join(shown)} of draft"


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
            f"; at the {several(found.at_once, 'tenant')}{that_fit} {percent(saved.lockstep[at])} in lockstep, "
            f"{percent(saved.compaction[at])} with compaction, {percent(saved.refilling[at])} if freed rows "
            "were refilled; takes nothing from the pool"
        )
    return said


def _experts(measured: MeasuredExperts) -> str:
    half = "" if math.isnan(measured.half) else f" ± {measured.half:.2f}"
    return (
        f"measured on batches of {measured.generations:,} generations ({measured.clusters:,} clusters) in the traces, "
        f"up to {measured.largest_batch:,} tenants, beyond by the uniform formula's growth from there on; "
        f"{several(measured.batch, 'tenant')} with {several(measured.draft_length, 'draft token')} touch "
        f"{measured.mean:.2f}{half} a layer, by the uniform formula {measured.uniform:.2f}"
    )


def _origin(found: PoolAnswer) -> str:
    timing = found.plan.timing
    if timing is None:
        return "bytes and tenants are exact for what is stated; no times"
    if timing.is_measured:
        return "bytes and tenants are exact for what is stated; times are lines through stated measurements"
    return (
        "bytes and tenants are exact for what is stated; times are calculated from bytes read and a price of "
        "computing, none was measured; tokens are expected ones for the acceptance stated"
    )
