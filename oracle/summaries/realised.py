"""What is shown of realised scores: the policies on recorded matches, contrasts, and how far expectation holds."""

from collections.abc import Sequence
from typing import Any

from oracle.realised.calibration import CalibrationRow, calibrate
from oracle.realised.problem import CLAIRVOYANT, Realised, by_label
from oracle.realised.scores import Difference, RealisedScore, differences, realised_scores
from oracle.tables import Row, Table, interval_cells, number, resampled, show, with_interval, words


def realised_tables(realised: Realised) -> list[Table]:
    """Tables of realised scores; empty if no token was emitted."""
    if realised.totals.tokens.sum() == 0:
        return []
    rows = calibrate(realised.calibration)
    tables = [_scores(realised, rows)]
    for name, labels in (("decoding", realised.decoding), ("category", realised.category)):
        if len(set(labels)) > 1:
            tables.append(_contrast(realised, name, labels))
    return [*tables, _calibration(realised, rows), _by_depth(rows)]


def realised_rows(realised: Realised) -> list[dict[str, Any]]:
    """One row a policy at full precision."""
    expected = {s.policy: s for s in realised_scores(realised.expected)}
    reference = "oracle" if "oracle" in realised.totals.policies else CLAIRVOYANT
    above = {d.policy: d for d in differences(realised.totals, reference)}
    bound = {d.policy: d for d in differences(realised.totals, CLAIRVOYANT)}
    return [_row(s, expected.get(s.policy), above, bound) for s in realised_scores(realised.totals)]


def _row(
    s: RealisedScore, expected: RealisedScore | None, above: dict[str, Difference], bound: dict[str, Difference]
) -> dict[str, Any]:
    against, over = above.get(s.policy), bound.get(s.policy)
    return {
        "policy": s.policy,
        **interval_cells("ms_per_token", s.ms_per_token, s.interval),
        "expected_ms_per_token": None if expected is None else expected.ms_per_token,
        "tokens_per_second": s.tokens_per_second,
        **interval_cells(
            "above_oracle_ms_per_token",
            None if against is None else against.ms_per_token,
            None if against is None else against.interval,
        ),
        "significant": None if against is None else against.significant,
        "above_clairvoyant_ms_per_token": 0.0 if over is None else over.ms_per_token,
        "rounds": s.rounds,
        "mean_draft_length": s.mean_draft_length,
        "acceptance": s.acceptance,
        "mean_acceptance_length": s.mean_acceptance_length,
        "wasted_per_token": s.wasted_per_token,
        "expert_loads_per_token": s.expert_loads_per_token,
        "undominated": s.undominated,
    }


def _scores(realised: Realised, calibrated: Sequence[CalibrationRow]) -> Table:
    totals = realised.totals
    rows = realised_rows(realised)
    has_oracle = "oracle" in totals.policies
    columns = [
        words("policy", "policy"),
        with_interval("ms/token", "ms_per_token"),
        number("expected\nms/token", "expected_ms_per_token"),
        number("tokens/\ns", "tokens_per_second", ".1f"),
        with_interval(f"above the {'oracle' if has_oracle else CLAIRVOYANT}\nms/token", "above_oracle_ms_per_token"),
        number("above\nclairvoyant", "above_clairvoyant_ms_per_token"),
        number("accep-\ntance", "acceptance"),
        number("mean acc.\nlength", "mean_acceptance_length"),
        number("wasted/\ntoken", "wasted_per_token", ".2f"),
        number("experts/\ntoken", "expert_loads_per_token", ".1f"),
    ]
    best = [row["policy"] for row in rows if row["undominated"]]
    blurred = [row["policy"] for row in rows if row["significant"] is False]
    clusters = len(set(totals.cluster))
    notes = [
        f"realised: sums over the rounds the recorded chains would have given, no expectation; {resampled(clusters)}; "
        "differences are paired by cluster",
        "clairvoyant knows every match beforehand: a bound for any policy on these chains, which none can reach; the "
        "oracle knows match probabilities and U, not matches",
        f"undominated in ms and wasted tokens a token, of those that do not look ahead: {', '.join(best) or 'none'}",
    ]
    if blurred:
        what = "oracle" if has_oracle else CLAIRVOYANT
        notes.append(f"not significantly different from the {what}: {', '.join(blurred)}")
    notes += _on_equality(calibrated)
    title = f"Policies on recorded matches, {totals.tokens.sum():,.0f} tokens of {len(totals.generation):,} generations"
    return Table("realised_scores", title, columns, rows, notes)


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


def _contrast(realised: Realised, name: str, labels: Sequence[str | None]) -> Table:
    split = by_label(realised.totals, labels)
    scored = {label: realised_scores(totals) for label, totals in split.items()}
    there = [label for label, scores in scored.items() if scores]
    rows: list[Row] = [
        {"policy": policy, **{label: scored[label][p].ms_per_token for label in there}}
        for p, policy in enumerate(realised.totals.policies)
    ]
    columns = (words("policy", "policy"), *(number(label, label) for label in there))
    fastest: dict[str, list[str]] = {}
    for label in there:
        runs = [s for s in scored[label] if s.undominated is not None]
        if runs:
            fastest.setdefault(min(runs, key=lambda s: s.ms_per_token).policy, []).append(label)
    notes = [
        f"fastest of those that do not look ahead in {', '.join(among)}: {policy}" for policy, among in fastest.items()
    ]
    return Table(f"realised_by_{name}", f"Realised ms/token by {name}", columns, rows, notes)


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
        f"tenths of the probability scale; {resampled(len(set(realised.calibration.cluster)))}",
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
