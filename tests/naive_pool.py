"""The memory pool written from its definitions, one thing at a time; imports nothing of ours."""

import itertools
import math
import random


def kv_each(p, context, k=0, own=0.0):
    """Bytes of one context: full layers, window layers, in blocks."""
    block = p["block"]

    def blocks(tokens):
        return math.ceil(tokens / block) * block

    tokens = context + k
    values = p["values"] * blocks(tokens) + p["window_values"] * blocks(min(tokens, p["window"]))
    return math.ceil(values * p["kv_bytes"]) + math.ceil(own * blocks(tokens))


def tenants(p, taken=0, k=0, own=0.0):
    """Admit tenants of the mix one by one, as long as their mean KV fits."""
    count = sum(n for n, _ in p["tenants"])
    total = sum(n * kv_each(p, context, k, own) for n, context in p["tenants"])
    pool, held = p["usable"] - p["weights"] - p["reserve"] - taken, 0
    while (held + 1) * total <= pool * count:
        held += 1
    return held, total / count


def unique_share(positions, experts, top_k):
    """Share of the experts that so many independent positions touch: 1 - the chance that none goes there."""
    missed = 1.0
    for _ in range(positions):
        missed *= 1 - top_k / experts
    return 1 - missed


def step(p, n):
    _, each = tenants(p)
    return p["host"] + 1e3 * (read(p, n) + p["kv_read"] * each * n) / p["bandwidth"]


def read(p, positions):
    if not p["experts"]:
        return p["weights"]
    return p["weights"] - p["expert_bytes"] * (1 - unique_share(positions, p["experts"], p["top_k"]))


def round_time(p, s, n, size):
    """Milliseconds of a round whose draft has `size` bytes; the draft reads its weights and its KV once a token."""
    k, each = s["k"], tenants(p)[1]
    own = tenants(p, 0, k, s["own"])[1] - tenants(p, 0, k)[1]
    draft = sum(1e3 * (size * s["read"] + p["kv_read"] * own * n) / p["bandwidth"] for _ in range(k))
    target = 1e3 * (read(p, n * (k + 1)) + p["kv_read"] * each * n) / p["bandwidth"]
    return p["host"] + s["host"] + target + draft + n * k * p["verify"]


def hidden_step(p, n):
    """A step that reads while it computes the token of each tenant, and ends when both are done."""
    reading = step(p, n) - p["host"]
    computing = sum(p["verify"] for _ in range(n))
    return p["host"] + (reading if reading >= computing else computing)


def hidden_round(p, s, n, size):
    """A round whose verification reads while it computes all draft tokens and one more of each tenant."""
    reading = 1e3 * (read(p, n * (s["k"] + 1)) + p["kv_read"] * tenants(p)[1] * n) / p["bandwidth"]
    rest = round_time({**p, "verify": 0.0}, s, n, size) - reading
    computing = sum(p["verify"] for _ in range(n * (s["k"] + 1)))
    return rest + (reading if reading >= computing else computing)


def gain(p, s, size, plain=step, drafted=round_time):
    """Tokens a second of a full pool with a draft of `size` bytes over those without."""
    n, left = tenants(p)[0], tenants(p, size, s["k"], s["own"])[0]
    if left == 0:
        return 0.0
    return s["length"] * left / drafted(p, s, left, size) / (n / plain(p, n))


def rows_that_leave(layers, chances, batch, row, compaction):
    """Times of one step for every way in which a batch of rows can leave, with its probability."""
    depths = [layer for layer, p in chances if p > 0]
    chance = dict(chances)
    for rows in itertools.product(depths, repeat=batch):
        yield math.prod(chance[d] for d in rows), step_times(layers, rows, row, compaction)


def step_times(layers, rows, row, compaction):
    """Walk through the layers: full step, lockstep, compacted, and the layers each row needs."""
    batch = len(rows)
    lockstep = compacted = 0.0
    for layer in range(1, layers + 1):
        inside = sum(1 for d in rows if d >= layer)
        if inside:
            lockstep += 1 + row * batch
            compacted += 1 + row * inside
        if any(d == layer for d in rows) and any(d > layer for d in rows):
            compacted += compaction
    return layers * (1 + row * batch), lockstep, compacted, (1 + row * batch) * sum(rows) / batch


def simulated_savings(layers, chances, batch, row, compaction, draws, seed):
    """Means over random batches of what lockstep, compaction and refilling save, with their standard errors."""
    dice = random.Random(seed)
    depths, weights = zip(*chances, strict=True)
    found = []
    for _ in range(draws):
        whole, *times = step_times(layers, dice.choices(depths, weights, k=batch), row, compaction)
        found.append([1 - t / whole for t in times])
    means = [sum(column) / draws for column in zip(*found, strict=True)]
    errors = [
        math.sqrt(sum((x - m) ** 2 for x in column) / (draws - 1) / draws)
        for column, m in zip(zip(*found, strict=True), means, strict=True)
    ]
    return means, errors
