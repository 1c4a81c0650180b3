"""Write the trace files of the hand-solvable cases from the literals below: ``python cases/make_hand_cases.py``.

Each case's README.md derives the answer on paper; `expected.json` holds the numbers typed from that derivation.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

METADATA = {
    "draft_oracle.version": "1",
    "draft_oracle.target": "hand-made",
    "draft_oracle.draft": "hand-made",
    "draft_oracle.engine": "none",
    "draft_oracle.device": "paper",
    "draft_oracle.recorder": "cases/make_hand_cases.py",
}

# A generation's rows, one a position; experts[t][layer] are the ids of the pass that emits token t.
CASES: dict[str, list[dict[str, Any]]] = {
    "hand-all-match": [
        {
            "generation": "all-match",
            "match_kind": "realised",
            "context_start": 4,
            "token_text": ["the", " same", " two", " experts", "."],
            "match_prob": [1.0, 1.0, 1.0, 1.0, 1.0],
            "experts": [[[0, 1], [2, 3]]] * 5,
            "num_experts": 4,
        }
    ],
    "hand-one-expert-too-many": [
        {
            "generation": "one-too-many",
            "match_kind": "overlap",
            "context_start": 10,
            "token_text": ["return", " x", "\n"],
            "match_prob": [1.0, 0.5, 0.25],
            "experts": [[[0]], [[0]], [[1]]],
            "num_experts": 4,
        }
    ],
    "hand-end-of-text": [
        {
            "generation": "short-text",
            "match_kind": "empirical",
            "context_start": 8,
            "token_text": ["so", " it", " ends"],
            # Cells past the end of the text (t + j - 1 > 2) cannot matter; they differ so that a mistake shows.
            "match_probs": [[0.5, 1.0, 0.5], [0.5, 0.5, 0.25], [0.5, 0.75, 1.0]],
            "experts": [[[0], [0]], [[0], [1]], [[1], [1]]],
            "num_experts": 2,
        },
        {
            "generation": "empty",
            "match_kind": "empirical",
            "context_start": 8,
            "token_text": [],
            "match_probs": [],
            "experts": [],
            "num_experts": 2,
        },
    ],
    "hand-junk-tail": [
        {
            "generation": "junk-tail",
            "match_kind": "overlap",
            "context_start": 1,
            "token_text": ["a", "b"],
            "match_prob": [0.5, 0.5],
            "experts": [[[3]], [[3]]],
            "unique_experts": [[1.0, 1.5], [1.0, 2.0]],
            "num_experts": 8,
        }
    ],
}


def trace_table(generations: list[dict[str, Any]]) -> pa.Table:
    """One row a generation, in the Arrow types of a trace file (uint8 expert ids, C order: layer, slot)."""
    first = generations[0]["experts"][0]
    layers, top_k = len(first), len(first[0])
    ids = [[bytes(e for layer in row for e in layer) for row in one["experts"]] for one in generations]

    def column(name: str) -> list[Any]:
        return [one[name] for one in generations]

    columns: dict[str, Any] = {
        "generation": pa.array(column("generation"), pa.string()),
        "layers": pa.array([layers] * len(generations), pa.int32()),
        "top_k": pa.array([top_k] * len(generations), pa.int32()),
        "num_experts": pa.array(column("num_experts"), pa.int32()),
        "match_kind": pa.array(column("match_kind"), pa.string()),
        "context_start": pa.array(column("context_start"), pa.int32()),
        "token_text": pa.array(column("token_text"), pa.list_(pa.string())),
    }
    if "match_prob" in generations[0]:
        columns["match_prob"] = pa.array(column("match_prob"), pa.list_(pa.float32()))
    else:
        depth = len(generations[0]["match_probs"][0])
        columns["match_probs"] = pa.array(column("match_probs"), pa.list_(pa.list_(pa.float32(), depth)))
    columns["experts"] = pa.array(ids, pa.list_(pa.binary(layers * top_k)))
    if "unique_experts" in generations[0]:
        width = len(generations[0]["unique_experts"][0])
        columns["unique_experts"] = pa.array(column("unique_experts"), pa.list_(pa.list_(pa.float32(), width)))
    return pa.table(columns).replace_schema_metadata(METADATA)


def write(folder: Path) -> list[Path]:
    """Write `<case>/trace.parquet` under `folder`; returns the files written."""
    paths = []
    for case, generations in CASES.items():
        path = folder / case / "trace.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(trace_table(generations), path, use_dictionary=False)
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent):
        print(written)
