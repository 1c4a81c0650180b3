"""Write traces and expected results of the four real cases: ``python cases/make_real_cases.py``.

Each trace is one generation of ``tiny-moe/traces.parquet``; each case's ``model.json`` is an input, like those of the
hand-made cases. The results come from the naive twins of ``tests/naive.py``, which import nothing of the project.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import naive  # noqa: E402

SOURCE = HERE / "tiny-moe" / "traces.parquet"
DECISIONS = {
    "alpha-code-licence": ("g019", 14),
    "alpha-html-navigation": ("g067", 11),
    "alpha-prose-reference": ("g037", 191),
    "alpha-russian-clause": ("g090", 203),
}
STEPS = 100  # of the scale between alpha as it is and 0, before the bisection
HALVINGS = 60


def costs_of(model: dict[str, Any]) -> naive.Costs:
    """The model file by draft length; it holds m = 1 … K + 1, a draft table, one c."""
    verify, draft = model["verify"], dict(zip(model["draft"]["k"], model["draft"]["ms"], strict=True))
    K = len(verify["m"]) - 1
    assert verify["m"] == list(range(1, K + 2))
    return naive.Costs(
        beta0=verify["beta0_ms"],
        draft=[draft.get(k, 0.0) for k in range(K + 1)],
        reject=[model["reject_ms"] if k else 0.0 for k in range(K + 1)],
        alpha=verify["alpha_ms_per_expert"],
        context=[verify["context_ms_per_token"]] * (K + 1),
        lengths=list(range(K + 1)),
    )


def generation_of(row: dict[str, Any], K: int) -> naive.Generation:
    return naive.Generation(naive.by_depth(row["match_prob"], K), row["unique_experts"], row["context_start"])


def rest(one: naive.Generation, t: int) -> naive.Generation:
    """The text from t on: its first decision is the whole text's decision at t."""
    return naive.Generation(one.match_probs[t:], one.unique_experts[t:], one.context_start + t)


def scaled(costs: naive.Costs, s: float) -> naive.Costs:
    return costs._replace(alpha=[s * alpha for alpha in costs.alpha])


def next_below(draft_length: Callable[[float], int]) -> tuple[float, int]:
    """The scale below 1 at which the first decision changes, and its length below: steps down, then bisection."""
    kept = draft_length(1.0)
    high = 1.0
    low = next(s for s in ((STEPS - i) / STEPS for i in range(1, STEPS + 1)) if draft_length(s) != kept)
    high = low + 1 / STEPS
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if draft_length(middle) == kept else (middle, high)
    return low, draft_length(low)


def compared(one: naive.Generation, costs: naive.Costs, value: list[float], t: int, k: int, other: int) -> Any:
    """Q(t, k) - Q(t, other), its terms, and of the expert term more experts and dearer ones, milliseconds."""
    terms = naive.decompose(one, costs, value, t=t, k=k, other=other)
    U, alpha = one.unique_experts[t], costs.alpha
    return {
        "q_difference": sum(terms.values()),
        **terms,
        "more_experts": alpha[other] * (U[k] - U[other]),
        "dearer_experts": (alpha[k] - alpha[other]) * U[k],
    }


def expected(row: dict[str, Any], model: dict[str, Any], t: int) -> dict[str, Any]:
    """Everything about the decision at t, from the definitions; times in milliseconds."""
    costs = costs_of(model)
    K = len(costs.lengths) - 1
    one = generation_of(row, K)
    found = naive.ablate(one, costs)
    k, k0 = found.full.draft_length[t], found.blind.draft_length[t]
    after, free = rest(one, t), naive.without_experts(costs)
    scale, below = next_below(lambda s: naive.solve(after, scaled(costs, s)).draft_length[0])
    return {
        "generation": row["generation"],
        "position": t,
        "positions": len(row["match_prob"]),
        "context_len": row["context_start"] + t,
        "draft_length": k,
        "alpha_zero_draft_length": k0,
        "next_match_prob": row["match_prob"][t + k],
        "visit_prob": naive.visit_probs(one, found.full.draft_length)[t],
        "modal_advance": naive.modal_advance(one.match_probs[t], k, len(row["match_prob"]) - t),
        "q_gap_ms": naive.q_gap(found.full.q[t]),
        "alpha_zero_q_gap_ms": naive.q_gap(found.blind.q[t]),
        "unique_experts": one.unique_experts[t],
        "survival": naive.survival(one.match_probs[t])[1:],
        "q_ms": list(found.full.q[t].values()),
        "alpha_zero_q_ms": list(found.blind.q[t].values()),
        "value_after_ms": found.full.value[t + 1],
        "alpha_zero_value_after_ms": found.blind.value[t + 1],
        "next_ms": compared(one, costs, found.full.value, t, k + 1, k),
        "alpha_zero_next_ms": compared(one, free, found.blind.value, t, k + 1, k),
        "shifted_ms": compared(one, costs, found.full.value, t, k0, k),
        "alpha_zero_shifted_ms": compared(one, free, found.blind.value, t, k0, k),
        "scale_below": scale,
        "draft_length_below": below,
    }


def write(folder: Path, source: Path = SOURCE) -> list[Path]:
    """Write `<case>/trace.parquet` and `<case>/expected.json` under `folder`; returns the files written."""
    traces = pq.read_table(source)
    paths = []
    for case, (generation, t) in DECISIONS.items():
        target = folder / case
        target.mkdir(parents=True, exist_ok=True)
        table = traces.filter(pc.equal(traces["generation"], generation))
        pq.write_table(table, target / "trace.parquet", compression="zstd", use_dictionary=False)
        (row,) = table.to_pylist()
        model = json.loads((HERE / case / "model.json").read_text())
        numbers = expected(row, model, t)
        (target / "expected.json").write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", "utf-8")
        paths += [target / "trace.parquet", target / "expected.json"]
    return paths


if __name__ == "__main__":
    for written in write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE):
        print(written)
