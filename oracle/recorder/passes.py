"""Passes of a model over one text: rows that lengthen it, and branches off many of its rows in one pass.

A branch is a chain of tokens behind some row of the text. All branches of a pass share the text's KV cache; a mask lets
each of them see the text up to its own row, and itself. So chains from A anchors cost a pass of A rows a step, and
verifying them a pass of A·K rows, however long the text is.
"""

import inspect
from typing import Any

import torch
from transformers import DynamicCache

from oracle.errors import InputError, printable

_KINDS = {"full_attention", "sliding_attention"}
_CELLS = 1 << 22  # of an attention mask at a time, bounds memory
_ROWS = 512
_CHECKED = 12  # rows of the text that a model is tried out on
_WORST = {torch.float32: 1e-3, torch.float64: 1e-3}
_WORST_HALF = 0.1


class Text:
    """A model's KV cache of one text, at batch size 1.

    Parameters
    ----------
    model
        A causal language model of transformers.

    Attributes
    ----------
    length
        Rows in the cache.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._cache = DynamicCache()
        self._device = model.device
        self._window, self._kinds = _attention_of(model)
        self.length = 0
        self._extra = torch.zeros(0, dtype=torch.long, device=self._device)  # rows of branches: their positions
        self._extra_of = torch.zeros(0, dtype=torch.long, device=self._device)  # and the branch of each

    def extend(self, tokens: torch.Tensor, *, logits: bool = True) -> torch.Tensor:
        """Add tokens to the text.

        Parameters
        ----------
        tokens : (n,) int64
            Inputs of the new rows.

        Returns
        -------
        (n, vocabulary) logits; (n, hidden) last states where logits are not wanted.
        """
        n = len(tokens)
        positions = torch.arange(self.length, self.length + n, device=self._device)
        seen = torch.arange(self.length + n, device=self._device)[None, :] <= positions[:, None]
        keys = torch.arange(self.length + n, device=self._device)
        found = self._forward(tokens, positions, seen, keys, logits)
        self.length += n
        return found

    def prefill(self, tokens: torch.Tensor) -> None:
        """Add many tokens, some at a time."""
        done = 0
        while done < len(tokens):
            n = min(_ROWS, max(1, _CELLS // (self.length + _ROWS)))
            self.extend(tokens[done : done + n], logits=False)
            done += n

    def anchors_a_pass(self, k: int, most: int = 64) -> int:
        """How many branches of `k` rows a pass may have so that its mask stays within bounds."""
        return max(1, min(most, _CELLS // (k * (self.length + most * k))))

    def branch(
        self, tokens: torch.Tensor, rows: torch.Tensor, of: torch.Tensor, *, logits: bool = True
    ) -> torch.Tensor:
        """Add rows to branches; the text itself stays as it is. Gives what `extend` does.

        Parameters
        ----------
        tokens : (n,) int64
            Inputs of the new rows, for each branch in order.
        rows : (n,) int64
            Row of the text that the branch of each of them stands behind.
        of : (n,) int64
            The branch of each of them.
        """
        device = self._device
        everything = torch.cat([self._extra_of, of])
        own = everything[None, :] == of[:, None]
        depth = (own & _before(len(self._extra_of), len(of), device)).sum(dim=1)
        positions = rows + 1 + depth
        text = torch.arange(self.length, device=device)
        keys = torch.cat([text, self._extra, positions])
        own = own & (keys[self.length :][None, :] <= positions[:, None])
        seen = torch.cat([text[None, :] <= rows[:, None], own], dim=1)
        found = self._forward(tokens, positions, seen, keys, logits)
        self._extra, self._extra_of = keys[self.length :], everything
        return found

    def prune(self) -> None:
        """Drop all branches."""
        if len(self._extra):
            self._cache.crop(-len(self._extra))
        self._extra, self._extra_of = self._extra[:0], self._extra_of[:0]

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, seen: torch.Tensor, keys: torch.Tensor, logits: bool
    ) -> torch.Tensor:
        dtype = self._model.dtype
        full = _additive(seen, dtype)
        mask: Any = full
        if self._window is not None:
            sliding = _additive(seen & (keys[None, :] > positions[:, None] - self._window), dtype)
            mask = {"full_attention": full, "sliding_attention": sliding} if self._kinds == _KINDS else sliding
        part = self._model if logits else self._model.base_model
        named = {"attention_mask": mask, "position_ids": positions[None, :], cache_name(part): self._cache}
        with torch.inference_mode():
            output = part(tokens[None, :], use_cache=True, **named)
        return (output.logits if logits else output.last_hidden_state)[0]


def cache_name(model: Any) -> str:
    """Name the parameter that takes the KV cache; it was renamed within transformers 5."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def check_branches(model: Any, name: str) -> None:
    """Try out whether a model computes the same on branches of one pass as on each text alone.

    Raises
    ------
    InputError
        It does not: its attention does not follow the mask and the positions that it is given.
    """
    way_out = "give a model with full or sliding attention and rotary positions"
    try:
        worst = _apart(model)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{name}: its attention takes no mask of our own ({printable(' '.join(str(error).split()), most=160)}), so "
            f"continuations cannot share a pass; {way_out}"
        ) from error
    if not worst <= _WORST.get(model.dtype, _WORST_HALF):
        raise InputError(
            f"{name}: computes other logits when several continuations share a pass than for each alone (median "
            f"difference {worst:.2g} of their spread), so it does not follow the attention mask and the positions it "
            f"is given; {way_out}"
        )


def _apart(model: Any) -> float:
    """Give how far logits of branches are from those of texts alone, in standard deviations of the logits."""
    vocabulary = model.config.get_text_config().vocab_size
    tokens = (torch.arange(3 * _CHECKED, device=model.device) * 7919 + 13) % vocabulary
    text, branch = tokens[:_CHECKED], tokens[_CHECKED : _CHECKED + 3]
    rows = torch.tensor([3, 7, _CHECKED - 1], device=model.device)
    tree = Text(model)
    tree.prefill(text)
    of = torch.arange(len(rows), device=model.device)
    logits = [tree.branch(token.expand(len(rows)), rows, of) for token in branch][-1]
    worst = 0.0
    with torch.inference_mode():
        for found, row in zip(logits.float(), rows.tolist(), strict=True):
            alone = model(torch.cat([text[: row + 1], branch])[None, :]).logits[0, -1].float()
            worst = max(worst, float((found - alone).abs().median() / alone.std().clamp_min(1e-12)))
    return worst


def _attention_of(model: Any) -> tuple[int | None, set[str]]:
    """Give the width of the attention's window, None without one, and the kinds of its layers."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or [])
    window = getattr(config, "sliding_window", None)
    if "sliding_attention" not in kinds and (kinds or not getattr(config, "use_sliding_window", True)):
        window = None
    return window, kinds


def check_attention(model: Any, name: str) -> None:
    """Refuse layers that keep a state in place of keys and values.

    Raises
    ------
    InputError
        It names them.
    """
    other = sorted(_attention_of(model)[1] - _KINDS)
    if other:
        raise InputError(
            f"{name}: has layers of the kind {', '.join(other)}; continuations can share a pass only where all layers "
            "have full or sliding attention"
        )


def _additive(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(n, keys) flags as the (1, 1, n, keys) mask that is added to attention scores."""
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[None, None]


def _before(had: int, new: int, device: Any) -> torch.Tensor:
    """(new, had + new) flags: which rows of branches come before each new one in the order given."""
    return torch.arange(had + new, device=device)[None, :] < torch.arange(had, had + new, device=device)[:, None]
