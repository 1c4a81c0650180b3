"""What is shown of realised scores: the policies on recorded matches, contrasts, and how far expectation holds."""

from collections.abc import Sequence
from typing import Any

from oracle.intervals import FEW
from oracle.policies import static
from oracle.realised.calibration import CalibrationRow, calibrate
from oracle.realised.problem import CLAIRVOYANT, Realised, by_label
from oracle.realised.scores import Difference, RealisedScore, differences, realised_scores
from oracle.scores import LEAST_GAIN, PolicyTotals
from oracle.tables import (
    NOT_AVAILABLE,
    Column,
    Row,
    Table,
    interval_cells,
    number,
    resampled,
    show,
    with_interval,
    words,
)

ORACLE = "oracle"


def realised_tables(realised: Realised, notes: Sequence[str] = ()) -> list[Table]:
    """Tables of realised scores, each decoding by itself; empty if no token was emitted.

    `notes` say what cannot be scored on recorded matches.
    """
    if realised.totals.tokens.sum() == 0:
        return []
    rows = calibrate(realised.calibration)
    tables = [_scores(realised, rows, notes)]
    split = by_decoding(realised)
    for i, (decoding, part) in enumerate(split.items(), 1):
        labels = [c for c, d in zip(realised.category, realised.decoding, strict=True) if d == decoding]
        if len(set(labels)) > 1:
            tables.append(_by_category(part, decoding, labels, f"_{i}" if len(split) > 1 else ""))
    return [*tables, _calibration(realised, rows), _by_depth(rows)]


def by_decoding(realised: Realised) -> dict[str, PolicyTotals]:
    """Realised totals of each decoding: whether equality is how tokens are accepted differs from one to the other."""
    split = by_label(realised.totals, realised.decoding)
    return {decoding: totals for decoding, totals in split.items() if totals.tokens.sum() > 0}


def realised_rows(realised: Realised) -> list[dict[str, Any]]:
    """One row a decoding and policy at full precision; what is clairvoyant comes last."""
    expected_of = by_label(realised.expected, realised.decoding)
    return [
        row
        for decoding, totals in by_decoding(realised).items()
        for row in _decoded_rows(decoding, totals, expected_of[decoding], realised.held_out)
    ]


def _decoded_rows(
    decoding: str, totals: PolicyTotals, expected_totals: PolicyTotals, held_out: frozenset[str]
) -> list[dict[str, Any]]:
    scored = {s.policy: s for s in realised_scores(totals)}
    expected = {s.policy: s.ms_per_token for s in realised_scores(expected_totals)}
    reference = ORACLE if ORACLE in scored else CLAIRVOYANT
    above = {d.policy: d for d in differences(totals, reference)}
    without, bound = scored.get(static(0)), scored[reference].ms_per_token
    off = above.get(static(0))
    gain = off.ms_per_token if off is not None and off.significant and off.ms_per_token > LEAST_GAIN * bound else None
    rows = [
        {
            "decoding": decoding,
            "policy": s.policy,
            "held_out": s.policy in held_out,
            **_score_cells(s, expected.get(s.policy), above.get(s.policy)),
            "above_clairvoyant_ms_per_token": s.ms_per_token - scored[CLAIRVOYANT].ms_per_token,
            "speedup": None if without is None or not s.ms_per_token else without.ms_per_token / s.ms_per_token,
            "gain_captured": None
            if without is None or gain is None
            else (without.ms_per_token - s.ms_per_token) / gain,
        }
        for s in scored.values()
    ]
    return sorted(rows, key=lambda row: row["policy"] == CLAIRVOYANT)


def _score_cells(s: RealisedScore, expected: float | None, against: Difference | None) -> dict[str, Any]:
    return {
        **interval_cells("ms_per_token", s.ms_per_token, s.interval),
        "expected_ms_per_token": expected,
        "tokens_per_second": s.tokens_per_second,
        **interval_cells(
            "above_oracle_ms_per_token",
            None if against is None else against.ms_per_token,
            None if against is None else against.interval,
        ),
        "significant": None if against is None else against.significant,
        "doubt": None if against is None else against.doubt,
        "rounds": s.rounds,
        "mean_draft_length": s.mean_draft_length,
        "acceptance": s.acceptance,
        "mean_acceptance_length": s.mean_acceptance_length,
        "wasted_per_token": s.wasted_per_token,
        "expert_loads_per_token": s.expert_loads_per_token,
        "undominated": s.undominated,
    }


