"""Small payloads of every engine, made from the documented layouts; run it to write them again.

Six requests of a target with a dense layer and two MoE layers, top-2 of 8 experts, drafted with K = 3. Routing is
defined by the token that a pass *emits*; payloads index it by input token, as engines do. Nothing here imports the
project.
"""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
LAYERS, TOP_K, EXPERTS, K, DENSE = 3, 2, 8, 3, 0
REQUESTS = 6


class Recorded:
    """One request as it happened."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(100 + number)
        self.name = f"cmpl-{number}"
        self.category = "code" if number % 2 else "prose"
        self.prompt = [int(x) for x in rng.integers(10, 99, 3 + number % 3)]
        self.drafted = [K if i % 4 else K - 1 for i in range(1, 5 + number)]
        self.accepted = [int(rng.integers(0, d + 1)) for d in self.drafted]
        emitted = 1 + sum(a + 1 for a in self.accepted)
        self.tokens = [int(x) for x in rng.integers(10, 99, emitted)]

    @property
    def positions(self) -> int:
        return len(self.tokens) - 1

    def experts(self, index: int) -> np.ndarray:
        """Experts of the pass that emits token number `index` of the whole text: (LAYERS, TOP_K)."""
        rng = np.random.default_rng([len(self.name), int(self.name[-1]), index])
        ids = np.stack([rng.choice(EXPERTS, TOP_K, replace=False) for _ in range(LAYERS)])
        ids[DENSE] = 0
        return ids

    def rows(self) -> np.ndarray:
        """Routing by input token: one row fewer than tokens."""
        return np.stack([self.experts(i + 1) for i in range(len(self.prompt) + len(self.tokens) - 1)])

    def logprob(self, index: int) -> float:
        """What the draft gives token number `index` of the whole text."""
        return -0.05 * (1 + (index * 7 + len(self.tokens)) % 13)


RECORDED = [Recorded(number) for number in range(REQUESTS)]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def histogram(request: Recorded) -> list[int]:
    return np.bincount(request.accepted, minlength=K + 1).tolist()


def counts(request: Recorded) -> dict[str, Any]:
    accepted, drafted, steps = sum(request.accepted), sum(request.drafted), len(request.accepted)
    return {
        "mean_acceptance_length": 1 + accepted / steps,
        "draft_acceptance_rate": accepted / drafted,
        "acceptance_histogram": histogram(request),
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": K,
    }


def usage(request: Recorded) -> dict[str, int]:
    return {"prompt_tokens": len(request.prompt), "completion_tokens": len(request.tokens)}


def vllm(request: Recorded, *, detailed: bool = True) -> dict[str, Any]:
    metrics = counts(request)
    if detailed:
        metrics |= {"per_step_accepted": request.accepted, "per_step_drafted": request.drafted}
    choice: dict[str, Any] = {"index": 0, "routed_experts": b64(npy(request.rows().astype(np.uint8)))}
    if detailed:
        choice["token_ids"] = request.tokens
        choice["logprobs"] = {"tokens": [f" t{token}" for token in request.tokens]}
    return {
        "id": request.name,
        "object": "text_completion",
        "category": request.category,
        "prompt_token_ids": request.prompt,
        "choices": [choice],
        "usage": usage(request),
        "metrics": {"speculative_decoding": metrics},
    }


def sglang(request: Recorded, start: int = 0) -> dict[str, Any]:
    rows = request.rows().astype("<i4")
    rows[:, DENSE] = -1
    return {
        "text": "",
        "output_ids": request.tokens,
        "routed_experts_start_len": start,
        "meta_info": {
            "id": request.name,
            **usage(request),
            "routed_experts": b64(rows[start:].tobytes()),
            "spec_accept_rate": sum(request.accepted) / sum(request.drafted),
            "spec_accept_length": 1 + sum(request.accepted) / len(request.accepted),
            "spec_verify_ct": len(request.accepted),
            "spec_num_correct_drafts": sum(request.accepted),
            "spec_num_proposed_drafts": sum(request.drafted),
            "spec_correct_drafts_histogram": histogram(request),
        },
    }


def sglang_openai(request: Recorded) -> dict[str, Any]:
    meta = sglang(request)["meta_info"]
    old = {"spec_accept_histogram": histogram(request), "spec_verify_ct": len(request.accepted)}
    extension = {"routed_experts": meta["routed_experts"], **old}
    return {"id": request.name, "choices": [{"index": 0, "sglext": extension}], "usage": usage(request)}


def trtllm(request: Recorded) -> dict[str, Any]:
    metrics = {
        "acceptance_rate": sum(request.accepted) / sum(request.drafted),
        "total_accepted_draft_tokens": sum(request.accepted),
        "total_draft_tokens": sum(request.drafted),
        "acceptance_histogram": histogram(request),
        "num_spec_steps": len(request.accepted),
        "num_spec_tokens": K,
    }
    return {"id": request.name, "choices": [{"index": 0, "speculative_decoding": metrics}], "usage": usage(request)}


def llamacpp_rounds(request: Recorded) -> list[dict[str, Any]]:
    lines, at = [], 0
    for number, (accepted, drafted) in enumerate(zip(request.accepted, request.drafted, strict=True)):
        kept = request.tokens[1 + at : 1 + at + accepted + 1]
        ids = kept[:accepted] + [5] * (drafted - accepted)
        where = len(request.prompt) + at
        tokens = [{"pos": where + j, "id": token, "p": 0.5, "entropy": 1.0} for j, token in enumerate(ids)]
        lines.append(
            {
                "round_id": number,
                "prompt_pos": where,
                "draft": {"n": drafted, "tokens": tokens},
                "verify": {"n_accepted": accepted, "rej_pos": accepted, "target_id": kept[-1]},
                "timing": {"t_draft_us": 400.0 * drafted, "t_verify_us": 5000.0 + 700 * drafted + where},
            }
        )
        at += accepted + 1
    return lines


def aiperf(request: Recorded) -> dict[str, Any]:
    sparse = {str(j): count for j, count in enumerate(histogram(request)) if count}
    record = counts(request) | {"engine": "vllm", "acceptance_histogram": sparse}
    record |= {"completion_tokens": len(request.tokens)}
    record |= {"per_step_accepted": request.accepted, "per_step_drafted": request.drafted}
    metrics = {"input_sequence_length": {"value": len(request.prompt), "unit": "tokens"}}
    return {"metadata": {"x_request_id": request.name}, "metrics": metrics, "spec_decode_acceptance": record}


def scored_by_vllm(request: Recorded, shift: int = 0) -> dict[str, Any]:
    text = request.prompt + request.tokens
    entries: list[Any] = [None]
    for index, token in enumerate(text[1:], 1):
        own, other = request.logprob(index + shift), request.logprob(index + shift + 5)
        first = own >= other
        entries.append(
            {
                str(token): {"logprob": own - 1, "rank": 1 if first else 2, "decoded_token": "x"},
                str(200 + index): {"logprob": other - 1, "rank": 2 if first else 1, "decoded_token": "y"},
            }
        )
    return {"id": request.name, "choices": [{"index": 0}], "prompt_logprobs": entries}


def scored_by_sglang(request: Recorded) -> dict[str, Any]:
    text = request.prompt + request.tokens
    own = [[None if i == 0 else request.logprob(i), token, None] for i, token in enumerate(text)]
    return {"meta_info": {"id": request.name, "input_token_logprobs": own}}


def scored_by_openai(request: Recorded) -> dict[str, Any]:
    values = [None, *(request.logprob(i) for i in range(1, len(request.prompt) + len(request.tokens)))]
    return {"id": request.name, "choices": [{"logprobs": {"tokens": [], "token_logprobs": values}}]}


BENCH_FORWARD = [
    {
        "case": f"verify=4*{m}@512:{m - 1}",
        "requests": [{"query_len": m, "kv_len": 512, "num_draft_tokens": m - 1}] * 4,
        "median_us": 5000.0 + 900 * m,
        "ranks": [],
    }
    for m in (1, 2, 3)
]
BATCHED_BENCH = [
    {"n_kv_max": 4096, "pp": 128, "tg": 32, "pl": pl, "n_kv": 160 * pl, "t_pp": 0.2, "t_tg": 0.032 * (5 + pl)}
    for pl in (1, 2, 4)
]
PROMETHEUS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{model_name="m"} 1000.0
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 3000.0
vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 1440.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} 800.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="1"} 400.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="2"} 240.0
"""
LOG = (
    "INFO 09-01 SpecDecoding metrics: Mean acceptance length: 2.44, Accepted throughput: 1.00 tokens/s, Drafted "
    "throughput: 2.00 tokens/s, Accepted: 1440 tokens, Drafted: 3000 tokens, Per-position acceptance rate: 0.800, "
    "0.400, 0.240, Avg Draft acceptance rate: 48.0%\n"
)


