"""Small random batches for policies, and what a policy that cannot be laid out says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from traces_factory import TEXTS, lists, rows, trace_table

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.policies import Inputs, Training, inputs_of, lengths_of
from oracle.traces import Traces

K = 5
ONLINE = (
    "confidence:0.5",
    "confidence:0.25@keep",
    "confidence:0.0",
    "confidence:0.5@max=3",
    "confidence:1.0@max=4@min=2",
    "survival:0.25",
    "survival:0.125@keep",
    "goodput",
    "slope:0.5",
    "slope:4.0",
    "slope:8.0@max=2",
)
INFORMED = ("survival!:0.25", "goodput!", "slope!:2.0")
DYADIC = np.array([0.0, 0.25, 0.5, 0.5, 1.0], dtype=np.float32)


def random_unique(rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    """U of a top-2 model: 2 for one token, and 0 to 2 more for each further one."""
    steps = rng.integers(0, 3, (n, K + 1))
    steps[:, 0] = 2
    return np.cumsum(steps, axis=1).astype(np.float32)


def random_inputs(seed: int, lengths: Sequence[int], allowed: Sequence[int] = tuple(range(K + 1))) -> Inputs:
    """Dyadic probabilities and whole-number costs: every decision is exact."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    unique = random_unique(rng, n)
    table = trace_table(
        lengths,
        K=K,
        num_experts=64,
        seed=seed,
        drop=(*TEXTS, "experts", "new_experts", "logged_draft_length", "logged_advance"),
        match_prob=lists(lengths, rng.choice(DYADIC, n)),
        draft_prob=lists(lengths, rng.choice(DYADIC, n)),
        unique_experts=rows(lengths, unique),
    )
    known = np.isin(np.arange(K + 1), allowed)
    draft = np.cumsum(rng.integers(0, 3, K + 1)) * (np.arange(K + 1) > 0)
    arrays = [rng.integers(1, 6, K + 1) + np.arange(K + 1), rng.integers(0, 3, K + 1), rng.integers(0, 2, K + 1), draft]
    costs = LengthCosts(*(np.where(known, a, 0).astype(float) for a in (*arrays, np.zeros(K + 1))), known)
    return inputs_of(Traces.from_arrow(table), costs, training=Training(np.arange(2.0, 8.0), 1, {"code": 2}))


def with_columns(inputs: Inputs, **columns: Any) -> Inputs:
    table = inputs.traces.table
    for name, column in columns.items():
        table = table.drop_columns([name]) if name in table.column_names else table
        table = table.append_column(name, column)
    return inputs_of(Traces.from_arrow(table, "t.parquet"), inputs.costs, training=inputs.training)


def refusal(policies: Sequence[Any], inputs: Inputs) -> str:
    with pytest.raises(InputError) as error:
        lengths_of(policies, inputs)
    return str(error.value)
