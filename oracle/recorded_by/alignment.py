"""The one place where what engines index by input token finds the position of a trace.

A request has a prompt of P tokens and emits E tokens. Prefill emits the first of them, which is no decode decision:
the trace has N = E − 1 positions, and position t is the token number P + 1 + t of the whole text.

- Engines index routing by *input* token, and the last token is never an input: P + E − 1 rows. The row of input token
  P + t is the pass that emits position t, so position t reads row P + t: all prompt rows are dropped, the last prompt
  row (which emits the prefill token) among them.
- Rows of rejected draft tokens are not there: routing follows the kept text, and says nothing of rejected tokens.
- A log-probability is indexed by the token it is of: position t reads entry P + 1 + t.
- `context_start` is P + 1: the prompt and the prefill token, which is the first round's own input.
- All hidden layers are there; a dense one reads 0 (vLLM) or −1 (SGLang) in every slot.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults, InputError

PAD = -1
INFER = -1  # a routing start that follows from the number of rows


def positions_of(emitted: int) -> int:
    """Positions of a trace for `emitted` tokens: the one that prefill emits is dropped."""
    return max(emitted - 1, 0)


def context_start_of(prompt_tokens: int) -> int:
    """Tokens in context when position 0's round starts, its own input token included."""
    return prompt_tokens + 1


def emitting_rows(
    routing: NDArray[Any], prompt_tokens: int, emitted: int, start: int | None, place: str
) -> NDArray[Any]:
    """The rows of the passes that emit each position, from rows indexed by input token.

    Parameters
    ----------
    routing : (rows, layers, slots)
        As the engine gives it.
    prompt_tokens, emitted
        P and E.
    start
        The input token of row 0: 0 or None for all of the prompt, `INFER` to take it from the number of rows.
    place
        For messages.

    Returns
    -------
    (E − 1, layers, slots)
        A view.

    Raises
    ------
    InputError
        The number of rows is not the number of passes: an off-by-one is never shifted away in silence.
    """
    passes = prompt_tokens + emitted - 1
    first = passes - len(routing) if start == INFER else start or 0
    if not 0 <= first <= prompt_tokens:
        raise InputError(
            f"{place}: routing begins at token {first} of a prompt of {prompt_tokens}; it must begin at or before the "
            "prompt's end, or decode rows are missing or too many"
        )
    if len(routing) != passes - first:
        raise InputError(
            f"{place}: {len(routing)} rows of routing where {prompt_tokens} prompt and {emitted} emitted tokens have "
            f"{passes - first} (one fewer than tokens, from token {first} on){_row_hint(len(routing) - passes + first)}"
        )
    return routing[prompt_tokens - first :][: positions_of(emitted)]


def _row_hint(more: int) -> str:
    if more == 1:
        return "; one more than there were passes: the last token is never an input, leave its row out"
    if more < 0:
        return "; if the server was asked to leave prompt rows out, say from where with --routing-start"
    return "; do the rows belong to this request?"


def emitting_logprobs(
    logprobs: NDArray[np.float64], prompt_tokens: int, emitted: int, place: str
) -> NDArray[np.float64]:
    """The log-probability of each position's token, from one entry a token of the whole text.

    Raises
    ------
    InputError
        The number of entries is not the number of tokens.
    """
    tokens = prompt_tokens + emitted
    if len(logprobs) != tokens:
        raise InputError(
            f"{place}: {len(logprobs)} log-probabilities for {prompt_tokens} prompt and {emitted} emitted tokens; "
            "there is one for each token of the text (null for the first)"
        )
    return logprobs[prompt_tokens + 1 :]


