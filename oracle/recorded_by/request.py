"""A request as any engine reports it, and the small readings that all readers share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from oracle.errors import Faults, printable

MOST_TOKENS = 1 << 26
_NAMED = ("category", "tenant", "cluster")


@dataclass(frozen=True, eq=False)
class Routing:
    """Expert ids as sent: indexed by input token, prompt rows and dense layers in it.

    Attributes
    ----------
    values : (rows, layers, slots), or flat
        A flat array does not say its shape: the rows follow from the tokens, the slots must be told.
    start
        The input token of row 0, where the payload says it; None otherwise.
    """

    values: NDArray[Any]
    start: int | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """One request.

    Attributes
    ----------
    place
        For messages.
    name
        The engine's id of it; None where it gives none.
    prompt_tokens, emitted
        Tokens of the prompt, and tokens emitted, the one that prefill emits among them.
    labels
        category, tenant and cluster where the record names them.
    token_id, token_text
        Of the emitted tokens, `emitted` entries.
    routing
        Expert ids.
    metrics
        The object that holds the counts of accepted tokens, as `oracle.acceptance.requests` reads it.
    """

    place: str
    name: str | None
    prompt_tokens: int | None
    emitted: int | None
    labels: Mapping[str, str] = field(default_factory=dict)
    token_id: Sequence[int] | None = None
    token_text: Sequence[str] | None = None
    routing: Routing | None = None
    metrics: Mapping[str, Any] | None = None


def labels_of(*trees: Mapping[str, Any]) -> dict[str, str]:
    """category, tenant and cluster, from the first object that names them."""
    found = {}
    for name in _NAMED:
        value = next((tree[name] for tree in trees if isinstance(tree.get(name), str)), None)
        if value is not None:
            found[name] = value
    return found


def count_of(tree: Any, name: str, place: str, faults: Faults) -> int | None:
    """A number of tokens; None if it is not given, or a fault was noted."""
    value = tree.get(name) if isinstance(tree, Mapping) else None
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        faults.add(f"{place}: {name} is {printable(repr(value), 40)}; it is a number of tokens, 0 … {MOST_TOKENS}")
        return None
    return value


def ids_of(value: Any, name: str, place: str, faults: Faults) -> list[int] | None:
    """Token ids; None if they are not given, or a fault was noted."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 1 << 31 for item in value):
        faults.add(f"{place}: {name} is no list of token ids (whole numbers from 0 on)")
        return None
    return value


def texts_of(items: Any) -> list[str] | None:
    """Texts of tokens, from texts or from objects with `token`; None if it is anything else."""
    if not isinstance(items, list):
        return None
    texts = [item.get("token") if isinstance(item, Mapping) else item for item in items]
    whole = [text for text in texts if isinstance(text, str)]
    return whole if len(whole) == len(texts) else None


def emitted_of(count: int | None, ids: Sequence[int] | None, place: str, faults: Faults) -> int | None:
    """Tokens emitted, from a count and from the ids themselves; they must agree."""
    if count is not None and ids is not None and count != len(ids):
        faults.add(
            f"{place}: {len(ids)} token ids, but {count} completion tokens are counted; a special token at the end "
            "may be left out of one of them: record both from the same response"
        )
        return None
    return len(ids) if count is None and ids is not None else count


def texts_that_fit(texts: list[str] | None, emitted: int | None) -> list[str] | None:
    """Texts of the emitted tokens, only where there is one for each."""
    return texts if texts is not None and len(texts) == emitted else None


def refuse_chunk(tree: Mapping[str, Any], place: str, faults: Faults) -> bool:
    """Note a piece of a streamed response; say whether it is one."""
    kind = tree.get("object")
    if not isinstance(kind, str) or not kind.endswith(".chunk"):
        return False
    faults.add(
        f"{place}: is one piece of a streamed response ({printable(kind, 40)}); record whole responses, with stream off"
    )
    return True


def choices_of(tree: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The choices of an OpenAI-compatible response that are objects, numbered."""
    choices = tree.get("choices")
    for i, choice in enumerate(choices if isinstance(choices, list) else []):
        if isinstance(choice, Mapping):
            yield i, choice


def name_in(tree: Mapping[str, Any], choice: int, of: int) -> str | None:
    """The id of a response, with the number of the choice where there are several."""
    name = tree.get("id")
    if not isinstance(name, str) or not name:
        return None
    return name if of == 1 else f"{name}/{choice}"


def stem_of(path: Path) -> str:
    """A file's name without its ending."""
    return path.name.rsplit(".", 1)[0]
