"""Probabilities of tokens: choosing one, match probabilities, wrong tokens."""

from dataclasses import dataclass

import torch

from oracle.errors import InputError
from oracle.recorder.settings import Match


@dataclass(frozen=True, eq=False)
class Choice:
    """How tokens are chosen from logits.

    Attributes
    ----------
    temperature
        Of the probabilities.
    greedy
        Whether the most probable token is taken, else one is sampled.
    random
        Where samples come from; on the device of the logits.
    """

    temperature: float
    greedy: bool
    random: torch.Generator

    def probabilities(self, logits: torch.Tensor, vocabulary: int) -> torch.Tensor:
        """(n, vocabulary) float32 probabilities of the ids that both models know.

        Raises
        ------
        InputError
            Logits that are not finite where they must be.
        """
        found = self.unchecked(logits, vocabulary)
        if bool(found.isnan().any()):
            raise InputError(
                "a model gives logits that are not a number; load it with another --dtype, such as float32"
            )
        return found

    def unchecked(self, logits: torch.Tensor, vocabulary: int) -> torch.Tensor:
        """Do the same without a look at the values, for which a GPU would have to be waited for."""
        return torch.softmax(logits.float() / self.temperature, dim=-1)[:, :vocabulary]

    def of(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Choose one token a row: (n,) int64."""
        return probabilities.argmax(dim=-1) if self.greedy else self.sampled(probabilities)

    def sampled(self, weights: torch.Tensor) -> torch.Tensor:
        """Sample one token a row from weights that need not sum to 1."""
        return torch.multinomial(weights, 1, generator=self.random)[:, 0]


def match_probability(kind: Match, p: torch.Tensor, q: torch.Tensor, emitted: torch.Tensor) -> torch.Tensor:
    """Probability that the draft's token equals the emitted one.

    Parameters
    ----------
    p, q : (n, vocabulary) float32
        The target's and the draft's probabilities.
    emitted : (n,) int64
        What the target emits.

    Returns
    -------
    (n,) float32 in [0, 1]
    """
    if kind == "overlap":
        return torch.minimum(p, q).sum(dim=-1).clamp(0, 1)
    if kind == "reference":
        return q.gather(1, emitted[:, None])[:, 0].clamp(0, 1)
    return (q.argmax(dim=-1) == emitted).float()


def wrong_token(kind: Match, p: torch.Tensor, q: torch.Tensor, emitted: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Sample what the draft proposes where its token does not match.

    With ``overlap`` that is the part of q above p (speculative sampling rejects nothing else), with ``reference`` q
    without the emitted token, with ``greedy`` the most probable token. Where a mismatch is impossible any token will
    do, since its weight is 0.
    """
    if kind == "greedy":
        return q.argmax(dim=-1)
    weights = (q - p).clamp_min(0) if kind == "overlap" else q.scatter(1, emitted[:, None], 0.0)
    impossible = weights.sum(dim=-1, keepdim=True) <= 0
    return choice.sampled(torch.where(impossible, q, weights))
