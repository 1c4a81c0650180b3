"""Which precision, speculation and prefix cache a stated deployment should run: a closed-form model's output."""

from functools import partial
from math import isnan

from oracle.errors import printable
from oracle.figures import levers as figures
from oracle.figures import levers_maps as maps
from oracle.figures.levers_curves import (
    admitted_now,
    has_bands,
    observed,
    precision_curves,
    prefix_share_curves,
    repetitiveness_curves,
    round_length_here,
)
from oracle.figures.levers_schedule import schedule_over_slots
from oracle.figures.levers_shared import cost_by_concurrency
from oracle.levers.advised import NOISE, set_in
from oracle.levers.answer import Answer, Planned
from oracle.levers.procedure import Configuration
from oracle.pages import drawn_levers as drawn
from oracle.pages.acceptances import acceptances
from oracle.pages.material import Absent, Levers, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.levers_admission import configured
from oracle.summaries.levers_sentences import headline
from oracle.summaries.levers_shared import shared_setting
from oracle.summaries.shares import amount, several
from oracle.tables import printed, show

TITLE = "Serving levers"
MOST_SCHEDULES = 4  # that are drawn
_LETTERS = {"repetitiveness": "r", "prefix_share": "rho"}
_PAGES = ("levers_schedule", *(f"levers_schedule_{i}" for i in range(1, MOST_SCHEDULES + 1)))
_ANSWERS = (*_PAGES, "levers_shared", "levers_shared_tenants", "levers_regimes")
_SHOWN = ("levers", "levers_cost", "levers_break_even", "levers_procedure")


def levers(material: Material) -> Section | LeftOut:
    """Say what the stated deployment's model advises, until when, and how that stands to the traces."""
    found = material.levers
    if isinstance(found, Absent):
        return LeftOut(TITLE, found.why)
    said, compared = acceptances(material, found.shown)
    paragraphs = [_what_it_is(found), *([_which(found)] if found.which else []), said]
    several = any(table.name in _ANSWERS for table in found.tables)
    named = {table.name: table for table in found.tables}
    lead = tuple(named[name] for name in (_ANSWERS if several else ("levers",)) if name in named)
    first = tuple(table for table in found.tables if table.name in _SHOWN and table not in lead)
    return Section(
        TITLE,
        "levers",
        tuple(paragraphs),
        (*_schedules(found), *_shared(found), *_figures(found)),
        (*first, compared),
        folded=tuple(table for table in found.tables if table not in (*lead, *first)),
        lead=lead,
    )


def _what_it_is(found: Levers) -> str:
    fitted = found.fitted
    known = [] if fitted is None else [n for n, there in (("eta", fitted.etas), ("overhead", fitted.overhead)) if there]
    if not known:
        measured = "every parameter as stated, none fitted"
    else:
        measured = f"{' and '.join(known)} fitted from measurements of it, all other parameters as stated"
    return (
        "Model output, not a measurement: what a closed-form cost model gives for the deployment and traffic stated, "
        f"{measured}. The traces enter only where this is said, and no other section rests on it."
    )


def _which(found: Levers) -> str:
    drawn_of = f"Figures by concurrency, batch and repetitiveness are of {printed(found.which)}"
    alone = printed(headline(found.shown))
    if not found.plans:
        return (
            f"{drawn_of}, alone on a deployment of its own; there: {alone}. The setting for one deployment that all "
            "share comes first."
        )
    plan = found.plans[0]
    made, t = plan.schedule, int(plan.traffic.regime.concurrency.argmax())
    scheduled = configured(
        plan.deployment, Configuration(made.precision, bool(made.speculation_on[t]), bool(made.cache_on[t]))
    )
    return (
        f"{drawn_of}. There the schedule, which caps nothing, has {printed(scheduled)}: {made.cost_ms[t]:.5f} ms a "
        f"token; decided for that slot alone, whatever runs before and after it: {alone}."
    )


def _basis(found: Levers, share: str = "", *, eta: bool = False) -> str:
    """Say what a figure of one regime is, and which of the intervals that were given it shows."""
    said = ["model output for what was stated, not a measurement"]
    if found.which:
        said[0] += f", for {printed(found.which)}"
    if share and observed(found.shown, share, 0.0).has_interval:
        said.append(f"bar: the interval given for {_LETTERS[share]}")
    if eta and has_bands(found.shown):
        fitted = found.fitted is not None and found.fitted.etas
        said.append(f"bands: {'95 % intervals of eta as fitted' if fitted else 'the intervals given for eta'}")
    return "; ".join(said if len(said) > 1 else [*said, "without intervals"])


def _schedules(found: Levers) -> list[Figure]:
    made = []
    for i, plan in enumerate(found.plans[:MOST_SCHEDULES], 1):
        number = f"-{i}" if len(found.plans) > 1 else ""
        tenant = "" if plan.traffic.tenant is None else f" of tenant {printable(plan.traffic.tenant)}"
        more = len(found.plans) - MOST_SCHEDULES
        rest = f"; {more:,} more tenants stand in the tables only" if i == MOST_SCHEDULES and more > 0 else ""
        made.append(
            Figure(
                f"levers-schedule{number}",
                f"The schedule{tenant}: requests in flight, the concurrency below which each lever pays (dotted) with "
                f"its hysteresis of {100 * plan.schedule.band:g} %, in which slots each lever is on, and the caps that "
                f"would save {100 * NOISE:g} % or more, which the schedule does not set; model output for what was "
                "stated, not a measurement; hatched: slots in which the intervals given, or experts counted instead of "
                f"all read, leave it open{rest}.",
                _schedule_alt(plan),
                partial(schedule_over_slots, plan),
                drawn.schedule_drawn(plan, number.replace("-", "_")),
            )
        )
    return made


