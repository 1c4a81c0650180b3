"""What ``draft-oracle policies`` works out: policies held out and realised, and the condition of a longer draft."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from oracle.cli.output import steps
from oracle.cli.traces import NEEDED
from oracle.errors import Faults, InputError, printable

if TYPE_CHECKING:
    from oracle.condition.costs import Condition
    from oracle.costs import LengthRange
    from oracle.files import File
    from oracle.latency.model import LatencyModel
    from oracle.policies import Inputs, Policy, PolicySet
    from oracle.problem import Problem
    from oracle.realised.problem import Realised
    from oracle.scores import PolicyTotals
    from oracle.tables import Table
    from oracle.tuning import HeldOut

_MATCHES = ("token_id", "draft_token_id")
_LOG = ("logged_draft_length", "logged_advance")
_MORE = ("category", "decoding", "draft_prob", *_LOG, *_MATCHES)
_LOGGED = "logged"
_COLUMNS_SHOWN = 30


@dataclass(frozen=True)
class Compared:
    """The answers: as tables, and what files and pictures are made of.

    Attributes
    ----------
    tables
        In the order in which questions arise, the policy to deploy first.
    held
        Policies tuned and held out; None where there are too few clusters to hold any out.
    fixed
        Expected totals of the oracle and every static length, which need no tuning.
    realised
        None where no draft tokens were recorded.
    condition
        The condition of a longer draft.
    """

    tables: "list[Table]"
    held: "HeldOut | None"
    fixed: "PolicyTotals"
    realised: "Realised | None"
    condition: "Condition"


@dataclass(frozen=True)
class _Asked:
    """What is scored how.

    Attributes
    ----------
    families
        Scored by expectation, after tuning where they have a parameter.
    logged
        The engine's logged rounds, batch by batch, if they can be scored on recorded matches only.
    notes
        Why a policy has no expected score, or none at all.
    """

    families: list[str]
    logged: "list[PolicySet] | None" = None
    notes: list[str] = field(default_factory=list)


def compare(paths: "Sequence[File]", model: "LatencyModel", texts: Sequence[str], reading: dict[str, Any]) -> Compared:
    """Read the traces, tune, realise, examine the condition.

    Parameters
    ----------
    paths
        Trace files; all are held in memory.
    model
        Of one batch size.
    texts
        Policies and families; empty: all that the traces have the columns for.
    reading
        k_min, k_max, unique_experts, match_is.
    """
    from oracle.condition.costs import examine  # noqa: PLC0415
    from oracle.mismatch import on_match_kinds  # noqa: PLC0415
    from oracle.summaries.condition import condition_tables  # noqa: PLC0415
    from oracle.summaries.realised import realised_tables  # noqa: PLC0415
    from oracle.summaries.tuning import untuned_table  # noqa: PLC0415
    from oracle.tuning import clusters_with_positions, hold_out  # noqa: PLC0415

    with steps("policies") as step:
        step("reading")
        batches, span, names = _laid_out(paths, model, texts, reading)
        actual, unrealised = _matched(batches) if names.issuperset(_MATCHES) else (None, [])
        asked = _asked(texts, names, batches, actual)
        kinds = frozenset().union(*(batch.traces.match_kinds for batch in batches))
        said = [*span.notes, *on_match_kinds(kinds), *unrealised]
        step("tuning")
        held = None
        if clusters_with_positions(batches) != 1:
            held = hold_out(batches, asked.families, realised=actual)
        fixed = _fixed(batches, [] if held else asked.families)
        realised = None
        if actual is not None:
            step("realised scores")
            realised = _realised(batches, fixed.policies, asked.logged)
            if held is not None and held.realised is not None:
                realised = realised.with_held_out(held.realised, held.expected)
        if held is None:
            tables = [untuned_table(fixed, said)]
        else:
            tables = _held_out_tables(held, realised, [*said, *asked.notes])
        tables += [] if realised is None else realised_tables(realised, asked.notes)
        step("slope condition")
        condition = examine([batch.traces for batch in batches], batches[0].costs, reading["unique_experts"])
    return Compared([*tables, *condition_tables(condition)], held, fixed, realised, condition)


def _matched(batches: "Sequence[Inputs]") -> "tuple[list[Problem] | None, list[str]]":
    """Recorded matches of every batch; None, and why, where chains are shorter than the drafts priced."""
    from oracle.realised.problem import ShortChainsError, realised_problem  # noqa: PLC0415

    try:
        return [realised_problem(b.traces, b.costs.k_max, like=b.problem) for b in batches], []
    except ShortChainsError as error:
        why = (
            f"no realised scores: {error.faults[0]}; a draft model's chains can be recorded whole, prompt lookup "
            "proposes nothing where it finds nothing: its costs charge every round the full draft length all the same"
        )
        return None, [why]


def _laid_out(
    paths: "Sequence[File]", model: "LatencyModel", texts: Sequence[str], reading: dict[str, Any]
) -> "tuple[list[Inputs], LengthRange, set[str]]":
    """All batches with positions, the range of draft lengths, and the names of the traces' columns."""
    from oracle.costs import choose_range, length_costs  # noqa: PLC0415
    from oracle.policies import inputs_of  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    files = TraceFiles(paths, match_is=reading["match_is"])
    names = list(files.schema.names)
    wanted = dict.fromkeys((*NEEDED, *_MORE, *_own_columns(texts, names)))
    files = TraceFiles(
        files.paths,
        columns=[name for name in wanted if name in names or name in NEEDED],
        match_is=reading["match_is"],
    )
    batches = [batch for batch in files if batch.positions]
    carried = batches[0].max_draft_length if batches else None
    span = choose_range(model, carried, k_min=reading["k_min"], k_max=reading["k_max"], source=str(files.paths[0]))
    costs = length_costs(model, span.k_min, span.k_max)
    return [inputs_of(batch, costs, reading["unique_experts"]) for batch in batches], span, set(names)


