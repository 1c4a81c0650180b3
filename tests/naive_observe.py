"""Naive twins of what is measured on request logs, written from the definitions; nothing of the project is imported."""

from collections import Counter, OrderedDict
from itertools import pairwise
from typing import NamedTuple


class Logged(NamedTuple):
    """One request with whole numbers as times."""

    arrival: int
    first_token: int
    end: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    tenant: str = ""


def keys(request, size, isolated):
    """Every full block as all that stands in it and before it; the last token emitted is never fed back."""
    text = request.prompt + request.output
    fed = max(len(request.prompt), len(text) - 1)
    salt = request.tenant if isolated else ""
    return [(salt, text[: (i + 1) * size]) for i in range(fed // size)]


def hit_tokens(log, size, capacity, *, delayed=False, isolated=False):
    """Play one LRU cache of `capacity` blocks; tokens found of each prompt, in the order of the log."""
    cache = OrderedDict()  # the last entry was used last
    found = [0] * len(log)

    def use(blocks):
        for block in reversed(blocks):
            cache[block] = None
            cache.move_to_end(block)
        while capacity is not None and len(cache) > capacity:
            cache.popitem(last=False)

    def steps(i):
        request = log[i]
        blocks = keys(request, size, isolated)
        filled = request.first_token if delayed else request.arrival
        return [(filled, blocks[: len(request.prompt) // size]), (request.end, blocks)]

    order = sorted(range(len(log)), key=lambda i: log[i].arrival)  # stable: ties as logged
    for now in sorted({t for r in log for t in (r.arrival, r.first_token, r.end)}):
        for i in order:
            if log[i].arrival != now:
                for at, blocks in steps(i):
                    if at == now:
                        use(blocks)
        for i in order:
            if log[i].arrival == now:
                for block in keys(log[i], size, isolated)[: max(len(log[i].prompt) - 1, 0) // size]:
                    if block not in cache:
                        break
                    found[i] += size
                for at, blocks in steps(i):
                    if at == now:
                        use(blocks)
    return found


def proposal(text, shortest, longest, depth):
    """What followed the earliest place of the longest n-gram at the end of the text."""
    for n in range(longest, shortest - 1, -1):
        if n > len(text):
            continue
        wanted = text[len(text) - n :]
        for end in range(n, len(text)):
            if text[end - n : end] == wanted:
                return text[end : end + depth]
    return ()


def anchors(prompt, output, shortest, longest, depth):
    """For every output token but the first: tokens proposed inside the text, and how many match."""
    whole = tuple(prompt) + tuple(output)
    found = []
    for t in range(len(prompt) + 1, len(whole)):
        proposed = proposal(whole[:t], shortest, longest, depth)[: len(whole) - t]
        matched = 0
        while matched < len(proposed) and proposed[matched] == whole[t + matched]:
            matched += 1
        found.append((len(proposed), matched))
    return found


def rounds(found, depth, gated):
    """Rounds as played over anchors: (depth proposed, matched, whole) of each that may draft."""
    played, a = [], 0
    while a < len(found):
        if gated and not (a > 0 and found[a - 1][1] > 0):
            a += 1
            continue
        played.append((*found[a], a + depth + 1 <= len(found)))
        a += found[a][1] + 1
    return played


def lookup_counts(prompt, output, shortest, longest, depth):
    """The counts of `oracle.observe.gathered.lookup_counts`, from the rounds themselves."""
    found = anchors(prompt, output, shortest, longest, depth)
    played = rounds(found, depth, False)
    out = [sum(proposed > j and matched >= j for proposed, matched, _ in played) for j in range(depth)]
    out += [sum(matched > j for _, matched, _ in played) for j in range(depth)]
    for each in (played, rounds(found, depth, True)):
        whole = [matched + 1 for _, matched, is_whole in each if is_whole]
        out += [len(each), len(whole), sum(whole)]
    m = [matched > 0 for _, matched in found]
    pairs = Counter(pairwise(m))
    out += [len(m), sum(m)]
    for before in (True, False):
        out += [pairs[before, True] + pairs[before, False], pairs[before, True]]
    return out


def in_flight(log, first, last):
    """Requests in flight in each unit of time from `first` to `last`; times are whole numbers."""
    return [sum(r.arrival <= t < r.end for r in log) for t in range(first, last)]
