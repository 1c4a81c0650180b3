"""Acceptance from a file of any of the known kinds, told apart by what is in it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oracle.acceptance import logs, typed
from oracle.acceptance.counters import LOG_LINE, PER_POSITION, from_log, from_prometheus
from oracle.acceptance.curves import Acceptance, AcceptanceIs
from oracle.acceptance.requests import from_requests, metrics_in
from oracle.acceptance.totals import from_totals, totals_in
from oracle.errors import Faults, InputError
from oracle.files import read_text, shown
from oracle.latency.strict_json import read_strictly


def read_acceptance(
    path: str | Path, acceptance_is: AcceptanceIs | None = None, measured_at: int | None = None
) -> Acceptance:
    """Read a file; see `acceptance_from_text`.

    Raises
    ------
    InputError
        The file cannot be read as text, or its content is refused.
    """
    return acceptance_from_text(read_text(path), shown(path), acceptance_is, measured_at)


def acceptance_from_text(
    text: str, source: str, acceptance_is: AcceptanceIs | None = None, measured_at: int | None = None
) -> Acceptance:
    """Read acceptance from text.

    Parameters
    ----------
    text
        By position: vLLM's Prometheus text or log lines, llama.cpp's log lines, per-request metrics as JSON or JSON
        lines (vLLM, SGLang, TensorRT-LLM, ik_llama.cpp), alone or inside responses, a typed table as JSON or CSV.
        Totals: llama.cpp's timings and older log lines, SGLang's log lines, metrics without counts by position.
    source
        What to call it in messages.
    acceptance_is
        What a typed table holds; needed there. Engines' counters are survival: `conditional` is refused for them.
    measured_at
        K at which totals were counted, where they do not tell it.

    Raises
    ------
    InputError
        As the readers of each kind.
    """
    kind, found = _from_log(text, source, measured_at) or (None, None)
    if kind is None and text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        tree = _json_tree(text, source)
        kind, found = _from_engine(tree, source, measured_at)
        if found is None:
            if isinstance(tree, list) and tree and all(type(rate) in (int, float) for rate in tree):
                tree = {"rates": tree}
            return typed.from_json(json.dumps(tree), source, acceptance_is)
    if found is None:
        return typed.from_csv(text, source, acceptance_is)
    if acceptance_is == "conditional":
        raise InputError(
            f"{source}: holds {kind}, which are survival; their running product would be wrong: say --acceptance-is "
            "survival, or leave it out"
        )
    return found


def _from_log(text: str, source: str, measured_at: int | None) -> tuple[str, Acceptance] | None:
    """Read what servers write by themselves; None if it is none of that."""
    if PER_POSITION in text:
        return "vLLM's per-position counters", from_prometheus(text, source)
    if LOG_LINE in text:
        return "vLLM's per-position rates in the log", from_log(text, source)
    if logs.is_log(text, logs.LLAMA_CPP):
        return "llama.cpp's rates in the log", logs.from_llama_cpp(text, source, measured_at)
    if logs.is_log(text, logs.SGLANG):
        return "SGLang's lengths in the log", logs.from_sglang(text, source, measured_at)
    return None


def _from_engine(tree: Any, source: str, measured_at: int | None) -> tuple[str | None, Acceptance | None]:
    """Read counts by request, by position where there are such; None if there are none."""
    if any(True for _ in metrics_in(tree, source)):
        return "per-request counts of accepted tokens", from_requests(tree, source)
    faults = Faults()
    totals = list(totals_in(tree, source, faults))
    faults.raise_if_any()
    return ("totals of requests", from_totals(totals, source, measured_at)) if totals else (None, None)


def joined(parts: Sequence[tuple[str | None, Acceptance]]) -> Acceptance:
    """Put acceptance of several files together; a name beside one makes it a tenant's.

    Raises
    ------
    InputError
        A draft length that is given twice for one tenant.
    """
    curves = [
        curve if tenant is None else replace(curve, tenant=tenant) for tenant, part in parts for curve in part.curves
    ]
    typed.refuse_doubles(curves)
    return Acceptance(tuple(curves), tuple(note for _, part in parts for note in part.notes))


def _json_tree(text: str, source: str) -> Any:
    """Parse JSON, or JSON lines as a list."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and all(line.strip().startswith("{") and line.strip().endswith("}") for _, line in lines):
        return [read_strictly(line, f"{source}, line {number}") for number, line in lines]
    return read_strictly(text, source)
