"""Language contexts of recorded traces."""

from oracle.contexts.labeller import labels_of
from oracle.contexts.labels import TokenLabels
from oracle.errors import InputError
from oracle.traces.traces import Traces


def contexts_of(traces: Traces) -> list[TokenLabels]:
    """Label the tokens of every generation, in order; the categories of generations are no evidence.

    Raises
    ------
    InputError
        The trace holds no token texts.
    """
    if "token_text" not in traces.table.column_names:
        raise InputError(
            f"{traces.source or 'the trace'}: language contexts need the column token_text (texts of the tokens the "
            "target emitted), which the trace lacks; record it, or decode token_id with the target's tokenizer"
        )
    column = traces.table.column("token_text")
    return [labels_of(column[g].as_py() or []) for g in range(traces.generations)]
