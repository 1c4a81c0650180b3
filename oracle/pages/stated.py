"""One sentence on what was stated of a deployment: which levers its model advises, and what fits into its memory."""

from oracle.errors import printable
from oracle.figures.pool import served_name
from oracle.levers.answer import Planned
from oracle.pages.material import Absent, Levers, Material
from oracle.pool.answer import PoolAnswer
from oracle.pool.plan import GIB
from oracle.summaries.levers_experts import COUNTS_THEM
from oracle.summaries.levers_schedule import slots_otherwise
from oracle.summaries.levers_sentences import headline
from oracle.summaries.levers_shared import shared_setting
from oracle.summaries.pool_tables import judged
from oracle.summaries.shares import several
from oracle.tables import printed


def stated_sentence(material: Material) -> str:
    """Say it as model output; "" where nothing was stated."""
    said = []
    if not isinstance(material.levers, Absent):
        said.append(f"serving levers: {_levers(material.levers)}")
    if not isinstance(material.pool, Absent):
        said.append(f"memory pool: {_pool(material.pool)}")
    if not said:
        return ""
    return f"Model output for the deployment stated, not from these traces: {'; '.join(said)}."


def _levers(found: Levers) -> str:
    if found.shared is not None:
        n = len(found.shared.tenants)
        return f"for {n:,} tenants on one deployment {printed(shared_setting(found.shared))}"
    if not found.plans:
        return printed(headline(found.shown)) + (f" ({printed(found.which)})" if found.which else "")
    plan = found.plans[0]
    made, T = plan.schedule, len(plan.traffic.slots)
    whose = "" if plan.traffic.tenant is None else f" for tenant {printable(plan.traffic.tenant)}"
    more = len(found.plans) - 1
    rest = f" ({more:,} more in the tables)" if more else ""
    return (
        f"{printable(plan.deployment.precisions[made.precision].name)} over {T:,} slots{whose}, speculation on in "
        f"{int(made.speculation_on.sum()):,}, prefix cache on in {int(made.cache_on.sum()):,}, "
        f"{made.mean_ms:.5f} ms a token{rest}{_not_settled(plan)}"
    )


def _not_settled(plan: Planned) -> str:
    some = int(slots_otherwise(plan).sum())
    where = "one of them" if some == 1 else f"{some:,} of them"
    said = f"; not settled in {where}, where counting the experts that a step goes to sets other levers ({COUNTS_THEM})"
    return said if some else ""


def _pool(found: PoolAnswer) -> str:
    if found.chosen is None:
        return "nothing fits at any precision stated"
    laid, name = found.choices[found.chosen].budget, printable(served_name(found, found.choices[found.chosen]))
    room = f"{laid.pool_bytes / GIB:.2f} GiB for KV"
    if laid.tenants is not None:
        room = f"room for {several(laid.tenants, 'tenant')}"
    fits = room if found.plan.memory.is_pool else f"{room} at {name}"
    worths = [each for i, each in found.worths if i == found.chosen and each.gain is not None]
    verdicts = [
        f"{printable(each.speedup.name)} {judged([reading.gain for reading in each.readings])}" for each in worths
    ]
    return f"{fits}; at a full pool {', '.join(verdicts)}" if verdicts else fits
