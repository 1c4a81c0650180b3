"""The numbers that figures of a memory plan draw: one row a part of a bar, a point of a line, or a mark."""

from typing import Any

from oracle.figures.pool import PARTS, DraftLine, bars, draft_lines, early_exit_lines, largest_that_pay, size_of
from oracle.pool.answer import PoolAnswer
from oracle.pool.plan import GIB
from oracle.tables import Row, Table, number, words


def memory_drawn(found: PoolAnswer) -> Table:
    """Parts of every bar."""
    rows: list[Row] = [
        {"bar": name, "part": what, "gib": size_of(laid, part), "tenants": laid.tenants}
        for name, laid in bars(found)
        for part, what, *_ in PARTS
    ]
    columns = (words("bar", "bar"), words("part", "part"), number("GiB", "gib", ".3f"), number("tenants", "tenants"))
    return Table("pool_memory_drawn", "Where the bytes go: the parts drawn", columns, rows)


def draft_sizes_drawn(found: PoolAnswer) -> Table:
    """Points of the lines over sizes of draft, each speed-up as stated, and the largest that pays."""
    rows: list[Row] = []
    for line in draft_lines(found):
        rows += _line_rows(line)
    columns = (
        words("speed-up", "speedup"),
        words("", "mark"),
        number("GiB", "gib", ".3f"),
        number("tenants", "tenants", ",.0f"),
        number("gain", "gain"),
        number("gain, verification hidden", "hidden_gain"),
    )
    return Table("pool_drafts_drawn", "Tenants by size of draft: the points drawn", columns, rows)


def _line_rows(line: DraftLine) -> list[Row]:
    worth, count = line.worth, len(line.draft_bytes)
    gains = [[None] * count if each is None else each.tolist() for each in (line.gain, line.hidden_gain)]
    named: dict[str, Any] = {"speedup": worth.speedup.name}
    own = worth.having
    hidden = None if worth.hidden is None else worth.hidden.gain
    stated = {"gib": own.draft_bytes / GIB, "tenants": own.tenants, "gain": worth.gain, "hidden_gain": hidden}
    nothing = {"tenants": None, "gain": None, "hidden_gain": None}
    return [
        {**named, "mark": "as stated", **stated},
        *({**named, "mark": "largest that pays", "gib": size / GIB, **nothing} for size in largest_that_pay(worth)),
        *(
            {**named, "mark": "line", "gib": size / GIB, "tenants": held, "gain": gain, "hidden_gain": other}
            for size, held, gain, other in zip(line.draft_bytes.tolist(), line.tenants.tolist(), *gains, strict=True)
        ),
    ]


def early_exit_drawn(found: PoolAnswer) -> Table:
    """Points of the lines over batch size."""
    batch, lines = early_exit_lines(found)
    rows: list[Row] = [
        {"series": name, "batch": B, "saved": share}
        for name, saved in lines.items()
        for B, share in zip(batch.tolist(), saved.tolist(), strict=True)
    ]
    columns = (words("series", "series"), number("batch", "batch", ",.0f"), number("% saved", "saved", ".2f", 100))
    return Table("pool_exits_drawn", "Early exit by batch size: the points drawn", columns, rows)
