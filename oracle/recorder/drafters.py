"""The two kinds of drafters, walked along a text: a draft model, and prompt lookup."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from oracle.recorder import lookup
from oracle.recorder.chances import Choice, match_probability, wrong_token
from oracle.recorder.loading import Models
from oracle.recorder.passes import Text
from oracle.recorder.settings import Settings

Tokens = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Proposed:
    """What a drafter makes of a text of N positions.

    Attributes
    ----------
    match : (N,) or (N, K) float32
        Conditional match probabilities; by depth for a lookup.
    draft_prob : (N,) float32, or None
        The draft's probability of its first proposal; None for a lookup.
    chains : tuple of (≤ K,) int64
        Proposals from each anchor.
    """

    match: NDArray[np.float32]
    draft_prob: NDArray[np.float32] | None
    chains: tuple[Tokens, ...]


class Drafter(Protocol):
    """Proposes chains from the rows of a text, stretch after stretch."""

    def propose(self, rows: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """Propose from the next rows, of which `p` holds the target's probabilities.

        Returns
        -------
        (A, K) int64, the continuations that the target verifies.
        """

    def proposed(self) -> Proposed:
        """Give what all rows made, but for the last one, which stands behind the last position."""


class ModelDrafter:
    """A draft model.

    Parameters
    ----------
    tokens
        The whole text, prompt and what follows.
    prompt
        Tokens of the prompt.
    """

    def __init__(self, models: Models, settings: Settings, tokens: torch.Tensor, prompt: int, choice: Choice) -> None:
        self._settings = settings
        self._vocabulary = models.vocabulary
        self._tokens = tokens
        self._choice = choice
        self._proposes = Choice(choice.temperature, settings.draft_is_greedy, choice.random)
        self._text = Text(models.draft)
        self._text.prefill(tokens[:prompt])
        self._match: list[NDArray[np.float32]] = []
        self._draft_prob: list[NDArray[np.float32]] = []
        self._chains: list[Tokens] = []

    def propose(self, rows: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """Propose from the true text, then from its own proposals."""
        settings = self._settings
        emitted = self._tokens[(rows + 1).clamp_max(len(self._tokens) - 1)]
        q = self._choice.probabilities(self._text.extend(self._tokens[rows]), self._vocabulary)
        first = self._proposes.of(q)
        chain = tail = self.continued(rows, first)
        if settings.unique_experts == "expected":
            tail = self.continued(rows, wrong_token(settings.match_kind, p, q, emitted, self._choice))
        self._match.append(match_probability(settings.match_kind, p, q, emitted).cpu().numpy())
        self._draft_prob.append(q.gather(1, first[:, None])[:, 0].clamp(0, 1).cpu().numpy())
        self._chains.extend(chain.cpu().numpy())
        return tail

    def continued(self, rows: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        """Go on from a first token behind each row: (A, K) int64."""
        of = torch.arange(len(rows), device=rows.device)
        chain = [first]
        while len(chain) < self._settings.k_max:
            q = self._choice.probabilities(self._text.branch(chain[-1], rows, of), self._vocabulary)
            chain.append(self._proposes.of(q))
        self._text.prune()
        return torch.stack(chain, dim=1)

    def proposed(self) -> Proposed:
        """Give what all rows made, but for the last one."""
        return Proposed(
            np.concatenate(self._match)[:-1], np.concatenate(self._draft_prob)[:-1], tuple(self._chains[:-1])
        )


class LookupDrafter:
    """Prompt lookup, whose chains are known as soon as the text is."""

    def __init__(self, settings: Settings, tokens: Tokens, prompt: int, device: torch.device) -> None:
        self._settings = settings
        self._prompt = prompt
        self._device = device
        k = settings.k_max
        rows = range(prompt, len(tokens))
        self._chains = [lookup.proposals(tokens[: row + 1], k, settings.ngram or 1) for row in rows]
        self._padded = np.zeros((len(rows), k), np.int64)
        self._same = np.zeros((len(rows), k), np.bool_)  # whether the token is that of the text
        for i, (row, chain) in enumerate(zip(rows, self._chains, strict=True)):
            self._padded[i, : len(chain)] = chain
            after = tokens[row + 1 : row + 1 + len(chain)]
            self._same[i, : len(after)] = chain[: len(after)] == after
        self._there = np.array([len(chain) for chain in self._chains])[:, None] > np.arange(k)
        self._chance = np.zeros((len(rows), k), np.float32)

    def propose(self, rows: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """Note what the target makes of every token proposed for these rows, from whichever anchor."""
        at = rows.cpu().numpy() - self._prompt
        for depth in range(self._settings.k_max):
            anchor = at - depth
            fine = anchor >= 0
            here, token = anchor[fine], torch.as_tensor(self._padded[anchor[fine], depth], device=self._device)
            if len(here):
                chance = p[torch.as_tensor(fine, device=self._device)].gather(1, token[:, None])[:, 0]
                self._chance[here, depth] = chance.clamp(0, 1).cpu().numpy()
        return torch.as_tensor(self._padded[at], device=self._device)

    def proposed(self) -> Proposed:
        """Give what all rows made, but for the last one."""
        chance = self._chance if self._settings.match_kind == "overlap" else self._same.astype(np.float32)
        chance = np.where(self._there, chance, np.float32(0))[:-1]
        count, depth = chance.shape
        own = np.concatenate([np.ones((count, 1), np.bool_), np.cumprod(self._same[:-1, :-1], axis=1).astype(bool)], 1)
        beyond = np.arange(count)[:, None] + np.arange(depth) >= count
        match = lookup.conditional(own, chance[:, 0], chance)
        return Proposed(np.where(beyond, np.float32(0), match), None, tuple(self._chains[:-1]))
