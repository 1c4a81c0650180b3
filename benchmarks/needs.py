"""What a position takes at least in each kernel, by formula: bytes to and from memory, and operations.

An operation is an addition, multiplication, division, comparison, shift, logical operation or population count on one
value; a vector of eight counts as eight. Choices between two values and addresses are free, and so is what stays in the
caches from one position to the next. Letters are the kernels' own; P: policies, W: cost models, k̄: mean draft length.
"""

import math

from .inputs import Routing
from .limits import Needs


def survival_along(K: int) -> Needs:
    """Read p, 4 bytes; write S_1 … S_K and the survival to the end, 8K + 8. K multiplications."""
    return Needs(4 + 8 * K + 8, K, "floating")


def survival_by_depth(K: int) -> Needs:
    """Read p_1 … p_K, 4K bytes; write S_1 … S_K and the survival to the end, 8K + 8. K multiplications."""
    return Needs(4 * K + 8 * K + 8, K, "floating")


def new_experts(routing: Routing, K: int) -> Needs:
    """Read layers · top_k ids; write K + 1 counts of 2 bytes.

    A shift and an or for each id; for each of layers · words words, words = ⌈experts / 64⌉, K and-nots, K + 1
    population counts and as many additions: layers · (2 top_k + words · (3K + 2)).
    """
    words = -(-routing.num_experts // 64)
    operations = routing.layers * (2 * routing.top_k + words * (3 * K + 2))
    return Needs(routing.id_bytes + 2 * (K + 1), operations, "integer")


def unique_experts(K: int) -> Needs:
    """Read K + 1 counts of 2 bytes; write U(t, 0) … U(t, K), 8K + 8. An addition and a division for each."""
    return Needs(10 * (K + 1), 2 * (K + 1), "floating")


def windows(routing: Routing, K: int) -> Needs:
    """Go from ids to U: the operations of both kernels; the counts between them need not reach memory."""
    counted, added = new_experts(routing, K), unique_experts(K)
    return Needs(routing.id_bytes + 8 * (K + 1), counted.operations + added.operations, "integer")


def solve(K: int, W: int = 1) -> Needs:
    """Read S, U and L, 8 · (2K + 2) bytes; write d and k*, 10 for each model.

    For each model C_0 … C_K, two products and two sums each, and K steps of the recursion, a product, a difference and
    a comparison each: 7K + 4.
    """
    return Needs(8 * (2 * K + 2) + 10 * W, W * (7 * K + 4), "floating")


def policy_marginal(K: int, P: int, drafted: float) -> Needs:
    """Read S, U and L, 8 · (2K + 2) bytes, and k, 2P; write e, 8P.

    For each policy C(t, k), four operations, and for each of k̄ drafted tokens a product and a difference: P(4 + 2k̄).
    """
    return Needs(8 * (2 * K + 2) + 10 * P, P * (4 + 2 * drafted), "floating")


def expected_rounds(K: int, P: int, drafted: float) -> Needs:
    """Read S, U, L and the survival to the end, 8 · (2K + 3) bytes, and k, 2P; write visits, 8P.

    For each policy and each of k̄ drafted tokens a product and a difference, a comparison with 0, and three sums, two of
    products: P(6 + 2k̄).
    """
    return Needs(8 * (2 * K + 3) + 10 * P, P * (6 + 2 * drafted), "floating")


def visit_probability(K: int, drafted: float) -> Needs:
    """Read S and k, 8K + 2 bytes; write the visit, 8. A comparison, and two operations for each of k̄: 1 + 2k̄."""
    return Needs(8 * K + 10, 1 + 2 * drafted, "floating")


def summarise(K: int, drafted: float) -> Needs:
    """Read S, U, L, k and d, 8 · (2K + 3) + 2 bytes; write advances and gap, 14.

    For each length its price, four operations, less the credit, and a comparison, 6(K + 1); K products and sums of the
    credit; for each advance up to k̄ + 1 a sum, a difference and a comparison: 8K + 6 + 3(k̄ + 1).
    """
    return Needs(8 * (2 * K + 3) + 16, 8 * K + 6 + 3 * (drafted + 1), "floating")


def continuation_credit(K: int) -> Needs:
    """Read S and d, 8K + 8 bytes; write K + 1 credits, 8K + 8. K products and K sums."""
    return Needs(16 * K + 16, 2 * K, "floating")


def add_up_discarded(P: int, left_out: float) -> Needs:
    """Read the visit and both lengths, 12P bytes; sums stay in cache.

    For each policy a comparison, and in the share of positions at which something is left out seven more operations:
    P(1 + 7 · share).
    """
    return Needs(12 * P, P * (1 + 7 * left_out), "floating")


def scale_path(K: int, pieces: float) -> Needs:
    """Read S, U and L, 8 · (2K + 2) bytes; write the pieces, 10 for each, and where they begin, 8.

    Lines of the costs, 3(K + 1); for each piece, at least one lane, K credits of two products and two sums, K + 1 lines
    less their credits, and both ends of each, a product, a sum and a comparison: 4K + 8(K + 1).
    """
    return Needs(8 * (2 * K + 2) + 10 * pieces + 8, 3 * (K + 1) + pieces * (4 * K + 8 * (K + 1)), "floating")


def stop(S: int, P: int) -> Needs:
    """Read costs and gains of S steps, 16S bytes; write both lengths, 4P. S + P comparisons, each with a product."""
    return Needs(16 * S + 4 * P, 2 * (S + P), "floating")


def window_masks(routing: Routing, rows: int) -> Needs:
    """Read the window's number and ids, 4 + rows · layers · top_k; write 8 · layers · words bytes of masks.

    A shift and an or for each id: 2 · rows · layers · top_k.
    """
    moved = 4 + rows * routing.id_bytes + _mask_bytes(routing)
    return Needs(moved, 2 * rows * routing.layers * routing.top_k, "integer")


def batch_unions(routing: Routing, variants: int) -> Needs:
    """Read the window's number and masks, 4 + 8 · layers · words bytes; unions stay in cache.

    For each union that the window joins and each word an or, a population count and a sum.
    """
    return Needs(4 + _mask_bytes(routing), 3 * variants * _mask_bytes(routing) / 8, "integer")


def _mask_bytes(routing: Routing) -> int:
    return 8 * routing.layers * -(-routing.num_experts // 64)


def stack_positions(uses: int) -> Needs:
    """For each block, looked for once and used once, of `uses` uses in all.

    Read its number twice, 8 bytes, and its last use twice, 16; write that and the position, 16. One look and two
    updates in a tree of log2(uses) levels, half of which are walked on average, four operations each: 6 · log2(uses).
    """
    return Needs(40, 6 * math.log2(max(uses, 2)), "integer")


def look_up(shortest: int, longest: int) -> Needs:
    """Read the token, 8 bytes, and a cell of each table, 4; write both counts, 4.

    Each n-gram is hashed, four operations a token, and compared with what is found, one: 5 · Σ n.
    """
    lengths = range(shortest, longest + 1)
    return Needs(12 + 4 * len(lengths), 5 * sum(lengths), "integer")


def count_rounds(rounds: float, proposed: float) -> Needs:
    """For each anchor, of which a share begins `rounds` and at which `proposed` tokens are at risk in rounds.

    Read both counts of a round's anchor, 4 bytes. Five operations a round, three a token at risk.
    """
    return Needs(4 * rounds, 5 * rounds + 3 * proposed, "integer")


def count_matches() -> Needs:
    """Read J, 2 bytes. Whether it is above 0, whether that and the one before are, and two counts: 4."""
    return Needs(2, 4, "integer")
