"""The decisions that were chosen, read again with their texts and explained."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.explanation import Explained, explain_decision
from oracle.illustrations.candidates import Candidate
from oracle.illustrations.search import Search
from oracle.traces.lookup import read_generation


@dataclass(frozen=True)
class Illustration:
    """A decision that was chosen.

    Attributes
    ----------
    group
        Of the rule; "cases" for a case.
    candidate
        The decision, and the rule it was chosen by.
    differs_in
        In what it differs from all that were chosen before.
    explained
        Its numbers and texts.
    """

    group: str
    candidate: Candidate
    differs_in: tuple[str, ...]
    explained: Explained


@dataclass(frozen=True)
class Chosen:
    """Illustrations, with the rules they were chosen by.

    Attributes
    ----------
    illustrations
        In the order they are shown.
    missing
        What was asked for and not found, one sentence each.
    rules
        The rules, one sentence each.
    found
        What the search went through, one sentence each.
    change
        Name of the changed cost.
    """

    illustrations: tuple[Illustration, ...]
    missing: tuple[str, ...]
    rules: tuple[str, ...]
    found: tuple[str, ...]
    change: str

    @property
    def generations(self) -> frozenset[str]:
        """The generations that are shown."""
        return frozenset(one.candidate.generation for one in self.illustrations)

    @property
    def clusters(self) -> frozenset[str]:
        """Their clusters."""
        return frozenset(one.candidate.cluster for one in self.illustrations)


def explain_all(search: Search, picked: Sequence[tuple[str, Candidate, tuple[str, ...]]]) -> tuple[Illustration, ...]:
    """Read the generations that were picked, and no others, and explain each decision."""
    found = []
    for group, candidate, differs_in in picked:
        explained = explain_decision(
            read_generation(search.files, candidate.generation, search.match_is),
            search.model,
            candidate.position,
            search.change,
            k_min=search.k_min,
            k_max=search.k_max,
            unique_experts=search.unique_experts,
        )
        assert explained.explanation.draft_length == candidate.draft_length  # a generation alone is solved the same
        found.append(Illustration(group, candidate, differs_in, explained))
    return tuple(found)
