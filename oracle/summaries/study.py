"""What is shown of a study: what was solved, the draft lengths chosen, the policies' scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from oracle.mismatch import of_one_request
from oracle.result_files import metadata_of, result_writer
from oracle.scores import Score
from oracle.study import Study
from oracle.summaries.ablation import ablation_tables
from oracle.tables import Table, interval_cells, number, resampled, show, with_interval, words

SCORE_COLUMNS = (
    words("policy", "policy"),
    with_interval("ms/token", "ms_per_token", ".3f"),
    number("tokens/s\na request", "tokens_per_second", ".1f"),
    number("speed-\nup", "speedup", ".3f"),
    with_interval("regret\nms/token", "regret_ms_per_token", ".3f"),
    number("% of\ngain", "gain_captured", ".1f", 100),
    number("tokens/\nround", "tokens_per_round", ".3f"),
    number("mean\nk", "mean_draft_length", ".2f"),
    number("accep-\ntance", "acceptance", ".3f"),
    number("wasted/\ntoken", "wasted_per_token", ".2f"),
    number("experts/\ntoken", "expert_loads_per_token", ".1f"),
)


def study_tables(study: Study) -> list[Table]:
    """Tables of a study, in the order in which questions arise."""
    tables = [_overview(study), _chosen(study)]
    if study.scores:
        tables.append(_scores(study))
    tables.extend(ablation_tables(study))
    if len(study.mean_unique) > 1:
        tables.append(_unique_experts(study))
    return tables


def _overview(study: Study) -> Table:
    experts = {
        "recorded": "unique_experts as recorded",
        "routing": "routing ids along the reference path (rejected tokens not seen)",
        "none": "none: a dense target, U = 0",
    }
    facts = [
        ("traces", study.source),
        ("generations", f"{study.generations:,}"),
        ("positions", f"{study.positions:,}"),
        ("match probabilities", ", ".join(study.match_kinds)),
        ("unique experts", experts[study.experts_from]),
        ("draft lengths", ", ".join(map(str, study.costs.lengths))),
        ("latency model", _model_in_words(study)),
        ("expected cost of the oracle", f"{show(study.value_ms, ',.3f')} ms"),
    ]
    rows = [{"fact": fact, "value": value} for fact, value in facts]
    return Table("overview", "What was solved", (words("", "fact"), words("", "value", most=200)), rows, study.notes)


def _model_in_words(study: Study) -> str:
    fit = study.model.fit or {}
    origin = fit.get("provenance") or {}
    about = f"m = {', '.join(map(str, study.model.m))}"
    if isinstance(fit.get("rounds"), int):
        about += f"; fitted on {fit['rounds']:,} rounds"
    if isinstance(origin, dict) and isinstance(origin.get("note"), str):
        about += f"; {origin['note']}"
    return about


def _chosen(study: Study) -> Table:
    decisions, visits = study.chosen
    rows = [
        {
            "draft_length": k,
            "decisions": round(float(decisions[k])),
            "share": _ratio(decisions[k], decisions.sum()),
            "visit_share": _ratio(visits[k], visits.sum()),
        }
        for k in study.costs.lengths
    ]
    columns = (
        number("k*", "draft_length"),
        number("decisions", "decisions"),
        number("% of positions", "share", ".1f", 100),
        number("% of rounds", "visit_share", ".1f", 100),
    )
    return Table(
        "draft_lengths",
        f"Cost-optimal draft length k*, {study.positions:,} decisions",
        columns,
        rows,
        ["% of rounds: weighted by the probability that a round of the optimal policy starts at the position"],
    )


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


def score_rows(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Scores as rows at full precision: what the scores file and JSON hold."""
    parts = ("verify_ms", "expert_ms", "context_ms", "draft_ms", "reject_ms")
    return [
        {
            "policy": s.policy,
            **interval_cells("ms_per_token", s.ms_per_token, s.ms_per_token_interval),
            "tokens_per_second": 1e3 / s.ms_per_token,
            "speedup": s.speedup,
            **interval_cells("regret_ms_per_token", s.regret_ms_per_token, s.regret_interval),
            "gain_captured": s.gain_captured,
            "tokens_per_round": s.tokens_per_round,
            "mean_draft_length": s.mean_draft_length,
            "acceptance": s.acceptance,
            "wasted_per_token": s.wasted_per_token,
            "expert_loads_per_token": s.expert_loads_per_token,
            **{f"{part}_per_token": ms for part, ms in zip(parts, s.split_ms_per_token, strict=True)},
            "past_end_share": s.past_end_share,
        }
        for s in scores
    ]


def write_scores(path: Path, scores: Sequence[Score], metadata: Mapping[str, str]) -> None:
    """Write the scores file: Parquet, one row a policy."""
    rows = score_rows(scores)
    schema = pa.schema(
        [(name, pa.string() if name == "policy" else pa.float64()) for name in (rows[0] if rows else {"policy": ""})]
    )
    with result_writer(path, schema) as writer:
        writer.add_key_value_metadata(metadata_of(metadata))
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _scores(study: Study) -> Table:
    rows = score_rows(study.scores)
    static = [row for row in rows if row["policy"].startswith("static:")]
    best = min(static, key=lambda row: row["ms_per_token"])
    past_end = max(row["past_end_share"] for row in rows)
    notes = [
        f"expected scores, in-sample; {resampled(study.clusters)}; regret is paired",
        *of_one_request(study.model),
        "oracle and blind look ahead over the whole text: bounds, not policies an engine can run",
        f"best static length on these traces: {best['policy']} "
        f"({show(best['regret_ms_per_token'] / rows[0]['ms_per_token'], '.1f', 100)} % above the oracle)",
    ]
    if past_end > 0 and study.experts_from == "routing":
        notes.append(
            f"up to {show(past_end, '.1f', 100)} % of a policy's rounds reach past the end of a text, "
            "where no experts are known: a lower bound"
        )
    return Table(
        "scores", "Policies on the same traces (speed-up and % of gain: over k = 0)", SCORE_COLUMNS, rows, notes
    )


def _unique_experts(study: Study) -> Table:
    recorded, routing = study.mean_unique["recorded"], study.mean_unique["routing"]
    rows = [{"m": k + 1, "recorded": float(recorded[k]), "routing": float(routing[k])} for k in range(len(recorded))]
    columns = (
        number("m", "m"),
        number("recorded", "recorded", ".2f"),
        number("from routing", "routing", ".2f"),
    )
    return Table(
        "unique_experts",
        f"Unique experts per layer by verified positions: the traces hold both; used: {study.experts_from}",
        columns,
        rows,
        ["recorded windows hold the tokens really verified, rejected ones included; routing follows the final text"],
    )
