"""The recommendation from a study of traces: the same answer as without them, with the bound beside it."""

from collections.abc import Sequence

from oracle.acceptance import StepTimes
from oracle.errors import InputError
from oracle.recommendation.arithmetic import NOISE, Candidate, Recommendation, break_evens, judged, shortest
from oracle.resampling import Interval
from oracle.scores import Score


def recommend_from_scores(
    scores: Sequence[Score], *, noise: float = NOISE, batch_size: int = 1, notes: Sequence[str] = ()
) -> Recommendation:
    """Give the same answer from a study of traces: its static draft lengths, with clustered intervals.

    Parameters
    ----------
    scores
        Of a study; its rates are those of one request.
    batch_size
        Requests in a round of the latency model; rates are of all of them together.

    Raises
    ------
    InputError
        The traces hold no token.
    """
    static = {int(s.policy.removeprefix("static:")): s for s in scores if s.policy.startswith("static:")}
    if not static:
        raise InputError("the traces hold no positions, so there is nothing to recommend from")
    scale = 1e3 * batch_size
    candidates = []
    for k, s in sorted(static.items()):
        rate, around = scale / s.ms_per_token, s.ms_per_token_interval
        interval = Interval(scale / around.high, scale / around.low) if around else None
        interval, origin = (
            (interval, "traces") if interval else (Interval(rate * (1 - noise), rate * (1 + noise)), "noise")
        )
        step_ms = s.ms_per_token * s.tokens_per_round
        candidates.append(Candidate(k, k or None, s.tokens_per_round, step_ms, rate, interval, origin))
    rates = {c.draft_length: c.tokens_per_second or 0.0 for c in candidates}
    found = judged(candidates, {}, StepTimes(tokens_per_second=rates), noise)
    bound = next((s for s in scores if s.policy == "oracle"), None)
    said = list(notes)
    recommended = shortest(found)
    if bound is not None and recommended is not None:
        top = scale / bound.ms_per_token
        said.append(
            f"the bound: a draft length chosen at each position with all knowledge would give {top:.1f} tokens/s, "
            f"{100 * (top / rates[recommended] - 1):.1f} % more than K = {recommended}"
        )
    limits = (
        "other traffic: these are expected scores on the traces they were chosen on",
        "served rounds: scheduler and launches cost more than the timed passes, up to 3 times at batch 64",
        "whether two lengths really differ: the noise alone decides ties here; the intervals are not paired",
        "mean acceptance length: tokens a round on these texts, clipped at their ends",
    )
    return Recommendation(found, recommended, break_evens(found), noise, batch_size, None, tuple(said), limits)
