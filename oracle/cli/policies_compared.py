"""What ``draft-oracle policies`` works out: policies held out and realised, and the condition of a longer draft."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from oracle.cli.output import steps
from oracle.cli.policies_asked import LOG, LOGGED, MATCHES, asked, own_columns
from oracle.cli.traces import NEEDED, budget

if TYPE_CHECKING:
    from oracle.condition.costs import Condition
    from oracle.costs import LengthRange
    from oracle.files import File
    from oracle.latency.model import LatencyModel
    from oracle.policies import Inputs, Policy, Training
    from oracle.policies.laid_out import LaidOut
    from oracle.problem import Problem
    from oracle.realised.problem import Realised
    from oracle.scores import PolicyTotals
    from oracle.tables import Table
    from oracle.traces import TraceFiles
    from oracle.tuning import HeldOut, HeldOutBatch, Surveyed

_MORE = ("category", "decoding", "draft_prob", *LOG, *MATCHES)


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


def compare(
    paths: "Sequence[File]",
    model: "LatencyModel",
    texts: Sequence[str],
    reading: Mapping[str, Any],
    on_batch: "Callable[[HeldOutBatch], None] | None" = None,
) -> Compared:
    """Read the traces, tune, realise, examine the condition; one walk over the traces after the other.

    Parameters
    ----------
    paths
        Trace files.
    model
        Of one batch size.
    texts
        Policies and families; empty: all that the traces have the columns for.
    reading
        k_min, k_max, unique_experts, match_is, threads; memory, megabytes or None.
    on_batch
        Takes the held-out generations batch by batch.
    """
    from oracle.condition.costs import examine  # noqa: PLC0415
    from oracle.mismatch import of_one_request  # noqa: PLC0415
    from oracle.summaries.condition import condition_tables  # noqa: PLC0415
    from oracle.summaries.realised import realised_tables  # noqa: PLC0415
    from oracle.summaries.tuning import untuned_table  # noqa: PLC0415
    from oracle.tuning import hold_out, survey  # noqa: PLC0415

    with steps("policies") as step:
        step("reading")
        files, laid, span = _laid_out(paths, model, texts, reading)
        surveyed = survey(laid)
        wanted = asked(texts, set(files.schema.names), laid)
        said = [*span.notes, *_notes(surveyed), *wanted.unrealised, *of_one_request(model)]
        matches = _matches if wanted.realised else None
        step("tuning")
        held = None
        if surveyed.occupied != 1:
            held = hold_out(
                laid,
                wanted.families,
                surveyed=surveyed,
                realised=matches,
                label=_decoding_of(matches),
                on_batch=on_batch,
            )
        step("realised scores" if wanted.realised else "scores")
        alone = [] if held else wanted.families
        fixed, realised = _untuned(laid, surveyed.training, alone, matches=wanted.realised, logged=wanted.logged)
        if realised is not None and held is not None and held.realised is not None:
            realised = realised.with_held_out(held.realised, held.expected)
        if held is None:
            tables = [untuned_table(fixed, said)]
        else:
            tables = _held_out_tables(held, realised, [*said, *wanted.notes], _why_no_off(model))
        tables += [] if realised is None else realised_tables(realised, wanted.notes)
        step("slope condition")
        condition = examine(files, laid.costs, reading["unique_experts"])
    return Compared([*tables, *condition_tables(condition)], held, fixed, realised, condition)


def _laid_out(
    paths: "Sequence[File]", model: "LatencyModel", texts: Sequence[str], reading: Mapping[str, Any]
) -> "tuple[TraceFiles, LaidOut, LengthRange]":
    """The files, the same laid out for policies, and the range of draft lengths."""
    from oracle.policies.candidates import POINTS  # noqa: PLC0415
    from oracle.policies.laid_out import LaidOut  # noqa: PLC0415
    from oracle.study import priced  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    files = TraceFiles(paths, match_is=reading["match_is"])
    names = list(files.schema.names)
    wanted = dict.fromkeys((*NEEDED, *_MORE, *own_columns(texts, names)))
    columns = [name for name in wanted if name in names or name in NEEDED]
    files = TraceFiles(files.paths, columns=columns, match_is=reading["match_is"])
    span, costs = priced(files, model, reading["k_min"], reading["k_max"])
    files = files.within(budget(model, reading["memory"], reading["threads"], costs.k_max, POINTS))
    return files, LaidOut(files, costs, reading["unique_experts"], reading["threads"]), span


def _notes(surveyed: "Surveyed") -> list[str]:
    """Say what the match probabilities bias, and what was put together."""
    from oracle.mismatch import on_match_kinds  # noqa: PLC0415
    from oracle.resampling import MOST_UNITS  # noqa: PLC0415
    from oracle.unit_sums import MOST_CATEGORIES  # noqa: PLC0415

    notes = list(on_match_kinds(surveyed.match_kinds))
    if surveyed.grouped:
        notes.append(f"{surveyed.clusters:,} clusters are held out and resampled in {MOST_UNITS:,} groups")
    if not surveyed.categories_apart:
        notes.append(
            f"more than {MOST_CATEGORIES} categories: scores by category are left out, and a budget by category is "
            "one for all"
        )
    return notes


def _matches(batch: "Inputs") -> "Problem":
    """The recorded matches of a batch."""
    from oracle.realised.problem import realised_problem  # noqa: PLC0415

    return realised_problem(batch.traces, batch.costs.k_max, like=batch.problem)


def _decoding_of(matches: "Callable[[Inputs], Problem] | None") -> "Callable[[Inputs], Sequence[str]] | None":
    """What sums are kept apart by where matches are scored on: how texts were decoded."""
    from oracle.realised.problem import decoding_of  # noqa: PLC0415

    return None if matches is None else lambda batch: decoding_of(batch.traces)


def _untuned(
    laid: "LaidOut", training: "Training", families: Sequence[str], *, matches: bool, logged: bool
) -> "tuple[PolicyTotals, Realised | None]":
    """Totals of the oracle, every static length and those of the families that are policies as they stand.

    Expected ones, and realised ones where there are matches, with the engine's log if it is scored on them.
    """
    from oracle.policies import static  # noqa: PLC0415
    from oracle.policies.candidates import candidates  # noqa: PLC0415
    from oracle.realised.sums import RealisedSums  # noqa: PLC0415
    from oracle.scores import ScoreSums  # noqa: PLC0415

    tried = [candidates(family, laid.costs) for family in families]
    alone: list[Policy | str] = [members[0] for members in tried if len(members) == 1]
    wanted = ["oracle", *map(static, laid.costs.lengths), *alone]
    sums, of_matches = ScoreSums(), RealisedSums()
    work = partial(_untuned_on, wanted=wanted, training=training, matches=matches, logged=logged)
    for totals, realised, categories in laid.over(work):
        decoding = ("",) * len(categories) if realised is None else realised.decoding
        sums.add(totals, categories, decoding)
        if realised is not None:
            of_matches.add(realised)
    found = sums.totals()
    assert found is not None
    return found, of_matches.realised()


def _untuned_on(
    batch: "Inputs", *, wanted: "Sequence[Policy | str]", training: "Training", matches: bool, logged: bool
) -> "tuple[PolicyTotals, Realised | None, tuple[str, ...]]":
    from oracle.policies import lengths_of  # noqa: PLC0415
    from oracle.realised.problem import realise  # noqa: PLC0415
    from oracle.tuning import totals_of  # noqa: PLC0415

    taught, traces = replace(batch, training=training), batch.traces
    if not matches:
        return totals_of(taught, wanted), None, traces.category_of
    log = lengths_of([LOGGED], replace(batch, problem=_matches(batch))) if logged else None
    found = realise(traces, batch.problem, batch.costs, lengths_of(wanted, taught), log)
    return found.expected, found, traces.category_of


def _why_no_off(model: "LatencyModel") -> str:
    return "k = 0 was left out by --k-min" if model.has(0) else "k = 0 was not measured"


def _held_out_tables(held: "HeldOut", realised: "Realised | None", notes: Sequence[str], no_off: str) -> "list[Table]":
    """Tuned policies over all generations and, where there are several, by category."""
    from oracle.summaries.deployment import deployment_table  # noqa: PLC0415
    from oracle.summaries.tuned_measures import tuned_measures_table  # noqa: PLC0415
    from oracle.summaries.tuning import category_table, tuning_table  # noqa: PLC0415
    from oracle.tuning import scored, scored_by_category  # noqa: PLC0415

    found = scored(held)
    tables = [deployment_table(found, realised, no_off), tuning_table(found, notes), tuned_measures_table(held)]
    by_category = scored_by_category(held)
    return [*tables, category_table(by_category)] if len(by_category) > 1 else tables
