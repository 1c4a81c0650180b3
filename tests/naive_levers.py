"""The serving-levers model written from its definition, one regime at a time, in plain Python; milliseconds."""

import itertools
import math
import random


def tokens_a_round(a, g):
    return sum(a**j for j in range(g + 1))


def simulated_tokens(a, x, g, reading, rounds, seed):
    """Tokens a round of a two-state match chain, simulated token by token."""
    rng = random.Random(seed)
    after_match, after_mismatch = a + x * (1 - a), a * (1 - x)
    matched = rng.random() < a
    total = 0
    for _ in range(rounds):
        if reading == "stationary":  # every round starts afresh at the marginal
            matched = rng.random() < a
            accepted = 0
            while matched and accepted < g:
                accepted += 1
                matched = rng.random() < after_match
        elif reading == "gated":  # every round follows a match
            matched = rng.random() < after_match
            accepted = 0
            while matched and accepted < g:
                accepted += 1
                matched = rng.random() < after_match
        else:  # renewal: the chain goes on over every token, the bonus token of a round accepted whole included
            accepted = 0
            while True:
                matched = rng.random() < (after_match if matched else after_mismatch)
                if not matched or accepted == g:
                    break
                accepted += 1
        total += accepted + 1
    return total / rounds


def read_parameters(d, positions):
    """Parameters that a pass reads: all but the experts that no position is routed to, uniformly."""
    if not d.get("grows"):
        return d["N_read"]
    unique = d["E"] * (1 - (1 - d["k"] / d["E"]) ** positions)
    return d["N_read"] - d["X"] + d["X"] * unique / d["E"]


def requests_that_fit(d, p, t):
    left = d["hbm"] - p["b"] * d["N"]
    return max(0, math.floor(left / (d["kv"] * t["L_ctx"])))


def cost(d, p, t, s, k, batch=None):
    """(decode, prefill, cache), or None where nothing fits."""
    K = requests_that_fit(d, p, t)
    if K < 1:
        return None
    B = min(t["C"], K) if batch is None else batch
    kv = 1e3 * d["kv_read"] * d["kv"] * t["L_ctx"] * B / d["BW"]
    round_ms, tokens = 1e3 * p["b"] * read_parameters(d, B) / d["BW"] + kv, 1.0
    if s:
        round_ms = 1e3 * p["b"] * read_parameters(d, B * (d["g"] + 1)) / d["BW"] + kv
        round_ms += d["host"] + 1e3 * p["b"] * d["N_read"] / d["BW"] * p["kappa"] * d["g"] / d["g0"] * B / d["B_v"]
        a = p["eta"] * (d["a0"] + (1 - d["a0"]) * t["r"])
        tokens = tokens_a_round(a, d["g"])
    prefill = d["c_pre"] * t["L_in"] * (1 - k * t["rho"]) / t["L_out"]
    cache = k * d["gamma"] * t["L_ctx"] * B / t["L_out"]
    return round_ms / B / tokens, prefill, cache


def cheapest(d, precisions, t):
    """Least cost over every configuration."""
    every = [cost(d, p, t, s, k) for p, s, k in itertools.product(precisions, (0, 1), (0, 1))]
    return min((sum(each) for each in every if each is not None), default=math.inf)
