"""Reading prompts, and texts that take the place of generated ones: one JSON object a line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.files import PathLike, shown

_PROMPT_KEYS = ("prompt", "messages", "prompt_token_ids")
_TEXT_KEYS = ("text", "token_ids")
_LABELS = ("category", "tenant", "cluster")
_LONGEST_LINE = 64 << 20


@dataclass(frozen=True)
class Prompt:
    """A prompt, and what it is continued by if that is given.

    Attributes
    ----------
    id
        Unique; names the generation.
    prompt
        Text, chat messages, or token ids.
    category, tenant, cluster
        Labels of the trace. The cluster is the id where none is given.
    reference
        Text or token ids that stand for what the target emits; None lets it generate.
    """

    id: str
    prompt: str | tuple[Mapping[str, str], ...] | tuple[int, ...]
    category: str | None = None
    tenant: str | None = None
    cluster: str | None = None
    reference: str | tuple[int, ...] | None = None

    @property
    def is_token_ids(self) -> bool:
        """Whether the prompt is given as token ids."""
        return isinstance(self.prompt, tuple) and isinstance(self.prompt[0], int)


def read_prompts(path: PathLike, references: PathLike | None = None) -> tuple[Prompt, ...]:
    """Read prompts, and the reference texts of all of them if a second file is given.

    Parameters
    ----------
    path
        JSON lines with one of `prompt`, `messages` (role and content) and `prompt_token_ids`; optionally `id`
        (else the line number), `category`, `tenant`, `cluster`.
    references
        JSON lines with `id` and one of `text` and `token_ids`; the first token is what the prefill emits.

    Raises
    ------
    InputError
        All faults of both files.
    """
    faults = Faults()
    prompts: dict[str, Prompt] = {}
    for place, line, record in _records(path, faults):
        prompt = _prompt(place, line, record, faults)
        if prompt is not None and prompt.id in prompts:
            faults.add(f"{place}: the id '{printable(prompt.id)}' occurs a second time; ids are unique")
        elif prompt is not None:
            prompts[prompt.id] = prompt
    if not prompts and not faults:
        faults.add(f"{shown(path)}: holds no prompts; there is one JSON object a line, such as {_EXAMPLE}")
    if references is not None:
        given = _references(references, faults)
        for name in sorted(set(prompts) - set(given)):
            faults.add(f"{shown(references)}: has no text for the prompt '{printable(name)}'; every prompt needs one")
        prompts = {name: replace(p, reference=given.get(name)) for name, p in prompts.items()}
    faults.raise_if_any()
    return tuple(prompts.values())


_EXAMPLE = '{"id": "p1", "category": "code", "prompt": "def main("}'


def _records(path: PathLike, faults: Faults) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Walk over the objects of a file of JSON lines; empty lines are passed over."""
    try:
        with Path(path).open("rb") as file:
            number = 0
            while raw := file.readline(_LONGEST_LINE + 1):
                number += 1
                place = f"{shown(path)}, line {number}"
                if len(raw) > _LONGEST_LINE:
                    faults.add(f"{place}: is longer than {_LONGEST_LINE >> 20} MiB; is this a file of JSON lines?")
                    return
                if raw.strip():
                    record = _record(place, raw, faults)
                    if record is not None:
                        yield place, number, record
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read ({error.strerror}); check the path") from error


def _record(place: str, raw: bytes, faults: Faults) -> Mapping[str, Any] | None:
    try:
        record = json.loads(raw.decode("utf-8"))
        json.dumps(record, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits, too
        faults.add(f"{place}: is not JSON ({printable(str(error))}); write one object a line, such as {_EXAMPLE}")
        return None
    if not isinstance(record, dict):
        faults.add(f"{place}: is JSON but no object; write one object a line, such as {_EXAMPLE}")
        return None
    return record


def _prompt(place: str, line: int, record: Mapping[str, Any], faults: Faults) -> Prompt | None:
    value = _one_of(place, record, _PROMPT_KEYS, faults)
    labels = {name: record[name] for name in ("id", *_LABELS) if record.get(name) is not None}
    odd = [name for name, label in labels.items() if not isinstance(label, str | int) or label == ""]
    for name in odd:
        faults.add(f"{place}: {name} is {printable(repr(labels[name]))}; it must be a text")
    if value is None or odd:
        return None
    named = {name: str(label) for name, label in labels.items()}
    return Prompt(prompt=value, **{"id": str(line), **named})


def _references(path: PathLike, faults: Faults) -> dict[str, str | tuple[int, ...]]:
    found: dict[str, str | tuple[int, ...]] = {}
    for place, _line, record in _records(path, faults):
        value = _one_of(place, record, _TEXT_KEYS, faults)
        name = record.get("id")
        if not isinstance(name, str | int):
            faults.add(f"{place}: has no id; it names the prompt that the text belongs to")
        elif str(name) in found:
            faults.add(f"{place}: the id '{printable(str(name))}' occurs a second time; ids are unique")
        elif value is not None:
            found[str(name)] = value
    return found


def _one_of(place: str, record: Mapping[str, Any], keys: tuple[str, ...], faults: Faults) -> Any:
    """Give the value of the one key that is there; token ids and messages as tuples, None for a fault."""
    there = [key for key in keys if record.get(key) is not None]
    if len(there) != 1:
        had = ", ".join(there) if there else f"none of them, but {', '.join(map(printable, list(record)[:9]))}"
        faults.add(f"{place}: has {had}; it needs one of {', '.join(keys)}")
        return None
    key, value = there[0], record[there[0]]
    rule = _rule(key, value)
    if rule is not None:
        faults.add(f"{place}: {key} {rule}")
        return None
    return tuple(value) if isinstance(value, list) else value


def _rule(key: str, value: Any) -> str | None:
    """Say what is wrong with a value; None if nothing is."""
    if key in ("prompt", "text"):
        return None if isinstance(value, str) and value else "must be a text that is not empty"
    if not isinstance(value, list) or not value:
        return "must be a list that is not empty"
    if key == "messages":
        fine = all(isinstance(m, dict) and {"role", "content"} <= m.keys() for m in value)
        return None if fine else "must be a list of objects with role and content"
    whole = all(isinstance(token, int) and not isinstance(token, bool) and 0 <= token < 1 << 31 for token in value)
    return None if whole else "must be a list of whole numbers from 0"
