"""Acceptance from a file of any of the known kinds, told apart by what is in it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oracle.acceptance import typed
from oracle.acceptance.counters import LOG_LINE, PER_POSITION, from_log, from_prometheus
from oracle.acceptance.curves import Acceptance, AcceptanceIs
from oracle.acceptance.requests import from_requests, metrics_in
from oracle.errors import InputError
from oracle.files import shown
from oracle.latency.strict_json import read_strictly


def read_acceptance(path: str | Path, acceptance_is: AcceptanceIs | None = None) -> Acceptance:
    """Read a file; see `acceptance_from_text`.

    Raises
    ------
    InputError
        The file cannot be read as text, or its content is refused.
    """
    return acceptance_from_text(read_text(path), shown(path), acceptance_is)


def read_text(path: str | Path) -> str:
    """Read a text file whole.

    Raises
    ------
    InputError
        It is missing, unreadable, not UTF-8, or empty.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)}: is not UTF-8 text (byte {error.start}); give a text file") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{shown(path)}: cannot be read ({why}); check the path and its permissions") from error
    if not text.strip():
        raise InputError(f"{shown(path)}: the file is empty; was its writer interrupted?")
    return text


def acceptance_from_text(text: str, source: str, acceptance_is: AcceptanceIs | None = None) -> Acceptance:
    """Read acceptance by position from text.

    Parameters
    ----------
    text
        vLLM's Prometheus text or log lines; per-request metrics as JSON or JSON lines (vLLM, TensorRT-LLM), alone or
        inside responses; a typed table as JSON or CSV.
    source
        What to call it in messages.
    acceptance_is
        What a typed table holds; needed there. Engines' counters are survival: `conditional` is refused for them.

    Raises
    ------
    InputError
        As the readers of each kind.
    """
    if PER_POSITION in text or LOG_LINE in text:
        kind = "vLLM's per-position counters" if PER_POSITION in text else "vLLM's per-position rates in the log"
        _refuse_conditional(acceptance_is, source, kind)
        return from_prometheus(text, source) if PER_POSITION in text else from_log(text, source)
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return typed.from_csv(text, source, acceptance_is)
    tree = _json_tree(text, source)
    if any(True for _ in metrics_in(tree, source)):
        _refuse_conditional(acceptance_is, source, "per-request counts of accepted tokens")
        return from_requests(tree, source)
    if isinstance(tree, list) and tree and all(type(rate) in (int, float) for rate in tree):
        tree = {"rates": tree}
    return typed.from_json(json.dumps(tree), source, acceptance_is)


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


def _refuse_conditional(acceptance_is: AcceptanceIs | None, source: str, kind: str) -> None:
    if acceptance_is == "conditional":
        raise InputError(
            f"{source}: holds {kind}, which are survival; their running product would be wrong: say --acceptance-is "
            "survival, or leave it out"
        )


def _json_tree(text: str, source: str) -> Any:
    """Parse JSON, or JSON lines as a list."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and all(line.strip().startswith("{") and line.strip().endswith("}") for _, line in lines):
        return [read_strictly(line, f"{source}, line {number}") for number, line in lines]
    return read_strictly(text, source)
