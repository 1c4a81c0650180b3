"""Choosing the cheapest member of each family of policies on each set of training generations, in one walk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.policies import Inputs, Policy, Training
from oracle.policies.laid_out import LaidOut
from oracle.tuning.families import total_ms
from oracle.tuning.survey import Folds
from oracle.unit_sums import add_rows

_UNTAUGHT = -1


@dataclass(frozen=True)
class Family:
    """One family of policies and what was chosen of it.

    Attributes
    ----------
    name
        The text form without its parameter.
    chosen
        The policy chosen for each fold, from the other folds.
    chosen_on_all
        The policy chosen on all generations.
    ends
        The first and the last member that was tried: the shortest and the longest drafts.
    """

    name: str
    chosen: tuple[Policy, ...]
    chosen_on_all: Policy
    ends: tuple[Policy, Policy]

    @property
    def online(self) -> bool:
        """Whether an engine could run it."""
        return self.chosen_on_all.online

    @property
    def claimed(self) -> bool:
        """Whether only its author can say what it looked at."""
        return self.chosen_on_all.claimed


def choose(
    laid: LaidOut, tried: Mapping[str, tuple[Policy, ...]], folds: Folds, trainings: Sequence[Training]
) -> tuple[Family, ...]:
    """The cheapest member of each family on the generations outside each fold, and on all; ties: the shortest drafts.

    Parameters
    ----------
    tried
        Members of each family.
    trainings
        Constants from the generations outside each fold, and from all.
    """
    ms: dict[tuple[str, int], NDArray[np.float64]] = {}
    for fold, found in laid.over(partial(_costed, tried=tried, folds=folds, trainings=trainings)):
        for key, each in found.items():
            total = ms.setdefault(key, np.zeros((folds.count, each.shape[1])))
            for f in range(folds.count):
                add_rows(total[f], each[fold == f])
    families = []
    for name, members in tried.items():
        chosen = []
        for i in range(len(trainings)):
            others = [f for f in range(folds.count) if f != i]
            chosen.append(members[int(ms[name, i if members[0].learns else _UNTAUGHT][others].sum(axis=0).argmin())])
        families.append(Family(name, tuple(chosen[:-1]), chosen[-1], (members[0], members[-1])))
    return tuple(families)


def _costed(
    batch: Inputs, tried: Mapping[str, tuple[Policy, ...]], folds: Folds, trainings: Sequence[Training]
) -> tuple[NDArray[np.int64], dict[tuple[str, int], NDArray[np.float64]]]:
    """The fold of each generation of a batch; milliseconds of every member, (G, P), under each training it learns."""
    found = {(name, _UNTAUGHT): total_ms(batch, members) for name, members in tried.items() if not members[0].learns}
    for i, training in enumerate(trainings):
        taught = replace(batch, training=training)
        found |= {(name, i): total_ms(taught, members) for name, members in tried.items() if members[0].learns}
    return folds.of(batch.traces.own_cluster_of), found
