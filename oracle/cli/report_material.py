"""What ``draft-oracle report`` is written from: every walk over the traces, one after the other."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from oracle.cli.policies_compared import compare
from oracle.cli.report_stated import NOTHING, Stated, stated_material
from oracle.errors import InputError, InputWarning, printable

if TYPE_CHECKING:
    from oracle.contrasts import Contrasts
    from oracle.costs import LengthRange
    from oracle.crossover.study import Studied
    from oracle.files import File
    from oracle.latency.model import LatencyModel
    from oracle.pages import Absent, Material, Policies, Rounds
    from oracle.stability.study import Stability
    from oracle.study import Study
    from oracle.traces import TraceFiles

CASES = 4
DRAWS = 100
_NOISE = 0.02  # of a schedule, as the command takes it
Step = Callable[[str], None]
_Found = TypeVar("_Found")


def gather(
    files: "TraceFiles",
    model: "LatencyModel",
    rounds: str | None,
    inputs: Sequence[Path],
    reading: Mapping[str, Any],
    step: Step,
    stated: Stated = NOTHING,
) -> "Material":
    """Work out everything that a report is written from.

    Parameters
    ----------
    files
        The traces, opened for a solve.
    model
        Latency model of one batch size.
    rounds
        File of the rounds behind it, or None.
    inputs
        Files read besides the traces.
    reading
        k_min, k_max, unique_experts, threads; memory, megabytes or None.
    step
        Told what is under way.
    stated
        Files that state a deployment; they are read first.

    Raises
    ------
    InputError
        Faulty inputs. What they lack only leaves a section out.
    """
    from oracle.costs import LengthRange  # noqa: PLC0415
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.pages import Absent, Material  # noqa: PLC0415
    from oracle.pages.material import DESCRIBED  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415

    stamps = Stamps(read := [*files.paths, *inputs])
    asked = {name: reading[name] for name in ("k_min", "k_max", "unique_experts")}
    more = {"unique_experts": reading["unique_experts"], "threads": reading["threads"]}
    with _warned() as said:
        serving = stated_material(stated)
        step("solving")
        study = _study(files, model, reading)
        span = LengthRange(study.lengths.k_min, study.lengths.k_max)
        found = _walks(files, model, span, more, step)
        step("policies")
        found["policies"] = _or_absent(lambda: _policies(files, model, {**reading, **more}))
        step("stability")
        found["stability"] = _or_absent(lambda: _stability(files, model, rounds, span, more))
        step("rounds")
        found["rounds"] = _rounds(rounds, model)
        step("language contexts")
        found["contrasts"] = _or_absent(lambda: _contrasts(files, model, span, more))
        step("batch sizes")
        found["serving"] = _or_absent(lambda: _serving(files, model, reading))
        step("illustrations")
        found |= _illustrations(files, model, span, more)
    origin = provenance("report", {**asked, "match_is": files.match_is, **stated.names}, read)
    stamps.check()
    study = replace(study, source=_without_folders(study.source, read))
    told = dict.fromkeys(_without_folders(one, read) for one in said)
    for name, one in found.items():
        if isinstance(one, Absent):
            found[name] = Absent(_without_folders(one.why, read))
    described = {name: files.metadata[name] for name in DESCRIBED if name in files.metadata}
    return Material(study=study, warnings=tuple(told), provenance=origin, described=described, **found, **serving)


def _without_folders(text: str, files: "Sequence[File]") -> str:
    """Name files as a page that goes to others should: where they are is nobody's business, and a name is enough."""
    from oracle.files import shown  # noqa: PLC0415

    for file in sorted(files, key=lambda file: -len(shown(file))):
        text = text.replace(shown(file), printable(file.name, len(file.name)))
    return text


