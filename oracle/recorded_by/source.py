"""Requests out of the files of one conversion, in order, again and again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError
from oracle.files import shown
from oracle.recorded_by import llama_cpp, vllm
from oracle.recorded_by.engines import engine_of, reader_of, refuse_others
from oracle.recorded_by.envelope import ARRAYS, OnBytes, is_json, trees_in
from oracle.recorded_by.request import Request, stem_of
from oracle.recorded_by.timings import is_bench_forward

TRACE, ROUNDS, ACCEPTANCE = "trace", "rounds", "acceptance"


@dataclass(frozen=True)
class Source:
    """Input files of one engine.

    Attributes
    ----------
    paths
        Regular files; each is read twice.
    engine
        Whose records they hold.
    holds
        What their first record is for: `trace` (requests), `rounds` (times), `acceptance` (counters as text).
    prompt_tokens
        Tokens of every prompt, where records do not say.
    """

    paths: tuple[Path, ...]
    engine: str
    holds: str
    prompt_tokens: int | None = None

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(path.stat().st_size for path in self.paths)

    def trees(self, on_bytes: OnBytes | None = None) -> Iterator[tuple[Path, str, Any]]:
        """Every JSON record with its file and place."""
        for path in self.paths:
            for place, tree in trees_in(path, on_bytes):
                yield path, place, tree

    def requests(self, faults: Faults, on_bytes: OnBytes | None = None) -> Iterator[Request]:
        """Every request; what is wrong with a record is noted, and the record left out."""
        for path in self.paths:
            if path.suffix in ARRAYS:
                request = vllm.request_in_file(path, self.prompt_tokens, faults)
                if request is not None:
                    yield request
                if on_bytes is not None:
                    on_bytes(path.stat().st_size)
            else:
                yield from _requests_in(path, self.engine, faults, on_bytes)


def _requests_in(path: Path, engine: str, faults: Faults, on_bytes: OnBytes | None) -> Iterator[Request]:
    read = reader_of(engine)
    rounds: list[Mapping[str, Any]] = []
    joined = 0
    for place, tree in trees_in(path, on_bytes):
        if not isinstance(tree, Mapping):
            faults.add(f"{place}: is no object; give one record a line")
        elif engine == "llamacpp" and llama_cpp.is_round(tree):
            found = llama_cpp.round_in(tree, place, faults)
            if found is None:
                continue
            if rounds and found["round_id"] <= rounds[-1]["round_id"]:
                joined += 1
                yield from _joined(rounds, path, joined, faults)
                rounds = []
            rounds.append(found)
        else:
            yield from read(tree, place, faults)
    if rounds:
        yield from _joined(rounds, path, joined + 1, faults)


def _joined(rounds: list[Mapping[str, Any]], path: Path, number: int, faults: Faults) -> Iterator[Request]:
    request = llama_cpp.joined(rounds, f"{stem_of(path)}/{number}", f"{shown(path)}, request {number}", faults)
    if request is not None:
        yield request


def open_source(paths: Sequence[str | Path], engine: str | None, prompt_tokens: int | None = None) -> Source:
    """Look at the first record of every file: what it is, and whose.

    Parameters
    ----------
    engine
        Whose records they are; None finds out.

    Raises
    ------
    InputError
        Files that cannot be read, that are of several engines or kinds, or of none.
    """
    files = tuple(Path(path) for path in paths)
    faults = Faults()
    seen: dict[tuple[str, str], Path] = {}
    for path in files:
        try:
            if not path.is_file():
                raise InputError(f"{shown(path)}: is no file; give files (they are read twice, so no pipe)")
            seen.setdefault(_look(path, engine), path)
        except InputError as error:
            for fault in error.faults:
                faults.add(fault)
    faults.raise_if_any()
    if len(seen) > 1:
        named = "; ".join(f"{shown(path)}: {name}, {holds}" for (name, holds), path in seen.items())
        raise InputError(f"the inputs are not of one kind ({named}); convert them apart")
    (name, holds), _ = next(iter(seen.items()))
    return Source(files, name, holds, prompt_tokens)


def _look(path: Path, engine: str | None) -> tuple[str, str]:
    """Whose file it is, and what it is for."""
    if path.suffix in ARRAYS:
        if engine not in (None, "vllm"):
            raise InputError(f"{shown(path)}: is an array file, which --from vllm reads; {engine} sends arrays in JSON")
        return "vllm", TRACE
    if not is_json(path):
        return engine or "vllm", ACCEPTANCE
    first = next(trees_in(path), None)
    if first is None:
        raise InputError(f"{shown(path)}: holds no record")
    place, tree = first
    found = engine or engine_of(tree, place)
    if engine is not None:
        refuse_others(tree, engine, place)
    if isinstance(tree, Mapping) and (is_bench_forward(tree) or llama_cpp.is_batched_bench(tree)):
        return found, ROUNDS
    return found, TRACE
