"""What ``draft-oracle recommend`` is given: options checked against one another, files read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.cli.output import read_model, stdin_text
from oracle.errors import Faults, InputError, printable

if TYPE_CHECKING:
    from oracle.acceptance import Acceptance, StepTimes

_OF_ACCEPTANCE = ("acceptance_is", "acceptance_at", "acceptance_mixed", "assume")
_OF_ENGINE = ("engine_version", "method", "draft_model", "data_parallel", "most_draft_tokens", "max_batch_size")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_engine(engine: str | None, given: Mapping[str, Any]) -> None:
    """Refuse options of an engine's configuration where none is written."""
    faults = Faults()
    for name in _OF_ENGINE:
        if engine is None and given[name] is not None:
            faults.add(f"{_option(name)} goes with --engine, which is not given; add it")
    faults.raise_if_any()


def check_with_traces(given: Mapping[str, Any]) -> None:
    """Refuse options that do not go with traces."""
    faults = Faults()
    others = (*_OF_ACCEPTANCE, "acceptance", "step_times", "context_len", "tenant_weights")
    for name in others:
        if given[name] not in (None, ()):
            faults.add(f"{_option(name)} does not go with --traces, which hold it; leave one of them out")
    if given["model"] is None:
        faults.add("--traces need a latency model; give --model FILE")
    if given["unique_experts"] not in (None, "recorded", "routing"):
        faults.add(f"--unique-experts is {printable(given['unique_experts'])!r}; with --traces: recorded or routing")
    faults.raise_if_any()


def check_without_traces(given: Mapping[str, Any]) -> None:
    """Refuse options that contradict one another or leave the question open."""
    faults = Faults()
    if (given["step_times"] is None) == (given["model"] is None):
        faults.add("give step times with --step-times FILE or a latency model with --model FILE, one of them")
    if given["model"] is not None:
        if given["unique_experts"] is None:
            faults.add("a latency model needs U: give --unique-experts by m, as 1:8,2:13.1 (0 for a dense target)")
        if given["context_len"] is None:
            faults.add("a latency model needs the tokens in context: give --context-len")
    elif given["step_times"] is not None:
        for name in ("unique_experts", "context_len", "batch_size"):
            if given[name] is not None:
                faults.add(f"{_option(name)} goes with --model; step times hold it already")
    if given["match_is"] is not None:
        faults.add("--match-is goes with --traces; for --acceptance say --acceptance-is")
    if not given["acceptance"]:
        for name in (*_OF_ACCEPTANCE, "tenant_weights"):
            if given[name] not in (None, ()):
                faults.add(f"{_option(name)} goes with --acceptance, which is not given; add it")
    if [*given["acceptance"], *given["acceptance_mixed"], given["step_times"], given["model"]].count("-") > 1:
        faults.add("stdin (-) can be read once only; give a file for the others")
    faults.raise_if_any()


def step_times(given: Mapping[str, Any]) -> "Sequence[StepTimes]":
    """Read step times, or price them with the latency model."""
    from oracle.acceptance import read_step_times, step_times_from_model, step_times_from_text  # noqa: PLC0415

    if given["step_times"] == "-":
        return step_times_from_text(stdin_text(), "standard input")
    if given["step_times"] is not None:
        return read_step_times(given["step_times"])
    model = read_model(given["model"], given["batch_size"])
    return [step_times_from_model(model, unique_experts_in(given["unique_experts"]), given["context_len"])]


def unique_experts_in(text: str) -> "float | dict[int, float]":
    """Read U: one number, or m:U pairs."""
    try:
        if ":" not in text:
            values: dict[int, float] = {1: float(text)}
        else:
            pairs = [pair.split(":") for pair in text.split(",")]
            values = {int(m): float(u) for m, u in pairs}
            if len(values) < len(pairs):
                raise ValueError
        if not all(0 <= u < float("inf") for u in values.values()):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--unique-experts is {printable(text)!r}; give one number from 0 on, or pairs m:U, each m once, "
            "as 1:8,2:13.1,4:22"
        ) from None
    return values if ":" in text else values[1]


def acceptance(given: Mapping[str, Any], name: str) -> "tuple[list[str], Acceptance | None]":
    """Read all files of one option; ``tenant=file`` makes one a tenant's."""
    from oracle.acceptance import (  # noqa: PLC0415
        acceptance_from_text,
        joined,
        read_acceptance,
        with_constant_match,
    )

    files, parts = [], []
    for each in given[name]:
        tenant, path = None, each
        if "=" in each and not Path(each).exists():
            tenant, _, path = each.partition("=")
        files.append(path)
        how = (given["acceptance_is"], given["acceptance_at"])
        if path == "-":
            parts.append((tenant, acceptance_from_text(stdin_text(), "standard input", *how)))
        else:
            parts.append((tenant, read_acceptance(path, *how)))
    whole = joined(parts) if parts else None
    if whole is not None and given["acceptance_at"] is not None and all(curve.by_position for curve in whole.curves):
        raise InputError(
            "--acceptance-at is for files that hold totals, and these tell their draft lengths: leave it out"
        )
    if whole is not None and given["assume"] is not None:
        whole = with_constant_match(whole)
    return files, whole


def tenant_weights(text: str | None) -> "dict[str | None, float] | None":
    """Read the tenants' shares of the requests in flight."""
    if text is None:
        return None
    try:
        pairs = [pair.rpartition("=") for pair in text.split(",")]
        weights: dict[str | None, float] = {name.strip(): float(weight) for name, _, weight in pairs}
        if len(weights) < len(pairs) or not all(name for name in weights):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--tenant-weights is {printable(text)!r}; write each tenant once, as chat=0.7,code=0.3"
        ) from None
    return weights
