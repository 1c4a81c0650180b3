"""What a recording is asked for."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from oracle.errors import MOST_DRAFT_TOKENS, Faults, printable

Decoding = Literal["greedy", "sample"]
Match = Literal["overlap", "reference", "greedy"]
Tails = Literal["actual", "expected"]
LOOKUP = "ngram"
_USUAL_NGRAM = 3


@dataclass(frozen=True)
class Settings:
    """What a recording is asked for; everything that the recorded traces depend on, prompts apart.

    Attributes
    ----------
    target, draft
        Folders or names of models; the draft may be ``ngram`` or ``ngram:N`` (prompt lookup).
    decoding
        Whether the target's and the draft's tokens are the most probable ones, or sampled at `temperature`.
    temperature
        Of all probabilities, and of sampling.
    match
        What `match_prob` holds: ``overlap`` Σ min(p, q); ``reference``, the draft's probability of the emitted token;
        ``greedy``, whether the draft's most probable token is that token. A lookup proposes one token with
        certainty: ``overlap`` is the target's probability of it. None: what an engine accepts by, ``overlap`` when
        sampling and ``greedy`` in greedy decoding.
    tails
        Which rejected continuations the target verifies: ``actual``, the chain that is proposed from each anchor;
        ``expected``, a wrong token and what the draft adds to it at every position, weighted by the probability that
        the first mismatch falls there. None: ``expected`` when sampling from a draft model, else ``actual``.
    k_max
        Longest draft, tokens.
    max_new_tokens
        Most tokens of a generated reference text, that of the prefill included.
    seed
        Of everything random.
    device, dtype, experts_kernel, attention
        As transformers names them; None leaves the choice to the model.
    threads
        Threads of torch on a CPU; None leaves it alone.
    hub
        Whether files that are not on this machine may be fetched.
    """

    target: str
    draft: str
    decoding: Decoding = "greedy"
    temperature: float = 1.0
    match: Match | None = None
    tails: Tails | None = None
    k_max: int = 10
    max_new_tokens: int = 257
    seed: int = 0
    device: str = "cpu"
    dtype: str = "auto"
    experts_kernel: str | None = None
    attention: str | None = None
    threads: int | None = None
    hub: bool = False

    @property
    def ngram(self) -> int | None:
        """Longest n-gram a lookup compares; None for a draft model."""
        name, colon, size = self.draft.partition(":")
        if name != LOOKUP:
            return None
        return int(size) if colon and size.isdecimal() else _USUAL_NGRAM

    @property
    def match_kind(self) -> Match:
        """What is recorded, after the default is filled in."""
        if self.match is not None:
            return self.match
        return "overlap" if self.decoding == "sample" else "greedy"

    @property
    def unique_experts(self) -> Tails:
        """The tails that are recorded, after the default is filled in."""
        if self.tails is not None:
            return self.tails
        return "expected" if self.decoding == "sample" and self.ngram is None else "actual"

    @property
    def draft_is_greedy(self) -> bool:
        """Whether the draft proposes its most probable token."""
        return self.decoding == "greedy" or self.match_kind == "greedy"

    def check(self) -> None:
        """Check what does not need the models.

        Raises
        ------
        InputError
            All faults.
        """
        faults = Faults()
        if not 1 <= self.k_max <= MOST_DRAFT_TOKENS:
            faults.add(f"--k-max is {self.k_max}; it must lie between 1 and {MOST_DRAFT_TOKENS}")
        if not 0 < self.temperature < float("inf"):
            faults.add(f"--temperature is {self.temperature:g}; it must be above 0 (for argmax: --decoding greedy)")
        if self.max_new_tokens < 2:
            faults.add(
                f"--max-new-tokens is {self.max_new_tokens}; it must be 2 or more: the first one comes from the prefill"
            )
        name, colon, size = self.draft.partition(":")
        if name == LOOKUP and colon and not (size.isdecimal() and int(size) > 0):
            faults.add(f"--draft '{printable(self.draft)}': the length of the n-gram is a number from 1, as in ngram:3")
        for role in ("target", "draft"):
            model = getattr(self, role)
            if model.startswith(("/", "./", "../", "~")) and not Path(model).exists():
                faults.add(f"--{role} {printable(model, most=200)}: there is no such folder; check the path")
        if self.unique_experts == "expected" and self.ngram is not None:
            faults.add("--tails expected needs a draft model, since a lookup has no other continuation; use actual")
        if self.unique_experts == "expected" and self.decoding == "greedy":
            faults.add(
                "--tails expected needs --decoding sample: greedy drafts have one continuation, which actual records"
            )
        faults.raise_if_any()

    def to_dict(self) -> dict[str, Any]:
        """Give what the recorded numbers depend on as JSON values, the default tails filled in."""
        found = {**asdict(self), "match": self.match_kind, "tails": self.unique_experts}
        del found["hub"]  # from where a file came changes nothing
        return found
