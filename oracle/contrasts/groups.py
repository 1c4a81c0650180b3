"""Groups of tokens that are contrasted: one label, mode, script, flag or change each."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.contexts import FLAGS, NO_CHANGE, NO_SCRIPT, SCRIPTS, Label, Mode, TokenLabels, name_of
from oracle.contexts.scripts import joined_scripts

KINDS = ("all", "label", "mode", "script", "flag", "change", "mismatch")
_WITHOUT_LETTER = tuple(SCRIPTS.index(name) for name in ("Common", "Unknown") if name in SCRIPTS)


class Group(NamedTuple):
    """Tokens of one `kind` and `name`; of kind `change`, those at which a mode or a script gives way to another."""

    kind: str
    name: str


ALL = Group("all", "all")
PROSE = Group("label", name_of(Label.PROSE_VOCABULARY))
CONTROL_FLOW, OTHER_CODE = Group("flag", "control_flow"), Group("flag", "other code")
_ORDER = {name_of(label): int(label) for label in Label} | {name: i for i, name in enumerate(FLAGS)}


def in_order(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Put groups in the order of tables: by kind, labels in the order in which they win, other names sorted."""
    return tuple(sorted(set(groups), key=lambda g: (KINDS.index(g.kind), _ORDER.get(g.name, 0), g.name)))


def groups_of(labels: Sequence[TokenLabels]) -> tuple[tuple[Group, ...], NDArray[np.bool_]]:
    """Say which group each token of a batch belongs to.

    Parameters
    ----------
    labels
        Of each generation, in order.

    Returns
    -------
    groups
        `ALL`, and those that occur, in order.
    member : (N, B) bool
        Whether a token belongs to a group; it may belong to several, but only to one label, mode and script.
    """
    found: dict[Group, NDArray[np.bool_]] = {}
    label, mode, script = (_whole(labels, name) for name in ("label", "mode", "script"))
    for value in Label:
        found[Group("label", name_of(value))] = label == value
    for value_ in Mode:
        found[Group("mode", name_of(value_))] = mode == value_
    for code in np.unique(script):
        found[Group("script", SCRIPTS[code])] = script == code
    for flag in FLAGS:
        found[Group("flag", flag)] = _whole(labels, flag).astype(np.bool_)
    found |= _changes([name_of(value) for value in Mode], _whole(labels, "from_mode"), mode, NO_CHANGE)
    found |= _changes(SCRIPTS, *_scripts(_whole(labels, "script_before"), script), NO_SCRIPT)
    found = {group: holds for group, holds in found.items() if holds.any()}
    found[ALL] = np.ones(len(label), np.bool_)
    groups = in_order(found)
    return groups, np.stack([found[group] for group in groups], axis=1)


def control_flow_and_other_code(labels: Sequence[TokenLabels]) -> tuple[tuple[Group, ...], NDArray[np.bool_]]:
    """Part the code of a batch: control flow occurs in code only, so against all else it is compared with prose, too.

    Returns
    -------
    groups
        `CONTROL_FLOW` and `OTHER_CODE`.
    member : (N, 2) bool
        Whether a token belongs to one of them.
    """
    flag = _whole(labels, CONTROL_FLOW.name).astype(np.bool_)
    code = _whole(labels, "mode") == Mode.CODE
    return (CONTROL_FLOW, OTHER_CODE), np.stack([flag, code & ~flag], axis=1)


def _whole(labels: Sequence[TokenLabels], name: str) -> NDArray[np.int64]:
    """One attribute of all tokens, generation after generation."""
    return np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in labels)]).astype(np.int64)


def _scripts(before: NDArray[np.int64], script: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Script before each change of script and after it; `NO_SCRIPT` before all other tokens."""
    old, new = joined_scripts(before.astype(np.int16)), joined_scripts(script.astype(np.int16))
    changes = (old != NO_SCRIPT) & ~np.isin(new, _WITHOUT_LETTER) & (old != new)
    return np.where(changes, old, NO_SCRIPT).astype(np.int64), new.astype(np.int64)


def _changes(
    names: Sequence[str], old: NDArray[np.int64], new: NDArray[np.int64], none: int
) -> dict[Group, NDArray[np.bool_]]:
    """Changes in either direction by the two they lie between."""
    found: dict[Group, NDArray[np.bool_]] = {}
    changes = old != none
    for a, b in {(int(a), int(b)) for a, b in zip(old[changes], new[changes], strict=True)}:
        group = Group("change", " ↔ ".join(sorted((names[a], names[b]))))
        found[group] = found.get(group, np.zeros(len(old), np.bool_)) | ((old == a) & (new == b))
    return found