def _schedule_alt(plan: Planned) -> str:
    made, T = plan.schedule, len(plan.traffic.slots)
    name = printable(plan.deployment.precisions[made.precision].name)
    return (
        f"{name} over {T:,} slots: speculation on in {int(made.speculation_on.sum()):,}, prefix cache on in "
        f"{int(made.cache_on.sum()):,}; {len(made.switches):,} switches."
    )


def _shared(found: Levers) -> list[Figure]:
    shared = found.shared
    if shared is None:
        return []
    named = printed(shared_setting(shared))
    return [
        Figure(
            "levers-shared",
            f"Cost per token of one deployment for all {len(shared.tenants):,} tenants by their requests in flight, at "
            "each precision with the levers that are the best there, not capped; model output for what was stated, "
            "not a measurement; without intervals.",
            f"Cost against requests in flight; at {amount(float(shared.mixed.concurrency))}: {named}.",
            partial(cost_by_concurrency, shared),
            drawn.shared_drawn(shared),
        )
    ]


def _figures(found: Levers) -> list[Figure]:
    return [*_break_evens(found), *_choices(found)]


def _break_evens(found: Levers) -> list[Figure]:
    shown = found.shown
    r, rho = float(shown.regime.repetitiveness), float(shown.regime.prefix_share)
    return [
        Figure(
            "levers-repetitiveness",
            "Repetitiveness r* above which speculation pays, by concurrency and precision, and the observed r; "
            f"{_basis(found, 'repetitiveness', eta=True)}.",
            f"r* against concurrency; {_needed(shown)}; observed r = {amount(r)}.",
            partial(figures.repetitiveness_by_concurrency, shown),
            drawn.repetitiveness_drawn(shown),
        ),
        Figure(
            "levers-prefix-share",
            "Prefix share rho* above which the prefix cache pays, by batch, and the observed rho; "
            f"{_basis(found, 'prefix_share')}.",
            f"rho* against the requests that decode together, rising to {show(prefix_share_curves(shown)[0].y[-1])}; "
            f"observed rho = {amount(rho)} at {several(float(set_in(shown)[0].batch), 'request')}.",
            partial(figures.prefix_share_by_batch, shown),
            drawn.prefix_share_drawn(shown),
        ),
        Figure(
            "levers-matches",
            "Tokens a round by acceptance, if matches are independent and if they follow one another, and from where "
            f"on speculation pays; {_basis(found)}.",
            "Tokens a round against acceptance: {1:.2f} at the acceptance of {0:.3f} here; speculation pays above "
            "{2:.2f}.".format(*round_length_here(shown)),
            partial(figures.round_length_by_match, shown),
            drawn.round_length_drawn(shown),
        ),
    ]


def _needed(found: Answer) -> str:
    """Say r* of every precision at the concurrency now."""
    C = admitted_now(found)
    said = []
    for curve in repetitiveness_curves(found):
        y = float(curve.y[curve.x.searchsorted(C)])
        said.append(f"{printable(curve.name)} {'never' if isnan(y) else show(y)}")
    return f"at {several(C, 'request')} in flight: {', '.join(said)}"


def _choices(found: Levers) -> list[Figure]:
    shown, basis = found.shown, _basis(found, "repetitiveness")
    ratios = ", ".join(f"{printable(curve.name)} {show(curve.y[-1])}" for curve in precision_curves(shown))
    regret, now = maps.regret_cells(shown), observed(shown, "repetitiveness", float(shown.regime.concurrency))
    worst = show(float(regret.values.max()), ".1f", 100)
    here = f"the traffic now is at C = {amount(now.x)}, r = {amount(now.y)}"
    decided, cap = set_in(shown)
    chosen = printed(configured(shown.deployment, decided.configuration()))
    chosen += "" if cap is None else f" with {amount(cap)} admitted"
    return [
        Figure(
            "levers-precision",
            "Decode cost of each precision over that of the widest, without speculation; dotted: the knees, from "
            f"which on the KV cache is full; {_basis(found)}.",
            f"Ratios against concurrency; where every KV cache is full: {ratios}.",
            partial(figures.precision_by_concurrency, shown),
            drawn.precision_drawn(shown),
        ),
        Figure(
            "levers-decisions",
            "What to set by concurrency and repetitiveness, all else as in the traffic now (diamond); dotted: with "
            f"admission capped, where that saves {100 * NOISE:g} % or more; {basis}.",
            f"Map of configurations; {here}, where {chosen} is advised.",
            partial(maps.decision_map, shown),
            drawn.decisions_drawn(shown),
        ),
        Figure(
            "levers-regret",
            "What deciding in the source's order, read literally, costs above the cheapest configuration, neither "
            f"capped; white: nothing; {basis}.",
            f"Map of regret: {maps.dearer(regret)}, at most {worst} % dearer; {here}.",
            partial(maps.regret_map, shown),
            drawn.regret_drawn(shown),
        ),
    ]
