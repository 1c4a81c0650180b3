"""The numbers that figures of a memory plan draw: one row a part of a bar, a point of a line, or a mark."""

from typing import Any

from oracle.figures.pool import PARTS, bars, draft_lines, early_exit_lines, size_of
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
        worth = line.worth
        gains = [None] * len(line.draft_bytes) if line.gain is None else line.gain.tolist()
        named: dict[str, Any] = {"speedup": worth.speedup.name}
        own, most = worth.having, worth.most_draft_bytes
        rows.append(
            {**named, "mark": "as stated", "gib": own.draft_bytes / GIB, "tenants": own.tenants, "gain": worth.gain}
        )
        if most is not None and most >= 0:
            rows.append({**named, "mark": "largest that pays", "gib": most / GIB, "tenants": None, "gain": None})
        rows += [
            {**named, "mark": "line", "gib": size / GIB, "tenants": held, "gain": gain}
            for size, held, gain in zip(line.draft_bytes.tolist(), line.tenants.tolist(), gains, strict=True)
        ]
    columns = (
        words("speed-up", "speedup"),
        words("", "mark"),
        number("GiB", "gib", ".3f"),
        number("tenants", "tenants", ",.0f"),
        number("gain", "gain"),
    )
    return Table("pool_drafts_drawn", "Tenants by size of draft: the points drawn", columns, rows)


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
