"""What is kept of every request: times, lengths, block names and counts of a prompt lookup; its tokens are let go.

Memory grows with requests and blocks, not with tokens: about 8 bytes a block and 1.6 kB a request.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.lookup_rounds import count_matches, count_rounds
from kernels.prompt_lookup import look_up
from oracle.columns import frozen
from oracle.errors import Faults, InputError, printable
from oracle.observe.blocks import TextBlocks, text_blocks
from oracle.observe.request_log import LoggedRequest
from oracle.observe.tokens import Part, Tokens

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """How texts are looked at.

    Attributes
    ----------
    block_size
        Tokens of a block of the prefix cache.
    isolate_tenants
        Whether tenants share no blocks.
    draft_length
        K of the prompt lookup.
    shortest, longest
        Tokens of its n-grams.
    """

    block_size: int = 16
    isolate_tenants: bool = False
    draft_length: int = 8
    shortest: int = 1
    longest: int = 3


@dataclass(frozen=True, eq=False)
class Gathered:
    """All requests of a log, in order of arrival; where equal, in order of the log.

    Attributes
    ----------
    arrival, first_token, end : (R,) float64, seconds
        `first_token` NaN where it is not logged.
    prompt_tokens, output_tokens : (R,) int64
    text_tokens : (R,) int64
        Tokens of the prompt as it was cut up: not those logged where words or bytes are taken.
    tenant, cluster : (R,) int64
        Index into the names below; -1 where there is none.
    tenants, clusters
        Names in order of appearance in the log.
    blocks : (n,) uint64
        Names of the blocks, request after request.
    first : (R + 1,) int64
        Where each request's begin.
    searched, prompt_blocks : (R,) int64
        Leading blocks that are looked for, and that the prompt fills.
    rounds : (R, 2K + 12) int64
        Counts of the prompt lookup, as `oracle.observe.repetitiveness` reads them.
    settings
    has_tokens
        Whether there are texts at all: otherwise no blocks, no rounds.
    counts_differ
        Requests whose logged counts of tokens are not those of words or bytes.
    """

    arrival: Floats
    first_token: Floats
    end: Floats
    prompt_tokens: Whole
    output_tokens: Whole
    text_tokens: Whole
    tenant: Whole
    cluster: Whole
    tenants: tuple[str, ...]
    clusters: tuple[str, ...]
    blocks: NDArray[np.uint64]
    first: Whole
    searched: Whole
    prompt_blocks: Whole
    rounds: Whole
    settings: Settings
    has_tokens: bool
    counts_differ: int

    @property
    def requests(self) -> int:
        """Their number."""
        return len(self.arrival)


def lookup_counts(prompt: Tokens, output: Tokens, settings: Settings) -> Whole:
    """Counts of a prompt lookup over one output: (2K + 12,) int64.

    The first token of an output comes from prefill, so anchors begin at the second.

    Returns
    -------
    Rounds at risk by depth (K), matched by depth (K); rounds, whole ones, their tokens; the same three where a draft is
    made only after a match; anchors, matching ones, those after a match, matching ones of these, the same after a
    mismatch.
    """
    K = settings.draft_length
    out = np.zeros(2 * K + 12, np.int64)
    anchors = len(output) - 1
    if anchors < 1:
        return out
    text = frozen(np.concatenate([prompt, output]))
    at_risk, matched = np.empty(anchors, np.int16), np.empty(anchors, np.int16)
    look_up(text, len(prompt) + 1, settings.shortest, settings.longest, K, at_risk, matched)
    count_rounds(at_risk, matched, K, False, out[: 2 * K].reshape(2, K), out[2 * K : 2 * K + 3])
    count_rounds(at_risk, matched, K, True, np.zeros((2, K), np.int64), out[2 * K + 3 : 2 * K + 6])
    count_matches(matched, out[2 * K + 6 :])
    return out


class _Names:
    """Numbers for names, in order of appearance."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def number(self, name: str | None) -> int:
        return -1 if name is None else self.of.setdefault(name, len(self.of))


