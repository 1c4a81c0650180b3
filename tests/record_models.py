"""Tiny randomly initialised models of each architecture, saved with a tokenizer of bytes."""

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 257
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,  # routing and proposals must vary
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_DEEPSEEK: dict[str, Any] = {
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "routed_scaling_factor": 1.0,
}
_SMALL = {"moe_intermediate_size": 16}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2_moe": (
        "Qwen2Moe",
        {"num_experts": 8, "num_experts_per_tok": 2, **_SMALL, "shared_expert_intermediate_size": 16},
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        {"num_experts": 8, "num_experts_per_tok": 2, **_SMALL, "mlp_only_layers": [1], "head_dim": 8},
    ),
    "mixtral": ("Mixtral", {"num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 9}),
    "olmoe": ("Olmoe", {"num_experts": 8, "num_experts_per_tok": 3}),
    "deepseek_v2": ("DeepseekV2", {**_DEEPSEEK, "topk_method": "group_limited_greedy"}),
    "deepseek_v3": ("DeepseekV3", _DEEPSEEK),
    "gpt_oss": ("GptOss", {"num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 9}),
    "dense": ("Qwen3", {"head_dim": 8}),
    "alibi": ("Bloom", {"n_head": 4, "n_layer": 2}),
}
LAYERS = {"qwen3_moe": 2, "deepseek_v2": 2, "deepseek_v3": 2, "dense": 0}  # MoE layers; 3 where not named


def save(folder: Path, architecture: str, seed: int, **changes: Any) -> str:
    """Save a model and the tokenizer; gives the folder's name."""
    family, own = ARCHITECTURES[architecture]
    torch.manual_seed(seed)
    config = getattr(hf, f"{family}Config")(**{**_COMMON, **own, **changes})
    model = getattr(hf, f"{family}ForCausalLM")(config)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.3 * torch.randn_like(buffer))
    for name, weight in model.named_parameters():
        if "experts" in name or "gate" in name or "router" in name:
            torch.nn.init.normal_(weight, std=0.4)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


def save_tokenizer(folder: Path, last: str = "<|end|>") -> None:
    """One token a byte, and one more."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate([*letters, last])}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    hf.PreTrainedTokenizerFast(tokenizer_object=tokens).save_pretrained(folder)
