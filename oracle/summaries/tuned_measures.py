"""What tuned policies do, held out: pace, rounds, lengths, waste, and where the time goes."""

from typing import Any

from oracle.realised.scores import RealisedScore, realised_scores
from oracle.scores import PARTS
from oracle.tables import Table, number, words
from oracle.tuning import HeldOut


def tuned_measures_table(held: HeldOut) -> Table:
    """Every family of policies over all held-out generations, and where its time goes."""
    tokens = float(held.expected.tokens.sum())
    without = None if held.without_ms is None else float(held.without_ms.sum()) / tokens
    rows = [_row(score, without) for score in realised_scores(held.expected)]
    columns = (
        words("policy", "family"),
        number("tokens/s\na request", "tokens_per_second", ".1f"),
        number("speed-up\nover k = 0", "speedup", ".3f"),
        number("rounds", "rounds", ",.0f"),
        number("mean draft\nlength", "mean_draft_length", ".2f"),
        number("accep-\ntance", "acceptance"),
        number("mean acc.\nlength", "mean_acceptance_length"),
        number("wasted/\ntoken", "wasted_per_token", ".2f"),
        number("experts/\ntoken", "expert_loads_per_token", ".1f"),
        number("ms/token:\nbase", "verify_ms_per_token"),
        number("experts", "expert_ms_per_token"),
        number("context", "context_ms_per_token"),
        number("draft", "draft_ms_per_token"),
        number("rejection", "reject_ms_per_token"),
    )
    notes = [
        f"expected, held out, {tokens:,.0f} tokens; sums over all rounds; intervals of ms/token: in the table above",
        "drafted tokens, so acceptance and waste, include those that are looked at and left out; mean acceptance "
        "length: 1 + accepted tokens a round",
        "the last five columns add up to ms/token",
    ]
    return Table("tuned_measures", "What tuned policies do on held-out generations", columns, rows, notes)


def _row(score: RealisedScore, without: float | None) -> dict[str, Any]:
    return {
        "family": score.policy,
        "tokens_per_second": score.tokens_per_second,
        "speedup": None if without is None or not score.ms_per_token else without / score.ms_per_token,
        "rounds": score.rounds,
        "mean_draft_length": score.mean_draft_length,
        "acceptance": score.acceptance,
        "mean_acceptance_length": score.mean_acceptance_length,
        "wasted_per_token": score.wasted_per_token,
        "expert_loads_per_token": score.expert_loads_per_token,
        **{f"{part}_per_token": ms for part, ms in zip(PARTS, score.split_ms_per_token, strict=True)},
    }