def lines(values: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def texts() -> dict[str, str]:
    return {
        "vllm-detailed.jsonl": lines([vllm(r) for r in RECORDED]),
        "vllm-summary.jsonl": lines([vllm(r, detailed=False) for r in RECORDED]),
        "vllm-metrics.prom": PROMETHEUS,
        "vllm.log": LOG,
        "vllm-bench-forward.json": json.dumps(BENCH_FORWARD, indent=1) + "\n",
        "sglang-native.jsonl": lines([sglang(r, 2) for r in RECORDED]),
        "sglang-openai.jsonl": lines([sglang_openai(r) for r in RECORDED]),
        "trtllm.jsonl": lines([trtllm(r) for r in RECORDED]),
        "llamacpp-rounds.jsonl": lines([line for r in RECORDED for line in llamacpp_rounds(r)]),
        "llamacpp-batched.jsonl": lines(BATCHED_BENCH),
        "llamacpp-timings.jsonl": lines(
            [
                # counts of two published requests: https://github.com/ggml-org/llama.cpp/pull/22673
                {"timings": {"prompt_n": 4, "predicted_n": 192, "draft_n": 180, "draft_n_accepted": 146}},
                {"timings": {"prompt_n": 4, "predicted_n": 192, "draft_n": 216, "draft_n_accepted": 136}},
            ]
        ),
        "aiperf.jsonl": lines([aiperf(r) for r in RECORDED]),
        "draft-vllm.jsonl": lines([scored_by_vllm(r) for r in reversed(RECORDED)]),
        "target-vllm.jsonl": lines([scored_by_vllm(r, 3) for r in RECORDED]),
        "draft-sglang.jsonl": lines([scored_by_sglang(r) for r in RECORDED]),
        "draft-openai.jsonl": lines([scored_by_openai(r) for r in RECORDED]),
    }


def write(folder: Path = HERE) -> None:
    for name, text in texts().items():
        (folder / name).write_text(text, "utf-8")
    first = RECORDED[0]
    rows = first.rows().astype(np.uint8)
    (folder / "vllm-routing.npy").write_bytes(npy(rows))
    np.savez(
        folder / f"{first.name}.npz",
        routed_experts=rows,
        prompt_token_ids=np.array(first.prompt),
        token_ids=np.array(first.tokens),
        per_step_accepted=np.array(first.accepted),
        per_step_drafted=np.array(first.drafted),
    )


if __name__ == "__main__":
    write()
