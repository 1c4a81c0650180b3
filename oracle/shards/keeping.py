"""What walks over shards work out of each batch, and how that is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from oracle.alpha_path.study import BatchScales
from oracle.analysis import BatchResult
from oracle.one_walk import Walked
from oracle.shards import fields, records
from oracle.stability.study import BatchStability

_Result = TypeVar("_Result", bound=Walked)


@dataclass(frozen=True)
class Keeping(Generic[_Result]):
    """How a walk's results are kept, a row group of a file of totals a batch.

    Attributes
    ----------
    name
        Of the walk; "" of the first over the traces, on which what cannot be read is found.
    rows
        Attribute of a result that holds rows, or None: the folder of their files.
    table_of
        Lays a result out, with the names of its generations.
    said_of
        Gives what the table does not hold, as JSON values.
    result_of
        Gives the result back, and the names.
    """

    name: str
    rows: Mapping[str, str]
    table_of: Callable[[_Result, Sequence[str]], pa.Table]
    said_of: Callable[[_Result], dict[str, Any]]
    result_of: Callable[[pa.Table, Mapping[str, Any]], tuple[_Result, tuple[str, ...]]]

    @property
    def suffix(self) -> str:
        """What tells its files apart where walks share a folder."""
        return f"-{self.name}" if self.name else ""


STUDY = Keeping[BatchResult](
    "",
    {"decisions": "decisions", "shift_rows": "shifts", "every_length": "lengths"},
    records.table_of,
    records.said_of,
    records.result_of,
)
ALPHA_PATH = Keeping[BatchScales](
    "alpha-path", {"rows": "alpha-path"}, fields.table_of, fields.said_of, partial(fields.result_of, kind=BatchScales)
)
STABILITY = Keeping[BatchStability](
    "stability", {"rows": "stability"}, fields.table_of, fields.said_of, partial(fields.result_of, kind=BatchStability)
)
ALL = (STUDY, ALPHA_PATH, STABILITY)