def _scores(realised: Realised, calibrated: Sequence[CalibrationRow], notes: Sequence[str]) -> Table:
    totals = realised.totals
    rows = realised_rows(realised)
    what = ORACLE if ORACLE in totals.policies else CLAIRVOYANT
    columns = [
        words("decoding", "decoding"),
        words("policy", "policy"),
        Column("parameters", lambda row: "other folds" if row["held_out"] else NOT_AVAILABLE, text=True),
        with_interval("realised\nms/token", "ms_per_token"),
        number("expected\nms/token", "expected_ms_per_token"),
        number("tokens/s\na request", "tokens_per_second", ".1f"),
        number("speed-up\nover k = 0", "speedup"),
        with_interval(f"above the {what}\nms/token", "above_oracle_ms_per_token"),
        number("% of\ngain", "gain_captured", ".1f", 100),
        number("above\nclairvoyant", "above_clairvoyant_ms_per_token"),
        number("mean draft\nlength", "mean_draft_length", ".2f"),
        number("accep-\ntance", "acceptance"),
        number("mean acc.\nlength", "mean_acceptance_length"),
        number("wasted/\ntoken", "wasted_per_token", ".2f"),
        number("experts/\ntoken", "expert_loads_per_token", ".1f"),
    ]
    said = [
        "realised: sums over the rounds the recorded chains would have given, no expectation; "
        f"{resampled_by_decoding(realised)}; differences are paired by cluster",
        "other folds: held out, under the parameter and constants that the other folds chose by expected scores; the "
        f"others were not tuned: they are the same for every generation ({ORACLE}, {CLAIRVOYANT}: solved for each)",
        "clairvoyant knows every match beforehand: a bound for any policy on these chains, which none can reach; the "
        "oracle knows match probabilities and U, not matches; % of gain: of that oracle's over k = 0, both realised, "
        "where it is significant",
        "valid where the engine accepts a token if and only if it equals the text's, as in greedy decoding; not for an "
        "engine that samples by rejection: there, expected scores count",
        *(_on_differences(decoding, rows, what) for decoding in by_decoding(realised)),
        *notes,
        *_on_equality(calibrated),
    ]
    title = (
        f"Realised by decoding: policies on recorded matches, {totals.tokens.sum():,.0f} tokens of "
        f"{realised.generations:,} generations"
    )
    return Table("realised_scores", title, columns, rows, said)


def resampled_by_decoding(realised: Realised) -> str:
    """Say how intervals came about: each decoding resamples its own clusters."""
    parts = {decoding: realised.clusters[decoding] for decoding in by_decoding(realised)}
    if len(parts) == 1:
        return resampled(next(iter(parts.values())))
    return "; ".join(f"{decoding}: {resampled(clusters)}" for decoding, clusters in parts.items())


def _on_differences(decoding: str, rows: Sequence[Row], what: str) -> str:
    """Name the undominated policies of one decoding, and those that cannot be told from the oracle."""
    mine = [row for row in rows if row["decoding"] == decoding]
    best = [row["policy"] for row in mine if row["undominated"]]
    blurred = [row["policy"] for row in mine if row["significant"] is False]
    few = any(row["doubt"] == FEW for row in mine)
    said = f"{decoding}: undominated in ms and wasted tokens a token, of those an engine can run: "
    said += ", ".join(best) or "none"
    if few:
        return f"{said}; {FEW}: no difference from the {what} counts as significant"
    return f"{said}; not significantly different from the {what}: {', '.join(blurred)}" if blurred else said