@contextmanager
def _warned() -> Iterator[list[str]]:
    """Gather what is warned of, each once however many walks say it, and say it at the end."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
        messages += [str(one.message) for one in caught if issubclass(one.category, InputWarning)]
    for one in {(str(w.message), w.category): w for w in caught}.values():
        warnings.warn(one.message, one.category, stacklevel=2)


def _or_absent(work: Callable[[], _Found]) -> "_Found | Absent":
    """Do the work, or say why these inputs do not allow it; faulty traces have been refused before."""
    from oracle.pages import Absent  # noqa: PLC0415

    try:
        return work()
    except InputError as error:
        return Absent("; ".join(error.faults))


def _study(files: "TraceFiles", model: "LatencyModel", reading: Mapping[str, Any]) -> "Study":
    from oracle.study import Question, study  # noqa: PLC0415

    names = ("k_min", "k_max", "unique_experts", "threads")
    return study(files, model, Question(**{name: reading[name] for name in names}, score=True, ablate=True))


def _walks(
    files: "TraceFiles", model: "LatencyModel", span: "LengthRange", more: Mapping[str, Any], step: Step
) -> dict[str, Any]:
    """The recommended static length, draft lengths side by side, and the path in alpha."""
    from oracle.alpha_path.study import alpha_study  # noqa: PLC0415
    from oracle.by_length import by_length  # noqa: PLC0415
    from oracle.costs import length_costs  # noqa: PLC0415
    from oracle.recommendation.from_traces import recommend_from_walk, walk_static  # noqa: PLC0415

    step("static lengths")
    walked = walk_static(files, model, k_min=span.k_min, k_max=span.k_max, **more)
    answer = recommend_from_walk(walked, batch_size=model.batch_size or 1)
    step("draft lengths")
    lengths = by_length(files, length_costs(model, span.k_min, span.k_max), **more)
    step("path in alpha")
    return {"answer": answer, "lengths": lengths, "scales": alpha_study(files, model, span, **more)}


def _policies(files: "TraceFiles", model: "LatencyModel", reading: Mapping[str, Any]) -> "Policies":
    from oracle.pages import Policies  # noqa: PLC0415

    found = compare(files.paths, model, (), {**reading, "match_is": files.match_is})
    return Policies(tuple(found.tables), found.held, found.fixed, found.realised)


def _stability(
    files: "TraceFiles", model: "LatencyModel", rounds: str | None, span: "LengthRange", more: Mapping[str, Any]
) -> "Stability":
    """Draws within the errors that the model tells, else by resampling the rounds."""
    from oracle.latency.draws import draws_from_file  # noqa: PLC0415
    from oracle.latency.refitted_draws import draws_from_rounds  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415
    from oracle.stability.study import stability  # noqa: PLC0415

    if rounds is not None and "coefficients" not in (model.fit or {}):
        draws = draws_from_rounds(model, RoundFiles(rounds), draws=DRAWS)
    else:
        draws = draws_from_file(model, draws=DRAWS)
    return stability(files, model, draws, span, **more)


def _rounds(rounds: str | None, model: "LatencyModel") -> "Rounds | Absent":
    """The rounds, fitted again; whether the model is their fit is said, not assumed."""
    from oracle.cli.fit import fitted  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.latency.diagnostics.residuals import residual_diagnostics  # noqa: PLC0415
    from oracle.latency.evidence import gather_evidence  # noqa: PLC0415
    from oracle.latency.recorded_errors import values_of  # noqa: PLC0415
    from oracle.pages import Absent, Rounds  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415

    if rounds is None:
        return Absent("the rounds were not given (--rounds)")
    result = fitted([rounds], {})
    each = next((one for one in result.each if one.batch_size == model.batch_size), result.each[0])
    evidence = gather_evidence(RoundFiles(files_of_kind([rounds], "rounds")), batch_size=each.batch_size)
    ours, theirs = values_of(model).tolist(), values_of(each.model.at_batch_size(each.batch_size)).tolist()
    same = model.m == each.model.m and len(ours) == len(theirs)
    apart = max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(ours, theirs, strict=False)), default=0.0)
    agreement = (
        "The rounds given are those of the model: fitted again, they give its coefficients."
        if same and apart < 1e-6
        else "The rounds given, fitted again, do not give the coefficients of the model that this report rests on: "
        "the figures show the fit of the rounds, the table the model."
    )
    return Rounds(each, evidence, residual_diagnostics(evidence), agreement)


def _contrasts(files: "TraceFiles", model: "LatencyModel", span: "LengthRange", more: Mapping[str, Any]) -> "Contrasts":
    from oracle.cli.traces import NEEDED  # noqa: PLC0415
    from oracle.contrasts import contrasts  # noqa: PLC0415
    from oracle.contrasts.study import NEEDED as TEXTS  # noqa: PLC0415

    return contrasts(files.with_columns((*NEEDED, *TEXTS)), model, span, **more)


def _serving(files: "TraceFiles", model: "LatencyModel", reading: Mapping[str, Any]) -> "Studied":
    """At which batch sizes speculation pays, as ``draft-oracle crossover`` answers where nothing else is asked."""
    from oracle.cli.crossover_inputs import FROM_TRACES, lengths_of  # noqa: PLC0415
    from oracle.crossover.study import Question, study_windows  # noqa: PLC0415
    from oracle.crossover.windows import COLUMNS, read_windows  # noqa: PLC0415
    from oracle.study import carried_length  # noqa: PLC0415

    opened = files.with_columns(COLUMNS)
    lengths, notes = lengths_of(model, reading["k_max"], carried_length(opened))
    windows = read_windows(opened, max(lengths))
    found = study_windows(windows, model, lengths, Question(noise=_NOISE), threads=reading["threads"])
    return replace(found, notes=(*notes, FROM_TRACES, *found.notes))


def _illustrations(
    files: "TraceFiles", model: "LatencyModel", span: "LengthRange", more: Mapping[str, Any]
) -> dict[str, Any]:
    from oracle.illustrations import COLUMNS, Search, choose_cases, choose_gallery  # noqa: PLC0415
    from oracle.pages import Absent  # noqa: PLC0415

    search = Search(files.with_columns(COLUMNS), model, span.k_min, span.k_max, match_is=files.match_is, **more)
    cases = _or_absent(lambda: choose_cases(search, CASES))
    besides = None if isinstance(cases, Absent) else cases
    return {"cases": cases, "gallery": _or_absent(lambda: choose_gallery(search, besides))}
