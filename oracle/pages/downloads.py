"""The numbers behind a figure or a table as files inside the page: data URIs with CSV and JSON."""

import base64
import csv
import io
import json
from typing import Any

from oracle.tables import Table, plain

_FORMULA = tuple("=+-@\t\r\n|%＝＋－＠")  # a spreadsheet would run a text that begins so (OWASP: CSV injection)


def csv_text(table: Table) -> str:
    """The rows at full precision; what is not known is empty, lists are JSON. Lines end as RFC 4180 says."""
    names = list(dict.fromkeys(name for row in table.rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")  # with it, a lone carriage return is quoted too
    writer.writerow([_cell(name) for name in names])
    for row in table.rows:
        writer.writerow([_cell(plain(row.get(name))) for name in names])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if _runs(value) else value
    return json.dumps(value, ensure_ascii=False)


def _runs(text: str) -> bool:
    """Whether a spreadsheet could take a text for a formula: what is not seen before it does not count."""
    seen = text.lstrip(" \ufeff\u00a0\u200b\u3000\x00")
    return seen.startswith(_FORMULA) or seen.lstrip().startswith(_FORMULA)


def json_text(table: Table) -> str:
    """Title, rows and notes as JSON."""
    return json.dumps({"name": table.name, **table.to_dict()}, ensure_ascii=False, allow_nan=False)


def data_uri(text: str, kind: str) -> str:
    """A file inside a link."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode('ascii')}"
