"""What is shown of the evidence for and against a fit: weak spots, robustness, columns compared."""

from collections.abc import Sequence
from typing import Any

from oracle.latency.diagnostics.column_comparison import ColumnComparison
from oracle.latency.diagnostics.robustness import Robustness
from oracle.latency.diagnostics.shifts import Check, Shift
from oracle.latency.diagnostics.weak_spot import WeakSpot
from oracle.summaries.diagnostics import estimate_cells
from oracle.tables import Table, number, with_interval, words

SIGNED = "+.2f"


def weak_spot_table(spots: Sequence[WeakSpot]) -> Table:
    """What to distrust, the worst first."""
    rows = [{"severity": spot.severity, "topic": spot.topic, "sentence": spot.sentence} for spot in spots]
    columns = (words("severity", "severity"), words("topic", "topic"), words("what", "sentence", most=2000))
    notes = [
        "high: coefficients are wrong or mean nothing; medium: uncertain, or they hold under conditions; low: to be "
        "known, the fit allows for it",
        "each sentence is earned by a rule; what was not recorded is not judged",
    ]
    if not rows:
        notes.insert(0, "no rule found anything")
    return Table("weak_spots", "What to distrust, the worst first", columns, rows, notes)


def robustness_tables(examined: Robustness, joint: Robustness) -> list[Table]:
    """Alpha and c under every check at one m and in the joint fit, and the clusters that pull most.

    Parameters
    ----------
    examined, joint
        The two results of `robustness`.
    """
    tables = [_one_m(examined), _all_m(joint)]
    return [*tables, _pulls(joint)] if joint.pulls else tables


def column_tables(compared: ColumnComparison) -> list[Table]:
    """Two columns for one quantity: which is the other with errors, over all m and at each."""
    return [_columns(compared), _columns_by_m(compared)]


def shift_cells(key: str, unit: str, shift: Shift | None) -> dict[str, float | None]:
    """Five cells of a coefficient under a check: value with its interval, shift in percent and in CR3 errors."""
    s = Shift(None, None, None, None, None) if shift is None else shift
    return {
        f"{key}_{unit}": s.value,
        f"{key}_{unit}_low": s.low,
        f"{key}_{unit}_high": s.high,
        f"{key}_shift_percent": s.percent,
        f"{key}_shift_errors": s.errors,
    }


def _check_text(check: Check) -> str:
    return f"{check.name} {check.of}" if check.of else check.name


def _notes(result: Robustness) -> list[str]:
    boot = f"bootstrap: mean and 95 % interval of {result.resamples - result.failed:,} resamples of clusters"
    return [
        f"{result.clusters} clusters; full fit: 95 % CR3 interval; {boot}; other checks: no interval of their own",
        f"shifts: from the full fit, in percent of it and in its CR3 errors; halves: by {result.order}, within each m; "
        "trimmed: without the 1 % of rounds with the largest residuals",
        *result.notes,
    ]


def _one_m(result: Robustness) -> Table:
    rows: list[dict[str, Any]] = [
        {
            "check": _check_text(check),
            "rounds": check.rounds,
            **shift_cells("alpha", "ms_per_expert", check.alpha[0]),
            **shift_cells("context", "ms_per_token", check.context),
        }
        for check in (result.full, *result.checks, *result.without_cluster)
    ]
    columns = (
        words("check", "check"),
        number("rounds", "rounds"),
        with_interval("alpha ms/expert", "alpha_ms_per_expert", ".4f"),
        number("alpha shift\n%", "alpha_shift_percent", SIGNED),
        number("alpha shift\nin errors", "alpha_shift_errors", SIGNED),
        with_interval("c µs/token", "context_ms_per_token", ".3f", 1e3),
        number("c shift\n%", "context_shift_percent", SIGNED),
        number("c shift\nin errors", "context_shift_errors", SIGNED),
    )
    notes = _notes(result)
    if result.without_cluster:
        notes.append("without cluster: the leave-outs with the lowest and the highest alpha and c")
    m = result.ms[0] if result.m is None else result.m
    return Table("robustness_one_m", f"Robustness at m = {m} (k = {m - 1})", columns, rows, notes)


def _farthest(result: Robustness, check: Check) -> tuple[int | None, Shift | None]:
    """The m whose alpha moves by most of its errors (percent where there are none)."""
    known = [(m, s) for m, s in zip(result.ms, check.alpha, strict=True) if s.value is not None]
    if not known:
        return None, None
    return max(known, key=lambda pair: (abs(pair[1].errors or 0.0), abs(pair[1].percent or 0.0)))


