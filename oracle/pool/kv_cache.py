"""KV values that one context holds, by the shape of the attention.

    grouped heads (GQA):  2 · layers · kv_heads · head_dim   a token
    latent (MLA):         layers · (latent_dim + rope_dim)   a token

Layers with a sliding window hold its tokens at most.
"""

from dataclasses import dataclass

from oracle.errors import Faults
from oracle.pool.ranges import COUNT, NOT_NEGATIVE, POSITIVE, Range, check_ranges


@dataclass(frozen=True)
class KvCache:
    """What a token of context takes.

    Attributes
    ----------
    values_per_token
        In layers that see the whole context; bytes where `is_bytes`.
    window_values_per_token, window_tokens
        In layers that see a sliding window, and its length; 0: there are none.
    block_tokens
        Tokens are held in blocks of so many, the last one not full.
    is_bytes
        Whether bytes a token were given, whatever the precision.
    """

    values_per_token: float
    window_values_per_token: float = 0.0
    window_tokens: int = 0
    block_tokens: int = 1
    is_bytes: bool = False

    def values(self, context_tokens: int) -> float:
        """Values that a context of so many tokens holds."""
        windowed = min(context_tokens, self.window_tokens)
        whole = self.values_per_token * self.in_blocks(context_tokens)
        return whole + self.window_values_per_token * self.in_blocks(windowed)

    def in_blocks(self, tokens: int) -> int:
        """Tokens that the blocks of a context have room for."""
        return -(-tokens // self.block_tokens) * self.block_tokens

    def check(self, place: str, faults: Faults) -> None:
        """Note what is out of range."""
        window = Range(least=0, most=1e9, whole=True)
        rules = {"window_values_per_token": NOT_NEGATIVE, "window_tokens": window, "block_tokens": COUNT}
        # a model may have windows only
        rules["values_per_token"] = NOT_NEGATIVE if self.window_values_per_token else POSITIVE
        check_ranges(self, rules, place, faults)


def grouped_heads(  # the shape as a model's configuration states it
    layers: int, kv_heads: int, head_dim: int, window_layers: int = 0, window_tokens: int = 0, block_tokens: int = 1
) -> KvCache:
    """Keys and values of grouped query heads; `window_layers` of the layers see a window only."""
    each = 2 * kv_heads * head_dim
    return KvCache((layers - window_layers) * each, window_layers * each, window_tokens, block_tokens)


def latent(layers: int, latent_dim: int, rope_dim: int, block_tokens: int = 1) -> KvCache:
    """One compressed latent a layer and the part of the key that carries the position."""
    return KvCache(layers * (latent_dim + rope_dim), block_tokens=block_tokens)
