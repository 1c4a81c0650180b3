"""Request logs for tests: random small ones with many ties, and texts whose matches are planted."""

import random

from hypothesis import strategies as st
from naive_observe import Logged

from oracle.errors import Faults
from oracle.observe.gathered import Gathered, Settings, gather
from oracle.observe.request_log import LogForm, LoggedRequest, requests_in
from oracle.observe.tokens import part_of


@st.composite
def logs(draw: st.DrawFn) -> list[Logged]:
    """A few requests of few tokens; times, prefixes and tenants coincide often."""
    found = []
    for _ in range(draw(st.integers(1, 7))):
        arrival, waits, decodes = (draw(st.integers(0, most)) for most in (6, 2, 4))
        prompt, output = (tuple(draw(st.lists(st.integers(0, 1), max_size=most))) for most in (9, 6))
        tenant = draw(st.sampled_from("ab"))
        found.append(Logged(arrival, arrival + waits, arrival + waits + decodes, prompt, output, tenant))
    return found


def trees(log: list[Logged]) -> list[dict[str, object]]:
    """Rows as a log holds them."""
    return [
        {
            "tenant": r.tenant or None,
            "arrival": r.arrival,
            "first_token": r.first_token,
            "end": r.end,
            "prompt_ids": list(r.prompt),
            "output_ids": list(r.output),
        }
        for r in log
    ]


def gathered(log: list[Logged], settings: Settings | None = None) -> Gathered:
    """Requests as they are gathered, without a file."""
    faults = Faults()
    requests = [
        LoggedRequest(
            str(i),
            None,
            r.tenant or None,
            None,
            float(r.arrival),
            float(r.first_token),
            float(r.end),
            *(
                part_of({f"{of}_ids": list(ids)}, of, "ids", str(i), faults)
                for of, ids in (("prompt", r.prompt), ("output", r.output))
            ),
        )
        for i, r in enumerate(log)
    ]
    return gather(requests, settings or Settings(), faults)


def read(path, form=None, settings=None):
    """A file, as the command reads it."""
    faults = Faults()
    return gather(requests_in([path], form or LogForm(), faults), settings or Settings(), faults)


def planted_text(rng: random.Random, length: int, after_match: float, after_mismatch: float):
    """A prompt without repetition, and an output whose matches with 1-gram lookup are a chain of given rates.

    Behind every token of the prompt the lookup proposes the next one; so the output goes on with that or jumps.
    """
    size = 3000
    prompt = list(range(size))
    output, matched = [rng.randrange(size)], False
    while len(output) < length:
        matched = rng.random() < (after_match if matched else after_mismatch)
        proposed = (output[-1] + 1) % size
        other = (proposed + rng.randrange(1, size - 1)) % size
        output.append(proposed if matched else other)
    return prompt, output
