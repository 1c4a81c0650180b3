"""A latency model's JSON: checked values read strictly and written, one block or one for each batch size."""

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.latency.model_checks import check_batch_sizes, check_draft, check_keys, check_number, check_verify, kind_of
from oracle.latency.strict_json import read_strictly, write_readably

FORMAT = "draft-oracle/latency-model"
VERSION = 1
VERIFY_KEYS = ("m", "beta0_ms", "alpha_ms_per_expert", "context_ms_per_token")
LINE_KEYS = ("ms_per_token", "base_ms")
TABLE_KEYS = ("k", "ms")


def read_blocks(text: str, source: str) -> tuple[list[dict[str, Any]], Mapping[str, Any] | None]:
    """Read the blocks of a latency model and its record.

    Parameters
    ----------
    text, source
        The JSON, and what to call it in messages.

    Returns
    -------
    blocks : list of dict
        For each batch size (or the only block) `VERIFY_KEYS`, `batch_size` (None in the form without), `draft` (an
        object) and `reject_ms`. A block without a draft or reject_ms of its own has the file's.
    fit : mapping or None
        How the numbers came about.

    Raises
    ------
    InputError
        All faults at once.
    """
    tree = read_strictly(text, source)
    _refuse_other_formats(tree, source)
    faults = Faults()
    several = isinstance(tree.get("verify"), list)
    needed = ("format", "version", "verify") if several else ("format", "version", "verify", "draft")
    optional = ("draft", "reject_ms", "fit") if several else ("reject_ms", "fit")
    check_keys(tree, f"{source}: ", needed, optional, faults)
    fit = _object(tree, source, "fit", faults)
    if several:
        blocks = _several(tree, source, faults)
    else:
        verify = _object(tree, source, "verify", faults)
        blocks = [] if verify is None else [{**verify, "batch_size": None}]
        if verify is not None:
            check_keys(verify, f"{source}: verify.", VERIFY_KEYS, (), faults)
            check_verify(verify, f"{source}: verify.", faults)
    draft = _object(tree, source, "draft", faults)
    if draft is not None:
        # m of the blocks that take this draft; values that are no list of numbers are faults already
        without = [block.get("m") for block in blocks if "draft" not in block]
        union = [m for each in without if isinstance(each, list) for m in each]
        _check_draft(draft, f"{source}: draft.", union, faults)
    check_number(tree.get("reject_ms", 0.0), f"{source}: reject_ms", faults, least=0.0)
    faults.raise_if_any()
    defaults = {"draft": draft, "reject_ms": tree.get("reject_ms", 0.0)}
    return [defaults | block for block in blocks], fit


def write_blocks(blocks: Sequence[Mapping[str, Any]], fit: Mapping[str, Any] | None) -> str:
    """Write as readable JSON what `read_blocks` gives back; what all blocks share is written once."""
    rest = [{"draft": block["draft"], "reject_ms": block["reject_ms"]} for block in blocks]
    shared = {key: value for key, value in rest[0].items() if all(other[key] == value for other in rest)}
    verify = [
        ({} if block["batch_size"] is None else {"batch_size": block["batch_size"]})
        | {key: block[key] for key in VERIFY_KEYS}
        | {key: value for key, value in own.items() if key not in shared}
        for block, own in zip(blocks, rest, strict=True)
    ]
    several = any(block["batch_size"] is not None for block in blocks)
    tree: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "verify": verify if several else verify[0],
        **shared,
    }
    if fit is not None:
        tree["fit"] = fit
    return write_readably(tree) + "\n"


def _several(tree: Mapping[str, Any], source: str, faults: Faults) -> list[dict[str, Any]]:
    """Check a list of blocks, one a batch size; give those that are objects."""
    listed = tree["verify"]
    if not listed:
        faults.add(f"{source}: verify is an empty list; give one block for each batch size")
    blocks = []
    for i, block in enumerate(listed):
        place = f"{source}: verify[{i}]"
        if not isinstance(block, dict):
            faults.add(f"{place} is {kind_of(block)}; it is an object")
            continue
        blocks.append(block)
        check_keys(block, f"{place}.", ("batch_size", *VERIFY_KEYS), ("draft", "reject_ms"), faults)
        check_verify(block, f"{place}.", faults)
        own = _object(block, place, "draft", faults, joint=".")
        if own is not None:
            _check_draft(own, f"{place}.draft.", block.get("m"), faults)
        elif "draft" not in block and "draft" not in tree:
            faults.add(f"{place}.draft is missing, and so is a draft for all batch sizes; add one of them")
        check_number(block.get("reject_ms", 0.0), f"{place}.reject_ms", faults, least=0.0)
    if len(blocks) == len(listed):
        check_batch_sizes(
            [block["batch_size"] for block in blocks if "batch_size" in block], f"{source}: verify", faults
        )
    return blocks


def _check_draft(draft: Mapping[str, Any], place: str, m: Any, faults: Faults) -> None:
    needed = TABLE_KEYS if draft.keys() & set(TABLE_KEYS) else LINE_KEYS
    check_keys(draft, place, needed, (), faults)
    check_draft(draft, place, m, faults)


def _object(tree: Mapping[str, Any], source: str, key: str, faults: Faults, joint: str = ": ") -> dict[str, Any] | None:
    """Give the object under `key`, None if it is missing or something else (which is a fault)."""
    value = tree.get(key)
    if isinstance(value, dict):
        return value
    if key in tree and (value is not None or key != "fit"):
        faults.add(f"{source}{joint}{key} is {kind_of(value)}; it is an object")
    return None


def _refuse_other_formats(tree: Any, source: str) -> None:
    """Raise at once where nothing else in the file can be judged."""
    if not isinstance(tree, dict):
        raise InputError(
            f"{source}: holds {kind_of(tree)}; a latency model is an object with format, version, verify and draft"
        )
    if tree.get("format") != FORMAT:
        found = printable(repr(tree["format"])) if "format" in tree else "missing"
        raise InputError(f'{source}: format is {found}; a latency model says "format": "{FORMAT}"')
    version = tree.get("version")
    if version != VERSION or isinstance(version, bool):
        found = printable(repr(version)) if "version" in tree else "missing"
        raise InputError(
            f"{source}: version is {found}; this program reads version {VERSION}; fit the rounds again with it"
        )
