"""Servers that draft, simulated round by round, and what each prints of it; imports nothing of the project.

llama.cpp's counters as its server keeps them (tools/server/server-context.cpp, `post_decode`, and `get_n_draft_max`):
``n_gen`` goes up by one with every sampled token, that of prefill and those of steps without a draft included; a draft
leaves room for the token that ends its round, so that the last token of a limit never has one; counts of a draft are
taken before its tokens are looked at for an end of the text, beyond which none is emitted.
"""

import random
from dataclasses import dataclass, field


@dataclass
class Request:
    """What happened: (drafted, accepted) of every round with a draft, steps without one, tokens sampled."""

    rounds: list[tuple[int, int]] = field(default_factory=list)
    plain: int = 0
    sampled: int = 0

    @property
    def accepted(self) -> int:
        return sum(a for _, a in self.rounds)

    @property
    def drafted(self) -> int:
        return sum(n for n, _ in self.rounds)

    def of(self, j: int) -> int:
        """Rounds that accepted at least j tokens."""
        return sum(a >= j for _, a in self.rounds)


def served(rng: random.Random, k: int, limit: int, match: float, give_up: float = 0.0, end: float = 0.0) -> Request:
    """Serve one request; `give_up` stops a draft before a token, `end` is the chance of any token to end the text."""
    found = Request(sampled=1)
    while found.sampled < limit:
        wanted = min(k, limit - found.sampled - 1)
        drafted = next((n for n in range(wanted) if rng.random() < give_up), wanted)
        if drafted == 0:
            found.plain += 1
            emitted = 1
        else:
            accepted = next((a for a in range(drafted) if rng.random() >= match), drafted)
            found.rounds.append((drafted, accepted))
            emitted = accepted + 1
        for _ in range(emitted):
            found.sampled += 1
            if rng.random() < end:
                return found
    return found


def llama_line(request: Request, k: int) -> str:
    """The line of a server that counts by position; none is printed where nothing was drafted."""
    if not request.drafted:
        return ""
    steps = len(request.rounds)
    rates = ", ".join(f"{request.of(j) / steps:.3f}" for j in range(1, k + 1))
    return (
        f"slot print_timing: id  0 | task 7 | draft acceptance = {request.accepted / request.drafted:0.5f} "
        f"({request.accepted:5d} accepted / {request.drafted:5d} generated), mean acceptance length = "
        f"{1 + request.accepted / steps:5.2f}, acceptance rate per position = ({rates})\n"
    )


def llama_mean_line(request: Request) -> str:
    """The line of a server that gives the mean acceptance length alone."""
    if not request.drafted:
        return ""
    return (
        f"slot print_timing: id  0 | task 7 | draft acceptance = {request.accepted / request.drafted:0.5f} "
        f"({request.accepted:5d} accepted / {request.drafted:5d} generated), mean len = "
        f"{1 + request.accepted / len(request.rounds):5.2f}\n"
    )


def llama_timings(request: Request) -> dict[str, dict[str, int]]:
    """``timings`` of a response, which leave out what is 0."""
    counts = {"predicted_n": request.sampled, "draft_n": request.drafted, "draft_n_accepted": request.accepted}
    return {"timings": {name: count for name, count in counts.items() if count}}


def vllm_counters(requests: list[Request], k: int) -> str:
    """Prometheus text of a whole server."""
    lines = [
        f'vllm:spec_decode_num_drafts_total{{model_name="m"}} {sum(len(r.rounds) for r in requests)}.0',
        f'vllm:spec_decode_num_draft_tokens_total{{model_name="m"}} {sum(r.drafted for r in requests)}.0',
        f'vllm:spec_decode_num_accepted_tokens_total{{model_name="m"}} {sum(r.accepted for r in requests)}.0',
    ]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [f'{name}{{model_name="m",position="{j}"}} {sum(r.of(j + 1) for r in requests)}.0' for j in range(k)]
    return "\n".join(lines) + "\n"


def vllm_log(intervals: list[list[Request]], k: int) -> str:
    """A log line for each interval of time, over the requests served in it."""
    lines = []
    for requests in intervals:
        steps, accepted = sum(len(r.rounds) for r in requests), sum(r.accepted for r in requests)
        drafted = sum(r.drafted for r in requests)
        rates = ", ".join(f"{sum(r.of(j) for r in requests) / steps:.3f}" for j in range(1, k + 1))
        lines.append(
            f"INFO 09-09 11:51:35 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: "
            f"{1 + accepted / steps:.2f}, Accepted throughput: 4.37 tokens/s, Drafted throughput: 4.92 tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
        )
    return "\n".join(lines) + "\n"