@dataclass(frozen=True)
class LayersSeen:
    """What all requests together say of the layers; joined with `|`.

    Attributes
    ----------
    zero, pad : (layers,) bool
        Whether every slot of every row so far holds expert 0, or −1.
    slots : (slots,) bool
        Whether a slot holds −1 in every row and layer that is not padded throughout.
    largest
        The largest id.
    rows
        Rows looked at.
    """

    zero: NDArray[np.bool_]
    pad: NDArray[np.bool_]
    largest: int
    rows: int

    def __or__(self, other: "LayersSeen") -> "LayersSeen":
        if other.rows == 0 or self.rows == 0:
            return self if other.rows == 0 else other
        return LayersSeen(
            self.zero & other.zero,
            self.pad & other.pad,
            max(self.largest, other.largest),
            self.rows + other.rows,
        )

    def dense_layers(self, top_k: int) -> tuple[int, ...]:
        """Layers that no router chose for: −1 throughout, or expert 0 in all of several slots throughout.

        With top_k = 1, expert 0 throughout may be a router's choice, and no layer is taken for dense because of it.
        """
        dense = self.pad | (self.zero if top_k > 1 else np.zeros_like(self.zero))
        return tuple(int(layer) for layer in np.flatnonzero(dense))


def layers_seen(rows: NDArray[Any]) -> LayersSeen:
    """Look at the rows of one request, (N, layers, slots)."""
    if len(rows) == 0:
        none = np.ones(rows.shape[1], np.bool_)
        return LayersSeen(none, none, -1, 0)
    low, high = rows.min(axis=(0, 2)), rows.max(axis=(0, 2))
    return LayersSeen((low == 0) & (high == 0), (low == PAD) & (high == PAD), int(high.max()), len(rows))


def routed(
    rows: NDArray[Any], dense: tuple[int, ...], num_experts: int, place: str, faults: Faults
) -> NDArray[Any] | None:
    """Expert ids of the MoE layers, as the trace holds them; None if a fault was noted.

    Parameters
    ----------
    rows : (N, layers, slots)
        As `emitting_rows` gives them.
    dense
        Layers to leave out.

    Returns
    -------
    (N, MoE layers, top_k) uint8 or uint16
    """
    kept = np.delete(rows, dense, axis=1)
    if kept.size and (kept.min() < 0 or kept.max() >= num_experts):
        t, layer, slot = (int(i) for i in np.argwhere((kept < 0) | (kept >= num_experts))[0])
        value = int(kept[t, layer, slot])
        why = (
            f"the {'last row' if t == len(rows) - 1 else 'row'} was not recorded; leave the request out"
            if value == PAD
            else f"ids lie in 0 … {num_experts - 1}: is --num-experts right, and was raw int32 read in the right shape?"
        )
        faults.add(f"{place}, position {t}: routing[MoE layer {layer}, slot {slot}] is {value}; {why}")
        return None
    twice = _repeated(kept)
    if twice is not None:
        t, layer = twice
        faults.add(
            f"{place}, position {t}: MoE layer {layer} names expert {int(kept[t, layer].min())} more than once; a "
            "router takes each expert once: was the row recorded (it reads 0 otherwise), and is --top-k right?"
        )
        return None
    return kept.astype(np.uint8 if num_experts <= 256 else np.uint16)


def _repeated(ids: NDArray[Any]) -> tuple[int, int] | None:
    """First (position, layer) that names an expert twice."""
    if ids.shape[2] < 2 or not ids.size:
        return None
    ordered = np.sort(ids, axis=2)
    twice = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=2)
    if not twice.any():
        return None
    t, layer = np.argwhere(twice)[0]
    return int(t), int(layer)


def whole_rounds(accepted: NDArray[np.int64], positions: int, place: str) -> bool:
    """Whether steps that accepted so many draft tokens make up the whole text, from the first position to the last.

    Engines that leave out steps without a draft give steps that do not; where those lay is not known, so they are not
    filled in.

    Raises
    ------
    InputError
        A step starts at or past the end of the text.
    """
    advance = accepted + 1
    if len(advance) and int(advance[:-1].sum()) >= positions:
        raise InputError(
            f"{place}: the steps before the last emit {int(advance[:-1].sum())} tokens, but decode rounds emitted "
            f"{positions}; is the token that prefill emits counted, or an accepted count the advance already?"
        )
    return bool(advance.sum() >= positions)
