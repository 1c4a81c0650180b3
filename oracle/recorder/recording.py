"""A recording as a folder: shards a prompt and a block of rounds, so that it can go on where it was stopped."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from oracle.errors import InputError, InputWarning, printable
from oracle.files import shown
from oracle.outputs import atomic_output
from oracle.provenance import program_version
from oracle.recorder.beforehand import check_texts, files_of
from oracle.recorder.folder import ORIGIN, PARTS, ROUNDS, TRACES, recording_folder
from oracle.recorder.loading import Models, load
from oracle.recorder.prompts import Prompt
from oracle.recorder.rounds import Size, time_rounds
from oracle.recorder.sequence import record
from oracle.recorder.settings import Settings
from oracle.recorder.timing import check_clock
from oracle.recorder.trace import trace_of
from oracle.syncing import make_folder
from oracle.traces import TraceFiles, Traces, write_traces

_COMPARED = ("program", "libraries", "settings", "inputs", "models", "files")
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Request:
    """A recording.

    Attributes
    ----------
    folder
        Where it goes.
    settings, prompts
        What is recorded.
    inputs
        The files of the prompts and reference texts with their digests.
    timing
        How many rounds are timed.
    resume
        Whether to go on with an earlier recording in the folder.
    """

    folder: Path
    settings: Settings
    prompts: tuple[Prompt, ...]
    inputs: Sequence[dict[str, Any]]
    timing: Size
    resume: bool = False


def make_recording(request: Request, watch: Callable[[str, int], Any]) -> None:
    """Record all prompts, then time rounds.

    Parameters
    ----------
    watch
        Given a name and a number of steps, a context that yields a function to call with the steps done.

    Raises
    ------
    InputError
        Settings, models or prompts that cannot be used, a folder that holds something else or in which another run is
        at work.
    MemoryError
        The device is out of memory; what is finished stays.
    """
    request.settings.check()
    _warn_of_overlap(request.settings)
    try:
        with recording_folder(request.folder, request.resume) as former:
            _go_on(request, former, watch)
    except torch.OutOfMemoryError as error:
        raise MemoryError(f"the device is out of memory; what is finished stays, --resume goes on ({error})") from error


def _go_on(request: Request, former: dict[str, Any] | None, watch: Callable[[str, int], Any]) -> None:
    """Do what is left to do of a recording."""
    folder, parts = request.folder, request.folder / PARTS
    models = load(request.settings)
    if request.timing.anchors:
        check_clock(models.target.device)
    said = _origin(request, models)
    _same_as(former, said, folder)
    check_texts(models, request.settings, request.prompts, request.timing.anchors)
    timed = not request.timing.anchors
    if former is not None and (folder / ROUNDS).exists():
        timed = timed or former.get("timing") == said["timing"]
        _say(folder, said | {"timing": former.get("timing") if timed else None})  # of the rounds that are there
    else:
        _say(folder, said)
    make_folder(parts)
    if not (folder / TRACES).exists():
        with watch("recording", len(request.prompts)) as advance:
            _record_all(request, models, parts, advance)
        write_traces(folder / TRACES, _merged(parts, request.prompts), _described(said))
    if not timed:
        files = (folder / TRACES, parts, folder / ROUNDS)
        time_rounds(models, request.settings, request.timing, *files, _described(said), watch)
        _say(folder, said)
    shutil.rmtree(parts)


def _warn_of_overlap(settings: Settings) -> None:
    if settings.decoding == "greedy" and settings.match_kind == "overlap":
        warnings.warn(
            "--match overlap with --decoding greedy: a greedy engine accepts by equality, so these match probabilities "
            "are those of sampling, and costs with a draft come out as sampling's; leave --match out for greedy ones",
            InputWarning,
            stacklevel=3,
        )


def _say(folder: Path, said: dict[str, Any]) -> None:
    with atomic_output(folder / ORIGIN) as partial:
        partial.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _origin(request: Request, models: Models) -> dict[str, Any]:
    """Say what a recording rests on."""
    libraries = {name: metadata.version(name) for name in ("torch", "transformers")}
    return {
        "format": "draft-oracle/recording",
        "version": 1,
        "program": f"draft-oracle {program_version()}",
        "libraries": libraries,
        "settings": request.settings.to_dict(),
        "inputs": list(request.inputs),
        "models": {
            name: {
                "architecture": type(model).__name__,
                "parameters": int(sum(weight.numel() for weight in model.parameters())),
                "dtype": str(model.dtype).removeprefix("torch."),
                "attention": model.config._attn_implementation,
            }
            for name, model in (("target", models.target), ("draft", models.draft))
            if model is not None
        },
        "files": files_of(request.settings, models),
        "timing": asdict(request.timing),
    }


def _same_as(former: dict[str, Any] | None, said: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with other settings; rounds may be timed anew."""
    if former is None:
        return
    plain = json.loads(json.dumps(said))
    odd = [
        f"{key} {name}: {_value(former, key, name)} then, {_value(plain, key, name)} now"
        for key in _COMPARED
        for name in _names(former.get(key), plain[key])
        if _value(former, key, name) != _value(plain, key, name)
    ]
    if odd:
        raise InputError(
            f"{shown(folder)}: was recorded with something else ({printable('; '.join(odd), most=800)}); use what was "
            "used then, or another folder"
        )


def _names(*values: Any) -> list[str]:
    """Name the parts of values that are compared one by one; "" for a whole value."""
    found = [list(value) if isinstance(value, dict) else [""] for value in values]
    return list(dict.fromkeys(name for names in found for name in names))


def _value(said: dict[str, Any], key: str, name: str) -> Any:
    whole = said.get(key)
    return whole.get(name) if isinstance(whole, dict) and name else whole


def _described(said: dict[str, Any]) -> dict[str, str]:
    """Give the provenance that goes into the files."""
    names = {role: _name(said["settings"][role]) for role in ("target", "draft")}
    settings, models = said["settings"] | names, said["models"]
    return {
        "target": f"{names['target']} ({models['target']['architecture']})",
        "draft": names["draft"],
        "engine": f"transformers {said['libraries']['transformers']}",
        "device": f"{settings['device']}, {models['target']['dtype']}",
        "recorder": json.dumps({key: said[key] for key in _COMPARED} | {"settings": settings}),
    }


def _name(model: str) -> str:
    """Name a model: of a folder only its own name, since files travel."""
    return Path(model).resolve().name if Path(model).exists() else model


def _record_all(request: Request, models: Models, parts: Path, advance: Advance) -> None:
    labels = tuple(name for name in ("category", "tenant") if any(getattr(p, name) for p in request.prompts))
    for index, prompt in enumerate(request.prompts):
        part = _part(parts, index)
        if not part.exists():
            made = record(models, request.settings, prompt, index)
            write_traces(part, trace_of(models, request.settings, made, labels))
        advance(1)


def _merged(parts: Path, prompts: Sequence[Prompt]) -> Iterator[Traces]:
    return iter(TraceFiles([_part(parts, index) for index in range(len(prompts))], match_is="conditional"))


def _part(parts: Path, index: int) -> Path:
    return parts / f"trace-{index:06}.parquet"