def _own_columns(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns of lengths that a user brings along; whatever else policies read, `_MORE` names."""
    from oracle.policies import parse_policy  # noqa: PLC0415

    wanted: list[str] = []
    faults = Faults()
    for text in texts:
        if not text.startswith("column:"):
            continue
        try:
            policy = parse_policy(text)
        except InputError as error:
            faults.add(str(error))
            continue
        for name in sorted(policy.columns - set(names)):
            listed = ", ".join(printable(other, 40) for other in names[:_COLUMNS_SHOWN])
            faults.add(
                f"policy '{printable(text)}': the traces have no column '{printable(name)}'; the columns there: "
                f"{listed}"
            )
        wanted += policy.columns
    faults.raise_if_any()
    return wanted


def _asked(
    texts: Sequence[str], names: set[str], batches: "Sequence[Inputs]", actual: "Sequence[Problem] | None"
) -> _Asked:
    """Tell policies with an expected score from the engine's log, which has none unless matches are certain."""
    from oracle.policies import lengths_of  # noqa: PLC0415

    families = list(texts) or _families(names)
    explicit = _LOGGED in families
    if not explicit and (texts or not names.issuperset(_LOG)):
        return _Asked(families)
    others = [text for text in families if text != _LOGGED]
    try:
        for batch in batches:
            lengths_of([_LOGGED], batch)
        return _Asked([*others, _LOGGED])
    except InputError:
        if actual is None and explicit:
            raise
    if actual is None:
        return _Asked(others, notes=[f"{_LOGGED}: not scored, since the traces hold no {' and '.join(_MATCHES)}"])
    try:
        laid = [lengths_of([_LOGGED], replace(b, problem=p)) for b, p in zip(batches, actual, strict=True)]
    except InputError as error:
        if explicit:
            raise
        return _Asked(others, notes=[f"{_LOGGED}: not scored, since {'; '.join(error.faults)}"])
    why = (
        f"{_LOGGED}: realised score only: a log says nothing of positions at which no round of the engine started, and "
        "expectation goes there"
    )
    return _Asked(others, laid, [why])


def _families(names: set[str]) -> list[str]:
    """The families that the traces have the columns for."""
    from oracle.tuning import FAMILIES  # noqa: PLC0415

    needs = {"budget": ("category",)} | dict.fromkeys(
        ("confidence", "confidence@keep", "survival", "survival@keep", "goodput", "slope"), ("draft_prob",)
    )
    return [family for family in FAMILIES if names.issuperset(needs.get(family, ()))]


def _fixed(batches: "Sequence[Inputs]", families: Sequence[str]) -> "PolicyTotals":
    """Expected totals of the oracle, every static length, and those of the families that are policies as they stand."""
    from oracle.policies import static  # noqa: PLC0415
    from oracle.policies.candidates import candidates  # noqa: PLC0415
    from oracle.tuning import learn, totals_of  # noqa: PLC0415

    tried = [candidates(family, batches[0]) for family in families]
    alone: list[Policy | str] = [members[0] for members in tried if len(members) == 1]
    wanted = ["oracle", *map(static, batches[0].costs.lengths), *alone]
    training = learn(batches)
    return totals_of([replace(batch, training=training) for batch in batches], wanted)


def _held_out_tables(held: "HeldOut", realised: "Realised | None", notes: Sequence[str]) -> "list[Table]":
    """Tuned policies over all generations and, where there are several, by category."""
    from oracle.summaries.deployment import deployment_table  # noqa: PLC0415
    from oracle.summaries.tuned_measures import tuned_measures_table  # noqa: PLC0415
    from oracle.summaries.tuning import category_table, tuning_table  # noqa: PLC0415
    from oracle.tuning import scored, scored_by_category  # noqa: PLC0415

    found = scored(held)
    tables = [deployment_table(found, realised), tuning_table(found, notes), tuned_measures_table(held)]
    by_category = scored_by_category(held)
    return [*tables, category_table(by_category)] if len(by_category) > 1 else tables


def _realised(batches: "Sequence[Inputs]", wanted: Sequence[str], logged: "Sequence[PolicySet] | None") -> "Realised":
    """Realised scores of the bounds and of policies that need no tuning."""
    from oracle.policies import lengths_of  # noqa: PLC0415
    from oracle.realised.problem import join, realise  # noqa: PLC0415
    from oracle.tuning import learn  # noqa: PLC0415

    training = learn(batches)
    parts = []
    for b, batch in enumerate(batches):
        laid = lengths_of(wanted, replace(batch, training=training))
        parts.append(realise(batch.traces, batch.problem, batch.costs, laid, logged[b] if logged else None))
    return join(parts)
