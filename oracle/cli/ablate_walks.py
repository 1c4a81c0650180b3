"""The walks of ``draft-oracle ablate`` after the first: along the scale on alpha, and under draws of coefficients."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.cli.output import progress

if TYPE_CHECKING:
    from oracle.costs import LengthRange
    from oracle.latency.draws import Draws
    from oracle.latency.model import LatencyModel
    from oracle.shards import ShardFolder
    from oracle.tables import Table
    from oracle.traces import TraceFiles

DRAWS = 100


def along_alpha(
    files: "TraceFiles",
    model: "LatencyModel",
    span: "LengthRange",
    s_max: float,
    folder: Path | None,
    more: dict[str, Any],
    run: "ShardFolder | None",
) -> "list[Table]":
    """Walk along the scale on alpha; rows and a picture go into the folder."""
    from oracle.alpha_path.study import alpha_study  # noqa: PLC0415
    from oracle.figures.alpha_path import decisions_by_scale  # noqa: PLC0415
    from oracle.shards import ALPHA_PATH  # noqa: PLC0415
    from oracle.summaries.alpha_path import alpha_path_tables  # noqa: PLC0415

    rows = None if folder is None else folder / "alpha-path.parquet"
    more = more if run is None else {**more, "walker": run.walk(ALPHA_PATH)}
    with progress("path in alpha", files.generations) as advance:
        found = alpha_study(files, model, span, s_max=s_max, rows=rows, on_batch=advance, **more)
    if folder is not None:
        decisions_by_scale(found, folder / "alpha-path.svg")
    return alpha_path_tables(found)


def under_draws(
    files: "TraceFiles",
    model: "LatencyModel",
    span: "LengthRange",
    draws: "Draws",
    folder: Path | None,
    more: dict[str, Any],
    run: "ShardFolder | None",
) -> "list[Table]":
    """Walk under all draws; rows and a picture go into the folder."""
    from oracle.figures.stability import stability_figure  # noqa: PLC0415
    from oracle.shards import STABILITY  # noqa: PLC0415
    from oracle.stability.study import stability  # noqa: PLC0415
    from oracle.summaries.stability import stability_tables  # noqa: PLC0415

    rows = None if folder is None else folder / "stability.parquet"
    more = more if run is None else {**more, "walker": run.walk(STABILITY)}
    with progress("stability", files.generations) as advance:
        found = stability(files, model, draws, span, rows=rows, on_batch=advance, **more)
    if folder is not None:
        stability_figure(found, folder / "stability.svg")
    return stability_tables(found)


def draws_of(model: "LatencyModel", rounds: str | None, count: int | None) -> "Draws | None":
    """Models within the errors of the fit; without --draws only where the model tells its errors."""
    from oracle.latency.draws import draws_from_file  # noqa: PLC0415

    if count == 0:
        return None
    if rounds is not None:
        from oracle.latency.refitted_draws import draws_from_rounds  # noqa: PLC0415
        from oracle.rounds import RoundFiles  # noqa: PLC0415

        return draws_from_rounds(model, RoundFiles(rounds), draws=count or DRAWS)
    if count is None and "coefficients" not in (model.fit or {}):
        return None
    return draws_from_file(model, draws=count or DRAWS)
