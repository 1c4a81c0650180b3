"""Language contexts: what a token is in its text, from the text alone.

`labels_of` labels the tokens of one generation, `contexts_of` those of recorded traces; `label_definitions` says what
the words mean.
"""

from oracle.contexts.labeller import labels_of
from oracle.contexts.labels import (
    FLAGS,
    NO_CHANGE,
    NO_SCRIPT,
    SCRIPTS,
    Definition,
    Label,
    Mode,
    TokenLabels,
    label_definitions,
    name_of,
)
from oracle.contexts.recorded import contexts_of

__all__ = [
    "FLAGS",
    "NO_CHANGE",
    "NO_SCRIPT",
    "SCRIPTS",
    "Definition",
    "Label",
    "Mode",
    "TokenLabels",
    "contexts_of",
    "label_definitions",
    "labels_of",
    "name_of",
]
