"""Fuzz every reader: ``python tests/fuzzing/run.py --cases 1000000 --seed 1``.

Each case must be read, or refused with a message: no traceback, hang, crash, growth, file left behind, code run.
``--case N`` runs one case again in this process and keeps its input in a folder. Exit codes: 0 none, 1 faults found.
"""

import argparse
import importlib
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:1] = [str(Path(__file__).parents[1])]  # tests: modules are found as they are in tests
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fuzzing import shards  # noqa: E402

_SHOWN = 40


def main(arguments: list[str]) -> int:
    """Run what is asked for."""
    if arguments[:1] == ["--shard"]:
        seed, first, upto, progress = arguments[1:5]
        shards.run_shard(seed, int(first), int(upto), Path(progress), frozenset(arguments[5:]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--minutes", type=float, help="stop after about so long")
    parser.add_argument("--reader", action="append", default=[], help="only this reader; may be given again")
    parser.add_argument("--case", type=int, help="run this one case here")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-case"), help="folder for the input of --case")
    given = parser.parse_args(arguments)
    readers = frozenset(given.reader)
    if given.case is not None:
        return _one(given.seed, given.case, readers, given.keep)
    importlib.import_module("fuzzing.cases")  # what is missing is told once, not once a case
    begun = time.monotonic()
    found = shards.Found()
    told = 0
    for found in shards.run_all(given.seed, given.first, given.first + given.cases, readers):
        seconds = time.monotonic() - begun
        print(f"{found.cases:,} cases, {len(found.faults)} faults, {found.cases / seconds:.0f} a second", flush=True)
        for number, reader, text in found.faults[told : told + _SHOWN]:
            print(f"  case {number}: {reader}: {text}", flush=True)
        told = len(found.faults)
        if given.minutes is not None and seconds > 60 * given.minutes:
            break
    _report(found)
    return 1 if found.faults else 0


def _report(found: shards.Found) -> None:
    by_reader: dict[str, Counter[str]] = {}
    for (reader, kind), count in sorted(found.outcomes.items()):
        by_reader.setdefault(reader, Counter())[kind] += count
    for reader, kinds in by_reader.items():
        print(f"{reader:24}" + "".join(f"{kind} {count:>8,}   " for kind, count in sorted(kinds.items())))
    print(f"longest case {found.slowest_s:.2f} s; most growth of a process {found.growth_bytes >> 20} MiB")
    alike: dict[str, list[int]] = {}
    for number, reader, text in found.faults:
        alike.setdefault(f"{reader}: {text}", []).append(number)
    for text, numbers in sorted(alike.items(), key=lambda item: -len(item[1]))[:_SHOWN]:
        print(f"{len(numbers)} times, as case {numbers[0]}: {text}")


def _one(seed: str, number: int, readers: frozenset[str], keep: Path) -> int:
    from fuzzing import cases  # noqa: PLC0415

    chosen = cases.named(readers)
    reader, rng = cases.choice_of(seed, number, chosen)
    keep.mkdir(parents=True, exist_ok=True)
    (keep / f"in{reader.suffix}").write_bytes(reader.make(rng))
    reader, rng = cases.choice_of(seed, number, chosen)
    work = keep / "work"
    work.mkdir(exist_ok=True)
    outcome = cases.run_case(reader, rng, work.resolve())
    print(f"{reader.name}: {outcome.kind}\n{outcome.text}")
    return 1 if outcome.kind == cases.FAULT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
