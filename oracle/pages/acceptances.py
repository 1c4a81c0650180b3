"""Acceptance as a deployment states it beside acceptance on the traces: both are said, and which one counts where."""

from typing import Any

import numpy as np

from oracle.errors import printable
from oracle.intervals import Interval
from oracle.levers.answer import Answer
from oracle.levers.cost import accept, round_length
from oracle.levers.procedure import decide_joint
from oracle.pages.material import Absent, Material
from oracle.policies import static
from oracle.resampling import bootstrap, cluster_sums
from oracle.summaries.levers_admission import configured
from oracle.tables import Row, Table, interval_cells, number, show, with_interval, words

_FIRST_POSITION = ("independent", "stationary")  # readings under which r is the acceptance of the first draft token


def acceptances(material: Material, shown: Answer) -> tuple[str, Table]:
    """Give a sentence and a table of both."""
    stated, traced = _stated(shown), _traced(material, shown)
    said = (
        f"Two acceptances, and neither stands in for the other. As stated, r = {stated['repetitiveness']:.4g} gives "
        f"each draft token the acceptance {show(stated['acceptance'])} at {printable(stated['precision'])}; "
    )
    if traced is None:
        said += "these traces give none at K = 1."
    else:
        said += (
            f"on these traces {_with_ends(traced)} of the draft tokens are accepted at K = 1 (expected, in-sample). "
            "The levers rest on the first alone, all other sections on the second."
        )
    columns = (
        words("", "from"),
        number("r", "repetitiveness"),
        with_interval("acceptance", "acceptance"),
        number(f"tokens a round\nof {shown.deployment.speculation.draft_length}", "tokens_per_round"),
        words("levers with it", "configuration"),
        number("ms/token", "cost_ms", ".5f"),
    )
    rows: list[Row] = [stated, *([] if traced is None else [traced])]
    return said, Table("levers_acceptance", "Acceptance as stated and on these traces", columns, rows, _notes(shown))


def _with_ends(traced: Row) -> str:
    low, high = traced["acceptance_low"], traced["acceptance_high"]
    around = "" if low is None else f" [{show(low, '.1f', 100)}; {show(high, '.1f', 100)}]"
    return f"{show(traced['acceptance'], '.1f', 100)}{around} %"


def _stated(shown: Answer) -> dict[str, Any]:
    deployment, regime, chosen = shown.deployment, shown.regime, shown.joint.configuration()
    precision = deployment.precisions[chosen.precision]
    return {
        "from": f"as stated, at {precision.name}",
        "precision": precision.name,
        "repetitiveness": float(regime.repetitiveness),
        **interval_cells("acceptance", float(accept(deployment, precision, regime)), None),
        "tokens_per_round": float(round_length(deployment, precision, regime)),
        "configuration": configured(deployment, chosen),
        "cost_ms": float(shown.joint.cost_ms),
    }


def _traced(material: Material, shown: Answer) -> dict[str, Any] | None:
    """Give the traces' acceptance at K = 1, and the levers if r were what would give it to the stated target."""
    by_length = {one.draft_length: one for one in material.answer.candidates}
    one, same = by_length.get(1), by_length.get(shown.deployment.speculation.draft_length)
    if one is None or one.acceptance is None:
        return None
    share = one.acceptance
    row = {
        "from": "these traces, at K = 1",
        "precision": None,
        "repetitiveness": None,
        **interval_cells("acceptance", share, _interval(material)),
        "tokens_per_round": None if same is None else same.mean_acceptance_length,
        "configuration": None,
        "cost_ms": None,
    }
    how = shown.deployment.speculation
    if how.reading not in _FIRST_POSITION:
        return row
    r = float(np.clip((share - how.base_match) / (1 - how.base_match), 0.0, 1.0))
    other = decide_joint(shown.deployment, shown.regime.having(repetitiveness=r))
    said = configured(shown.deployment, other.configuration())
    return row | {"repetitiveness": r, "configuration": said, "cost_ms": float(other.cost_ms)}


def _interval(material: Material) -> Interval | None:
    """Resample clusters of accepted over drafted tokens at K = 1; None where policies were not compared."""
    found = material.policies
    if isinstance(found, Absent) or static(1) not in found.fixed.policies:
        return None
    at, totals = found.fixed.policies.index(static(1)), found.fixed
    sums, _ = cluster_sums(
        np.stack([totals.of("accepted")[:, at], totals.of("drafted")[:, at]], axis=1), totals.cluster
    )
    return bootstrap(sums, lambda drawn: drawn[:, :1] / drawn[:, 1:])[0]


def _notes(shown: Answer) -> tuple[str, ...]:
    reading = shown.deployment.speculation.reading
    if reading in _FIRST_POSITION:
        r = "these traces: r is the one that gives an unquantised target this acceptance, taking theirs for such"
    else:
        r = f"matches are read as {reading}: there r is a share of all tokens, so these traces give none"
    return (
        f"{r}; a what-if, the answer is the first row",
        "these traces: expected, in-sample; acceptance: accepted over drafted tokens at K = 1; tokens a round: under "
        "the draft length that the deployment states, where it was scored",
    )