def gather(requests: Iterable[LoggedRequest], settings: Settings, faults: Faults) -> Gathered:
    """Go through all requests once.

    Raises
    ------
    InputError
        All faults at once, those noted while reading too: an id that is there twice, a tenant or cluster named in some
        requests only, no requests.
    """
    tenants, clusters, places = _Names(), _Names(), dict[str, str]()
    numbers: list[tuple[float, ...]] = []
    blocks: list[TextBlocks] = []
    rounds: list[Whole] = []
    differ = 0
    for each in requests:
        if each.name is not None and places.setdefault(each.name, each.place) != each.place:
            faults.add(
                f"{each.place}: the id '{printable(each.name)}' was there before ({places[each.name]}); each request "
                "has its own: is it logged twice?"
            )
        numbers.append(
            (
                each.arrival,
                each.first_token,
                each.end,
                each.prompt.count,
                each.output.count,
                0 if each.prompt.tokens is None else len(each.prompt.tokens),
                tenants.number(each.tenant),
                clusters.number(each.cluster),
            )
        )
        prompt, output = each.prompt.tokens, each.output.tokens
        if prompt is not None and output is not None:
            salt = (each.tenant or "") if settings.isolate_tenants else ""
            blocks.append(text_blocks(prompt, output, settings.block_size, salt))
            rounds.append(lookup_counts(prompt, output, settings))
            differ += _differs(each.prompt) or _differs(each.output)
    _refuse_partial(numbers, faults)
    faults.raise_if_any()
    if not numbers:
        raise InputError("the logs hold no requests; give files with at least one")
    return _sorted(np.array(numbers), tuple(tenants.of), tuple(clusters.of), blocks, rounds, settings, differ)


def _differs(part: Part) -> bool:
    return part.tokens is not None and part.count != len(part.tokens)


def _refuse_partial(numbers: list[tuple[float, ...]], faults: Faults) -> None:
    for column, name in ((6, "tenant"), (7, "cluster")):
        named = sum(row[column] >= 0 for row in numbers)
        if 0 < named < len(numbers):
            faults.add(
                f"{name} is given in {named:,} of {len(numbers):,} requests; give it in all of them or in none"
                + (", or group without it by renaming the column" if name == "cluster" else "")
            )


def _sorted(
    numbers: Floats,
    tenants: tuple[str, ...],
    clusters: tuple[str, ...],
    blocks: list[TextBlocks],
    rounds: list[Whole],
    settings: Settings,
    differ: int,
) -> Gathered:
    order = np.argsort(numbers[:, 0], kind="stable")
    arrival, first_token, end = (frozen(column) for column in numbers[order, :3].T)
    prompt, output, text, tenant, cluster = (frozen(column) for column in numbers[order, 3:].astype(np.int64).T)
    held = [blocks[i] for i in order] if blocks else []
    sizes = np.array([len(each.names) for each in held], np.int64) if held else np.zeros(len(order), np.int64)
    width = 2 * settings.draft_length + 12
    return Gathered(
        arrival=arrival,
        first_token=first_token,
        end=end,
        prompt_tokens=prompt,
        output_tokens=output,
        text_tokens=text,
        tenant=tenant,
        cluster=cluster,
        tenants=tenants,
        clusters=clusters,
        blocks=frozen(np.concatenate([each.names for each in held]) if held else np.zeros(0, np.uint64)),
        first=frozen(np.concatenate([[0], np.cumsum(sizes)])),
        searched=frozen(np.array([each.searched for each in held], np.int64)),
        prompt_blocks=frozen(np.array([each.prompt for each in held], np.int64)),
        rounds=frozen(np.array(rounds, np.int64)[order] if rounds else np.zeros((0, width), np.int64)),
        settings=settings,
        has_tokens=bool(held),
        counts_differ=differ,
    )
