"""Write the synthetic request log of this folder: ``python cases/observe/make_requests.py``.

Nothing in it comes from a real service. Two tenants over an hour: `agent` sends conversations that begin with one
system prompt and grow turn by turn, and copies from them; `chat` sends short prompts of its own.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOURS = 1
CONVERSATIONS, TURNS, CHATS = 20, 4, 90
TOKEN_SECONDS = 0.5  # of decoding: a slow server, so that a small log has requests side by side
COPIED = 0.85  # chance that the agent goes on copying after a copied token


def answer(context: list[int], length: int, copied: float, rng: random.Random) -> list[int]:
    """Tokens of which stretches are copied from the context."""
    out: list[int] = []
    at = None
    while len(out) < length:
        if at is not None and at < len(context) and rng.random() < COPIED:
            out.append(context[at])
            at += 1
        else:
            at = rng.randrange(len(context)) if rng.random() < copied else None
            out.append(rng.randrange(1000, 30000))
    return out


def logged(tenant: str, name: str, begin: float, prompt: list[int], output: list[int]) -> dict[str, Any]:
    """One request; prefill takes 5 ms a token."""
    first = begin + 0.5 + 0.005 * len(prompt)
    times = {"arrival": begin, "first_token": first, "end": first + TOKEN_SECONDS * len(output)}
    stamps = {key: (BEGIN + timedelta(seconds=at)).isoformat(timespec="milliseconds") for key, at in times.items()}
    return {"request": name, "tenant": tenant, **stamps, "prompt_ids": prompt, "output_ids": output}


def requests(rng: random.Random) -> Iterator[dict[str, Any]]:
    """All requests, tenant by tenant."""
    system = [rng.randrange(1000, 30000) for _ in range(96)]
    for c in range(CONVERSATIONS):
        text, begin = list(system), rng.triangular(0, 3600 * HOURS - 600, 2400)
        for turn in range(TURNS):
            text += [rng.randrange(1000, 30000) for _ in range(rng.randrange(20, 60))]
            output = answer(text, rng.randrange(30, 90), 0.7, rng)
            yield logged("agent", f"agent-{c}-{turn}", begin, text, output)
            begin += TOKEN_SECONDS * len(output) + rng.expovariate(1 / 20) + 1
            text = text + output
    for c in range(CHATS):
        prompt = [rng.randrange(1000, 30000) for _ in range(rng.randrange(10, 80))]
        output = answer(prompt, rng.randrange(0, 120), 0.05, rng)
        yield logged("chat", f"chat-{c}", rng.uniform(0, 3600 * HOURS - 60), prompt, output)


def main() -> None:
    """Write the log in order of the ends, as a server does."""
    rows = sorted(requests(random.Random(0)), key=lambda row: row["end"])
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    Path(__file__).with_name("requests.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
