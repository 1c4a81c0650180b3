"""What a result rests on: program and library versions, options, inputs with their digests."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib import metadata
from typing import Any

from oracle.digests import Digests
from oracle.files import File, size_of
from oracle.latency.model import LatencyModel

_LIBRARIES = ("numpy", "numba", "pyarrow")


def program_version() -> str:
    """Version of the installed distribution."""
    return metadata.version("draft-oracle")


def versions() -> dict[str, str]:
    """What results depend on besides inputs and options: this program and the libraries that compute."""
    return {"draft-oracle": program_version()} | {name: metadata.version(name) for name in _LIBRARIES}


def inputs_of(paths: Sequence[File], digests: Digests | None = None) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of each input file; `digests` that are under way already are waited for.

    Raises
    ------
    InputError
        A file has changed since its digest was begun.
    """
    with nullcontext(digests) if digests is not None else Digests(paths) as under_way:
        digests_of = [under_way.of(path) for path in paths]
        under_way.check()
    return [
        {"name": path.name, "bytes": size_of(path), "sha256": sha256}
        for path, sha256 in zip(paths, digests_of, strict=True)
    ]


def provenance(
    command: str, options: Mapping[str, Any], inputs: Sequence[File], digests: Digests | None = None
) -> dict[str, Any]:
    """Gather what a result rests on, as JSON values.

    Parameters
    ----------
    command
        Name of the command.
    options
        Its options; those that are None are left out.
    inputs
        Files it reads.
    digests
        Of the inputs, where they are under way already.

    Raises
    ------
    InputError
        An input has changed since its digest was begun.
    """
    return {
        "program": f"draft-oracle {program_version()}",
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        "command": command,
        "options": {key: value for key, value in options.items() if value is not None},
        "inputs": inputs_of(inputs, digests),
    }


def as_metadata(origin: Mapping[str, Any], model: LatencyModel) -> dict[str, str]:
    """Lay provenance and the latency model's coefficients out as Parquet metadata."""
    coefficients = json.loads(model.to_json())
    coefficients.pop("fit", None)
    return {"provenance": json.dumps(origin), "latency_model": json.dumps(coefficients)}