def _all_m(result: Robustness) -> Table:
    rows = []
    for check in (result.full, *result.checks):
        m, shift = (None, None) if check is result.full else _farthest(result, check)
        by_m = {str(m): s.value for m, s in zip(result.ms, check.alpha, strict=True)}
        rows.append(
            {
                "check": _check_text(check),
                "rounds": check.rounds,
                "farthest_m": m,
                **shift_cells("alpha", "ms_per_expert", shift),
                **shift_cells("context", "ms_per_token", check.context),
                "alpha_by_m": by_m,
            }
        )
    columns = (
        words("check", "check"),
        number("rounds", "rounds"),
        number("alpha moves\nmost at m", "farthest_m"),
        with_interval("to alpha ms/expert", "alpha_ms_per_expert", ".4f"),
        number("alpha shift\n%", "alpha_shift_percent", SIGNED),
        number("alpha shift\nin errors", "alpha_shift_errors", SIGNED),
        with_interval("c µs/token", "context_ms_per_token", ".3f", 1e3),
        number("c shift\n%", "context_shift_percent", SIGNED),
        number("c shift\nin errors", "context_shift_errors", SIGNED),
    )
    return Table("robustness_joint", "Robustness of the joint fit, all m", columns, rows, _notes(result))


def _pulls(result: Robustness) -> Table:
    rows = [
        {
            "coefficient": pull.coefficient,
            "m": pull.m,
            "cluster": pull.cluster,
            "value_without": pull.shift.value,
            "shift_percent": pull.shift.percent,
            "shift_errors": pull.shift.errors,
            "share_of_variance": pull.share_of_variance,
        }
        for pull in result.pulls
    ]
    columns = (
        words("coefficient", "coefficient"),
        number("m", "m"),
        words("cluster", "cluster"),
        number("value without it", "value_without", ".4g"),
        number("shift\n%", "shift_percent", SIGNED),
        number("shift in\nerrors", "shift_errors", SIGNED),
        number("share of the\nvariance %", "share_of_variance", ".0f", 100),
    )
    notes = [
        "the cluster that moves each coefficient of the joint fit most; alpha in ms per expert, c in ms per token",
        "share of the variance: of CR3, which is made of such shifts; a large one is an interval that hangs on one "
        "cluster",
    ]
    return Table("pulls", "Which cluster pulls most", columns, rows, notes)


def _columns(compared: ColumnComparison) -> Table:
    a, b = compared.a, compared.b
    ratio = compared.ratio
    rows = [
        {
            "column": name,
            **estimate_cells("alpha_ms_per_expert", alone),
            **estimate_cells("alpha_beside_ms_per_expert", beside),
            "rmse_ms": rmse,
            "ratio": seen,
            "ratio_if_it_errs": expected,
        }
        for name, alone, beside, rmse, seen, expected in (
            (a, compared.alpha_a, compared.alpha_a_given_b, compared.rmse_a_ms, 1 / ratio if ratio else None,
             compared.expected_if_a_errs),
            (b, compared.alpha_b, compared.alpha_b_given_a, compared.rmse_b_ms, ratio, compared.expected_if_b_errs),
        )
    ]  # fmt: skip
    columns = (
        words("column", "column"),
        with_interval("alpha alone ms/expert", "alpha_ms_per_expert", ".4f"),
        with_interval("alpha beside the other ms/expert", "alpha_beside_ms_per_expert", ".4f"),
        number("in-sample\nRMSE ms", "rmse_ms", ".4f"),
        number("alpha over\nthe other's", "ratio", ".3f"),
        number("expected if it is\nthe other with errors", "ratio_if_it_errs", ".3f"),
    )
    verdict = "neither column behaves like the other one with errors"
    if compared.noisier is not None:
        verdict = f"{compared.noisier} behaves like {a if compared.noisier == b else b} with errors"
    notes = [
        verdict,
        f"{compared.rounds:,} rounds at {len(compared.ms)} m; correlation inside an m {compared.correlation:.3f}; "
        f"{b} minus {a}: mean {compared.mean_difference:+.3f}, sd {compared.sd_difference:.3f}",
        "one alpha and c for all m, a level for each; intervals: 95 %, CR3",
    ]
    return Table(f"columns_{b}", f"Two columns for one quantity: {a} and {b}", columns, rows, notes)


def _columns_by_m(compared: ColumnComparison) -> Table:
    rows = [
        {
            "m": row.m,
            "alpha_a": row.alpha_a,
            "alpha_b": row.alpha_b,
            "correlation": row.correlation,
            "mean_difference": row.mean_difference,
            "sd_difference": row.sd_difference,
        }
        for row in compared.by_m
    ]
    columns = (
        number("m", "m"),
        number(f"alpha ms/expert on\n{compared.a}", "alpha_a", ".4f"),
        number(f"alpha ms/expert on\n{compared.b}", "alpha_b", ".4f"),
        number("correlation", "correlation", ".3f"),
        number("mean\ndifference", "mean_difference", "+.3f"),
        number("sd of the\ndifference", "sd_difference", ".3f"),
    )
    notes = [f"a: {compared.a}; b: {compared.b}; difference: b minus a; alphas in ms per unit, each m fitted by itself"]
    return Table(f"columns_{compared.b}_by_m", f"{compared.a} and {compared.b} at each m", columns, rows, notes)
