"""``draft-oracle plan-sweep``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from oracle.cli.options import SHOWING, Finite
from oracle.cli.output import emit

if TYPE_CHECKING:
    from oracle.sweep.needs import Precision

_MOST_LENGTH = 1024


@click.command("plan-sweep")
@click.option(
    "--k", "lengths", default="0-10", show_default=True, help="Draft lengths to time, such as 0-10 or 1,2,4-6."
)
@click.option("--pilot", multiple=True, metavar="ROUNDS", help="Recorded rounds that residuals and spreads come from.")
@click.option("--anchors", type=click.IntRange(1), help="How many places to time rounds at [what the precision needs].")
@click.option("--traces", multiple=True, metavar="TRACES", help="Draw the anchors from these traces.")
@click.option("--precision", help="Wanted precision of alpha(m): ms per expert, or percent of the pilot's alpha (5%).")
@click.option(
    "--precision-is",
    type=click.Choice(["half-width", "error"]),
    default="half-width",
    show_default=True,
    help="Whether that is the half-width of a 95 % interval or a standard error.",
)
@click.option("--residual-sd", type=Finite(), metavar="MS", help="Without a pilot: standard deviation of a round, ms.")
@click.option("--experts-sd", type=Finite(), metavar="U", help="Without a pilot: standard deviation of U at one m.")
@click.option("--generations", type=click.IntRange(2), help="Generations the rounds come from [those of the pilot].")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Times each round is timed.")
@click.option(
    "--anchors-a-block",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Anchors whose rounds are shuffled together.",
)
@click.option("--levers", is_flag=True, help="List serving runs over the serving levers in place of rounds.")
@click.option("--level", multiple=True, metavar="LEVER=V,V", help="Values of a lever, such as concurrency=1,32.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random order.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write the list: .csv, .parquet, .jsonl."
)
@SHOWING
def plan_sweep(
    lengths: str,
    pilot: tuple[str, ...],
    anchors: int | None,
    traces: tuple[str, ...],
    precision: str | None,
    precision_is: str,
    residual_sd: float | None,
    experts_sd: float | None,
    generations: int | None,
    repeats: int,
    anchors_a_block: int,
    levers: bool,
    level: tuple[str, ...],
    seed: int,
    output: Path | None,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Plan which verification rounds to time, in a random order that drift cannot spoil.

    Every draft length is timed once at every anchor, shuffled in blocks. Says how many rounds each draft length
    needs for the wanted precision of alpha(m), and rehearses the plan on a simulated machine that drifts.
    """
    from oracle.errors import InputError  # noqa: PLC0415

    ks = _lengths(lengths)
    if levers:
        given = {"--pilot": pilot, "--anchors": anchors, "--traces": traces, "--precision": precision}
        wrong = [name for name, value in given.items() if value]
        if wrong:
            raise InputError(f"--levers lists serving runs, to which {', '.join(wrong)} do not apply; leave them out")
        _levers(ks, level, repeats, seed, output, as_json, as_markdown)
        return
    if level:
        raise InputError("--level gives values of the serving levers; it goes with --levers")
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415
    from oracle.summaries.sweep import plan_tables  # noqa: PLC0415
    from oracle.sweep import plan as planning  # noqa: PLC0415
    from oracle.sweep.needs import Spread, pilot_of  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    if (residual_sd is None) != (experts_sd is None):
        raise InputError("--residual-sd and --experts-sd go together: alpha's error needs both")
    spread = None
    if residual_sd is not None and experts_sd is not None:
        spread = Spread(0, residual_sd, experts_sd, 0.0, None, "given")
    request = planning.Request(
        ks, anchors, repeats, _precision(precision, precision_is), generations, anchors_a_block, seed
    )
    rounds = RoundFiles(list(pilot)) if pilot else None
    files = TraceFiles(list(traces), columns=["category", "cluster"]) if traces else None
    plan = planning.plan_sweep(request, None if rounds is None else pilot_of(rounds), spread, files)
    inputs = [path for source in (rounds, files) if source is not None for path in source.paths]
    options = {"k": lengths, "anchors": anchors, "precision": precision, "precision_is": precision_is, "seed": seed}
    origin = provenance("plan-sweep", options | {"repeats": repeats, "generations": generations}, inputs)
    _write(plan.table, output, origin)
    emit(plan_tables(plan), as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _levers(
    ks: tuple[int, ...],
    level: tuple[str, ...],
    repeats: int,
    seed: int,
    output: Path | None,
    as_json: bool,
    as_markdown: bool,
) -> None:
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.summaries.sweep import lever_tables  # noqa: PLC0415
    from oracle.sweep.levers import lever_plan, read_levels  # noqa: PLC0415

    levels = read_levels(level)
    table = lever_plan(levels, ks, repeats, seed)
    origin = provenance("plan-sweep", {"k": list(ks), "levels": levels, "repeats": repeats, "seed": seed}, [])
    _write(table, output, origin)
    tables = lever_tables(table, repeats, seed)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _write(table: object, output: Path | None, origin: dict[str, object]) -> None:
    import json  # noqa: PLC0415

    from oracle.sweep.writing import write_plan  # noqa: PLC0415

    if output is not None:
        write_plan(output, table, {"provenance": json.dumps(origin)})


def _lengths(text: str) -> tuple[int, ...]:
    """Read draft lengths such as ``0-10`` or ``1,2,4-6``."""
    from oracle.errors import InputError, printable  # noqa: PLC0415

    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"--k '{printable(text)}': draft lengths are whole numbers or ranges, such as 0-10 or 1,2,4-6"
            )
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high > _MOST_LENGTH:
            rule = "runs backwards" if high < low else f"goes beyond {_MOST_LENGTH}"
            raise InputError(
                f"--k '{printable(text)}': {printable(part.strip())} {rule}; give draft lengths in rising order"
            )
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def _precision(text: str | None, kind: str) -> "Precision | None":
    """Read a precision such as ``0.01`` or ``5%``."""
    from oracle.errors import InputError, printable  # noqa: PLC0415
    from oracle.sweep.needs import Precision  # noqa: PLC0415

    if text is None:
        return None
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%"))
    except ValueError:
        raise InputError(f"--precision '{printable(text)}': is neither ms per expert (0.01) nor percent (5%)") from None
    if not 0 < value < float("inf"):
        raise InputError(f"--precision '{printable(text)}': must be above 0")
    return Precision(value / 100 if percent else value, percent, kind)
