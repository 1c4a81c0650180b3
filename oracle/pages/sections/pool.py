"""What fits into the memory of a stated plan, and what a speed-up costs there in tenants."""

from functools import partial

from oracle.errors import printable
from oracle.figures import pool as figures
from oracle.pages import drawn_pool as drawn
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.pool.answer import PoolAnswer
from oracle.pool.plan import GIB
from oracle.summaries.pool import pool_tables
from oracle.summaries.pool_tables import slashed
from oracle.summaries.shares import several
from oracle.tables import show

TITLE = "Memory pool"
_STATED = "worked out from the plan as stated, not measured, so there are no intervals"


def pool(material: Material) -> Section | LeftOut:
    """Where the bytes go, what each speed-up displaces, and what early exit saves."""
    found = material.pool
    if isinstance(found, Absent):
        return LeftOut(TITLE, found.why)
    tables = pool_tables(found)
    return Section(
        TITLE,
        "pool",
        (_what_it_is(found),),
        tuple(_figures(found)),
        tuple(table for table in tables if table.name == "pool_speedups"),
        lead=(tables[0],),
        folded=tuple(table for table in tables[1:] if table.name != "pool_speedups"),
    )


def _what_it_is(found: PoolAnswer) -> str:
    timing = found.plan.timing
    if timing is None:
        times = "it states no times"
    elif timing.is_measured:
        times = "its times are lines through measurements that it states"
    else:
        times = "its times are calculated from bytes read and a price of computing, none was measured"
    return (
        f"Arithmetic on a memory plan that was stated: bytes and tenants are exact for it, {times}, and acceptance is "
        "what it states. Nothing here is worked out from the traces, and no other section rests on it."
    )


def _figures(found: PoolAnswer) -> list[Figure]:
    made = [
        Figure(
            "pool-memory",
            "Where the memory goes at each precision, and with each speed-up at the first that fits: its weights, and "
            f"what it adds to the KV of the tenants that fit, each by itself; {_STATED}.",
            f"Bars of GiB: {_tenants(found)}.",
            partial(figures.memory_bars, found),
            drawn.memory_drawn(found),
        )
    ]
    if figures.has_tenants(found):
        both = any(each.hidden is not None for _, each in found.worths)
        readings = "bands reach from verification added to reading to verification hidden behind it; " if both else ""
        made.append(
            Figure(
                "pool-draft-size",
                "Tenants that fit, and tokens a second of a full pool, by the size of each draft, with the largest "
                f"that pays; {readings}{_STATED}.",
                f"Lines falling with the size of the draft: {_drafts(found)}.",
                partial(figures.tenants_by_draft_size, found),
                drawn.draft_sizes_drawn(found),
            )
        )
    if found.early_exit is not None:
        alone = show(found.early_exit.lockstep[0], ".1f", 100)
        made.append(
            Figure(
                "pool-early-exit",
                "What early exit saves of a step's time by batch size: in lockstep, with compaction, and if freed "
                f"rows were refilled; model output, {_STATED}.",
                f"Shares of a step's time against batch size: {alone} % at batch 1, in lockstep falling to "
                f"{show(found.early_exit.lockstep[-1], '.1f', 100)} % at {found.early_exit.batch[-1]:,.0f}.",
                partial(figures.early_exit_by_batch, found),
                drawn.early_exit_drawn(found),
            )
        )
    return made


def _tenants(found: PoolAnswer) -> str:
    said = []
    for choice in found.choices:
        laid = choice.budget
        left = f"{laid.pool_bytes / GIB:.2f} GiB for KV" if laid.tenants is None else several(laid.tenants, "tenant")
        said.append(f"{printable(figures.served_name(found, choice))} {left if laid.fits else 'does not fit'}")
    return ", ".join(said)


def _drafts(found: PoolAnswer) -> str:
    said = []
    for i, each in found.worths:
        if i == found.chosen:
            gain = "" if each.gain is None else f", {slashed([r.gain for r in each.readings])} times the tokens"
            said.append(f"{printable(each.speedup.name)} {several(each.having.tenants or 0, 'tenant')}{gain}")
    return "; ".join(said)
