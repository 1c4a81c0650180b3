"""From one generation and a latency model to an explanation with its panel."""

from dataclasses import dataclass

from oracle.batch_unions import refuse_batch_unions
from oracle.changes import Change, Lane, parse_change
from oracle.costs import LengthCosts, choose_range, length_costs
from oracle.errors import InputError, printable
from oracle.explanation.decision import Explanation, explain, match_probs_from
from oracle.latency.model import LatencyModel
from oracle.panels import Panel, make_panel
from oracle.prices import priced_problem
from oracle.problem import Problem
from oracle.traces import Traces


@dataclass(frozen=True)
class Explained:
    """A decision with everything that is shown of it.

    Attributes
    ----------
    explanation, panel
        Its numbers and its texts.
    costs, problem
        What it was solved with.
    changed
        The changed cost it is compared with, and its name.
    notes
        How the range of draft lengths came about, and what must be known of the change.
    """

    explanation: Explanation
    panel: Panel
    costs: LengthCosts
    problem: Problem
    changed: Lane
    notes: tuple[str, ...]


def explain_decision(
    traces: Traces,
    model: LatencyModel,
    position: int,
    change: Change | None = None,
    *,
    k_min: int | None = None,
    k_max: int | None = None,
    unique_experts: str | None = None,
) -> Explained:
    """Explain one decision of a generation, against the optimum under a changed cost.

    Parameters
    ----------
    traces
        One generation, with texts and proposals where there are any.
    model
        Latency model of one batch size.
    position
        t, 0 … N - 1.
    change
        Taken as is, all other coefficients kept; None: ``experts=0``, the source's counterfactual.
    k_min, k_max, unique_experts
        As in `choose_range` and `priced_problem`.

    Raises
    ------
    InputError
        The generation has no such position.
    """
    _refuse_other_positions(traces, position)
    span = choose_range(model, traces.max_draft_length, k_min=k_min, k_max=k_max, source=traces.source)
    costs = length_costs(model, span.k_min, span.k_max)
    refuse_batch_unions(model, traces, costs)
    problem = priced_problem(traces, costs, unique_experts)
    change = change or parse_change("experts=0")
    changed = Lane(printable(str(change), 200), change.as_is(costs, model))
    match_prob = match_probs_from(traces, position, costs.k_max)
    found = explain(problem, costs, changed.costs, position, match_prob)
    panel = make_panel(
        traces,
        position,
        costs.k_max,
        title=_title(traces, position),
        caption=_caption(model, costs, traces.match_kind[0]),
        match_prob=match_prob,
        new_experts=found.new_experts,
        draft_length=found.draft_length,
        changed_length=found.changed_length,
        modal_advance=found.modal_advance,
    )
    return Explained(found, panel, costs, problem, changed, (*span.notes, *change.notes(costs, model, refitted=False)))


def _refuse_other_positions(traces: Traces, position: int) -> None:
    name = f"{traces.source}, generation '{printable(traces.generation[0])}'"
    if traces.positions == 0:
        raise InputError(f"{name}: has no positions, so there is no decision to explain; choose another generation")
    if not 0 <= position < traces.positions:
        raise InputError(f"{name}: position is {position}; its positions are 0 … {traces.positions - 1}")


def _title(traces: Traces, position: int) -> str:
    category = traces.category[0] if traces.category is not None else None
    kind = "" if category is None else f" ({printable(category, 28)})"
    return (
        f"Generation {printable(traces.generation[0], 40)}{kind}, decision at position {position} of "
        f"0 … {traces.positions - 1}"
    )


def _caption(model: LatencyModel, costs: LengthCosts, match_kind: str) -> str:
    """Name the coefficients that the decision rests on, as ranges over the allowed lengths."""
    allowed = costs.allowed
    beta0, alpha, context = (
        _span(values[allowed].min(), values[allowed].max(), scale)
        for values, scale in ((costs.verify_ms, 1.0), (costs.alpha_ms, 1.0), (costs.context_ms, 1e3))
    )
    draft = _span(costs.draft_ms[allowed].min(), costs.draft_ms[allowed].max(), 1.0)
    lengths = costs.lengths
    return (
        f"k = {lengths[0]} … {lengths[-1]}: beta0 {beta0} ms, alpha {alpha} ms per expert, context {context} µs per "
        f"token, draft {draft} ms, rejection {model.reject_ms:.3g} ms; match probabilities: {match_kind}"
    )


def _span(low: float, high: float, scale: float) -> str:
    low_text, high_text = f"{low * scale:.3g}", f"{high * scale:.3g}"
    return low_text if low_text == high_text else f"{low_text} … {high_text}"