def _on_equality(calibrated: Sequence[CalibrationRow]) -> list[str]:
    """Say for which decodings matches by equality are not what match probabilities promise."""
    said = []
    for row in calibrated:
        if (row.depth, row.low, row.high) == (1, 0.0, 1.0) and row.apart:
            promised, came = show(row.expected, ".1f", 100), show(row.realised, ".1f", 100)
            consequence = (
                "realised scores are too dear for an engine that accepts by rejection sampling"
                if row.gap < 0
                else "realised scores are too cheap for an engine that accepts as the match probabilities say"
            )
            said.append(
                f"{row.group}: {came} % of first draft tokens equal the text's token, match probabilities promise "
                f"{promised} %; {consequence}"
            )
    return said


def _by_category(totals: PolicyTotals, decoding: str, labels: Sequence[str | None], suffix: str) -> Table:
    split = by_label(totals, labels)
    scored = {label: realised_scores(part) for label, part in split.items()}
    there = [label for label, scores in scored.items() if scores]
    rows: list[Row] = [
        {"policy": policy, **{label: scored[label][p].ms_per_token for label in there}}
        for p, policy in sorted(enumerate(totals.policies), key=lambda each: each[1] == CLAIRVOYANT)
    ]
    columns = (words("policy", "policy"), *(number(label, label) for label in there))
    fastest: dict[str, list[str]] = {}
    for label in there:
        runs = [s for s in scored[label] if s.undominated is not None]
        if runs:
            fastest.setdefault(min(runs, key=lambda s: s.ms_per_token).policy, []).append(label)
    notes = [f"fastest of those an engine can run in {', '.join(among)}: {policy}" for policy, among in fastest.items()]
    title = f"Realised ms/token by category, {decoding} texts"
    return Table(f"realised_by_category{suffix}", title, columns, rows, notes)


def calibration_rows(calibrated: Sequence[CalibrationRow]) -> list[dict[str, Any]]:
    """Calibration as rows at full precision."""
    return [
        {
            "decoding": row.group,
            "match_prob": "all" if (row.low, row.high) == (0.0, 1.0) else f"{row.low:.1f} … {row.high:.1f}",
            "depth": row.depth,
            "anchors": row.anchors,
            "expected": row.expected,
            **interval_cells("realised", row.realised, row.interval),
            **interval_cells("gap", row.gap, row.gap_interval),
        }
        for row in calibrated
    ]


def _calibration(realised: Realised, calibrated: Sequence[CalibrationRow]) -> Table:
    columns = (
        words("decoding", "decoding"),
        words("match prob.", "match_prob"),
        number("anchors", "anchors"),
        number("mean match\nprob., %", "expected", ".1f", 100),
        with_interval("first draft tokens\nthat match, %", "realised", ".1f", 100),
        with_interval("gap, points", "gap", "+.1f", 100),
    )
    notes = [
        f"tenths of the probability scale; {resampled_by_decoding(realised)}",
        "greedy: a token is accepted if and only if it is equal; the overlap Σ min(p, q) is not the chance of that, "
        "but what sampling would give",
        "sampling: a draw proposed apart from the text equals its token with probability Σ p·q, at most the overlap "
        "Σ min(p, q) with which rejection sampling accepts; one chain is one draw",
    ]
    title = "Do match probabilities come true: first draft tokens against recorded matches"
    return Table("calibration", title, columns, calibration_rows([r for r in calibrated if r.depth == 1]), notes)


def _by_depth(calibrated: Sequence[CalibrationRow]) -> Table:
    whole = [row for row in calibrated if (row.low, row.high) == (0.0, 1.0)]
    columns = (
        words("decoding", "decoding"),
        number("j", "depth"),
        number("mean S_j, %", "expected", ".1f", 100),
        with_interval("drafts of j that\nmatch whole, %", "realised", ".1f", 100),
        with_interval("gap, points", "gap", "+.1f", 100),
    )
    notes = [
        "over anchors with at least j tokens left",
        "match probabilities taken at each position are multiplied as if matches along a chain were independent given "
        "them: where realised survival falls more slowly, they are not",
    ]
    title = "Survival expected and realised, by depth of the draft"
    return Table("calibration_by_depth", title, columns, calibration_rows(whole), notes)
