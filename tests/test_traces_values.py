"""Each refusal of values of positions and logged rounds."""

import numpy as np
import pyarrow as pa
import pytest
from test_traces_checks import LENGTHS, fault_of, faults_of
from traces_factory import fixed_bytes, lists, put, routed, rows, trace_table

from oracle.traces import Traces


def probabilities(**at: float) -> pa.Array:
    values = np.full(7, 0.5, np.float32)
    for place, value in at.items():
        values[int(place[1:])] = value
    return lists(LENGTHS, values)


def test_ragged_columns():
    short = lists((3, 0, 3), np.full(6, 0.5, np.float32))
    longer = lists((3, 1, 4), pa.array(["a"] * 8))
    rule = "every per-position column has one entry a position"
    assert faults_of(trace_table(draft_prob=short, token_text=longer)) == (
        f"t.parquet, generation 'g2': draft_prob has 3 positions, match_prob has 4; {rule}",
        f"t.parquet, generation 'g1': token_text has 1 positions, match_prob has 0; {rule}",
    )


def test_probabilities_outside_their_range():
    table = trace_table(
        match_prob=probabilities(_0=1.07, _4=np.nan, _5=-3), draft_prob=probabilities(_2=np.inf, _6=1.0000001)
    )
    assert faults_of(table) == (
        "t.parquet, generation 'g0', position 0: match_prob is 1.07000005; a probability lies in [0, 1]. Was a "
        "logarithm or a ratio recorded?",
        "t.parquet, generation 'g2', position 1: match_prob is NaN; a probability lies in [0, 1]. Leave the generation "
        "out if it is unknown (and 1 more positions of this generation)",
        "t.parquet, generation 'g0', position 2: draft_prob is inf; a probability lies in [0, 1]. Was a logarithm or a "
        "ratio recorded?",
        "t.parquet, generation 'g2', position 3: draft_prob is 1.00000012; a probability lies in [0, 1]. Clip the "
        "rounding residue when recording",
    )


def test_probabilities_by_depth():
    values = np.full((7, 3), 0.5, np.float32)
    values[1, 2], values[6, 0] = np.nan, 2
    table = trace_table(drop=("match_prob",), match_probs=rows(LENGTHS, values))
    assert faults_of(table) == (
        "t.parquet, generation 'g0', position 1: match_probs[2] is NaN; a probability lies in [0, 1]. Pad cells past "
        "the end of a text with 0",
        "t.parquet, generation 'g2', position 3: match_probs[0] is 2; a probability lies in [0, 1]. Was a logarithm or "
        "a ratio recorded?",
    )
    none = lists(LENGTHS, pa.array([[]] * 7, pa.list_(pa.float32())))
    assert fault_of(trace_table(drop=("match_prob",), match_probs=none)) == (
        "t.parquet: match_probs holds nothing a position; it needs j = 1 … K, K at least 1"
    )


def test_numbers_beyond_float32_are_refused_as_infinite():
    table = trace_table(match_prob=lists(LENGTHS, np.full(7, 1e300)))
    assert "match_prob is inf" in faults_of(table)[0]


def test_expert_ids_beyond_the_number_of_experts():
    ids = routed(7, 2, 2, 8)
    ids[4, 1, 0] = 255
    assert fault_of(trace_table(experts=fixed_bytes(LENGTHS, ids))) == (
        "t.parquet, generation 'g2', position 1: experts[layer 1, slot 0] is 255; num_experts is 8, so ids lie in 0 … "
        "7. Was padding (255 or -1) left in, or num_experts too low?"
    )
    wide = np.minimum(ids, 7).reshape(7, 4).astype(np.int32)
    wide[2, 3] = -1
    assert fault_of(trace_table(experts=rows(LENGTHS, wide))).startswith(
        "t.parquet, generation 'g0', position 2: experts[3] is -1; it lies in 0 … 7. Was padding (-1) left in?"
    )


def test_expert_ids_of_another_width():
    needed = "layers x top_k = 2 x 2 = 4"
    six = fixed_bytes(LENGTHS, routed(7, 3, 2, 8))
    assert fault_of(trace_table(experts=six)) == (
        f"t.parquet: experts holds 6 bytes a position; {needed} ids below 8 need 4 (uint8) or 8 (uint16). Do layers "
        "and top_k count what was recorded?"
    )
    assert fault_of(trace_table(experts=rows(LENGTHS, np.zeros((7, 6), np.uint8)))) == (
        f"t.parquet: experts holds 6 ids a position; {needed} are needed. Do layers and top_k count what was recorded?"
    )
    many = pa.array([512] * 3, pa.int32())
    narrow = routed(7, 2, 2, 8)
    assert fault_of(put(trace_table(), num_experts=many, experts=fixed_bytes(LENGTHS, narrow))) == (
        f"t.parquet: experts holds 4 bytes a position; {needed} ids below 512 need 8 (uint16). Do layers and top_k "
        "count what was recorded?"
    )
    assert fault_of(put(trace_table(), num_experts=many, experts=rows(LENGTHS, narrow.reshape(7, 4)))) == (
        "t.parquet: experts holds uint8, which cannot name 512 experts; record uint16"
    )


def new_experts(**cells: int) -> pa.Table:
    counts = Traces.from_arrow(trace_table()).new_experts.copy()
    for place, value in cells.items():
        i, j = place[1:].split("_")
        counts[int(i), int(j)] = value
    return trace_table(new_experts=fixed_bytes(LENGTHS, counts.astype("<u2")))


def test_new_experts_are_sums_over_layers_that_fall():
    assert fault_of(new_experts(_0_0=1)) == (
        "t.parquet, generation 'g0', position 0: new_experts[0] is 1; it is the sum over 2 layers of a token's own "
        "experts, so it lies in 2 … 4. Was a mean over layers recorded?"
    )
    assert "new_experts[0] is 5; it is the sum over 2 layers" in fault_of(new_experts(_3_0=5))
    assert fault_of(new_experts(_5_2=4)).startswith(
        "t.parquet, generation 'g2', position 2: new_experts[2] is 4 after "
    )


def test_new_experts_before_the_begin_are_ignored():
    assert Traces.from_arrow(new_experts(_0_1=999, _0_3=65535, _3_1=77, _4_2=8)).new_experts[0, 3] == 65535


def test_new_experts_of_a_window_cannot_exceed_all_experts():
    counts = np.full((6, 6), 4, np.uint16)
    table = trace_table((6,), K=5, num_experts=8, new_experts=fixed_bytes((6,), counts))
    assert fault_of(table) == (
        "t.parquet, generation 'g0', position 0: new_experts of the windows that start here add up to 24; 2 layers of "
        "8 experts hold 16. Column j belongs to the window that starts j positions earlier (and 1 more positions of "
        "this generation)"
    )


def test_new_experts_of_an_odd_width():
    odd = fixed_bytes(LENGTHS, np.zeros((7, 3), np.uint8))
    assert fault_of(trace_table(new_experts=odd)) == (
        "t.parquet: new_experts holds 3 bytes a position; K + 1 uint16 counts need an even number, 2(K + 1)"
    )
    negative = rows(LENGTHS, np.full((7, 2), -1, np.int32))
    assert faults_of(trace_table(new_experts=negative))[0] == (
        "t.parquet, generation 'g0', position 0: new_experts[0] is -1; it lies in 0 … 65535. Was padding (-1) left in? "
        "(and 2 more positions of this generation)"
    )
    nothing = lists(LENGTHS, pa.array([[]] * 7, pa.list_(pa.uint16())))
    assert fault_of(trace_table(new_experts=nothing)) == (
        "t.parquet: new_experts holds nothing a position; it needs K + 1 cells, K at least 0"
    )


def unique_experts(position: int, cells: list[float]) -> pa.Table:
    values = np.tile(np.array([2, 3, 4, 5], np.float32), (7, 1))
    values[position] = cells
    return trace_table(unique_experts=rows(LENGTHS, values))


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (
            [2, 3, 2.5, 5],
            "unique_experts[2] is 2.5 after 3; more verified positions never touch fewer experts. Cells run over "
            "k = 0 … K",
        ),
        (
            [-1, 3, 4, 5],
            "unique_experts[0] is -1; 1 tokens of a top-2 model with 8 experts a layer touch 0 … 2 in a layer. "
            "Was a sum over layers recorded? It is the mean",
        ),
        (
            [2, 3, 4, 8.5],
            "unique_experts[3] is 8.5; 4 tokens of a top-2 model with 8 experts a layer touch 0 … 8 in a layer. "
            "Was a sum over layers recorded? It is the mean",
        ),
        (
            [4, 6, 8, 8],
            "unique_experts[0] is 4; 1 tokens of a top-2 model with 8 experts a layer touch 0 … 2 in a layer. Was "
            "a sum over layers recorded? It is the mean",
        ),
        (
            [2, 3, np.nan, 5],
            "unique_experts[2] is NaN; each cell is a mean number of experts. Past the end repeat the last",
        ),
    ],
)
def test_unique_experts_are_means_that_rise(cells, wanted):
    assert fault_of(unique_experts(4, cells)) == f"t.parquet, generation 'g2', position 1: {wanted}"


def test_unique_experts_may_fall_by_float32_rounding():
    below = float(np.nextafter(np.float32(3), np.float32(0)))
    assert Traces.from_arrow(unique_experts(0, [2, 3, below, 5])).unique_experts[0, 2] == np.float32(below)


def rounds(lengths: list[int], advances: list[int], sizes: tuple[int, ...] = (2, 0, 1)) -> pa.Table:
    return trace_table(
        logged_draft_length=lists(sizes, pa.array(lengths, pa.int16())),
        logged_advance=lists(sizes, pa.array(advances, pa.int16())),
    )


def test_logged_rounds():
    assert Traces.from_arrow(rounds([0, 4, 2], [1, 5, 3])).logged_advance.tolist() == [1, 5, 3]  # the last overshoots
    assert faults_of(rounds([-1, 2, 2], [1, 4, 0])) == (
        "t.parquet, generation 'g0', round 0: logged_draft_length is -1; a draft length lies in 0 … 32767",
        "t.parquet, generation 'g0', round 1: logged_advance is 4 at draft length 2; an advance is accepted tokens + "
        "1, so it lies in 1 … 3. Was the number of accepted tokens recorded?",
        "t.parquet, generation 'g2', round 0: logged_advance is 0 at draft length 2; an advance is accepted tokens + "
        "1, so it lies in 1 … 3. Was the number of accepted tokens recorded?",
    )
    assert fault_of(rounds([2, 2, 2], [3, 1, 3])) == (
        "t.parquet, generation 'g0', round 1: starts at position 3, but the generation has 3; logged advances before "
        "the last round add up to less than the positions. Is the token that prefill emits among them? It is no decode "
        "round"
    )
    unequal = trace_table(logged_advance=lists((2, 0, 1), pa.array([1, 1, 1], pa.int16())))
    assert fault_of(unequal) == (
        "t.parquet, generation 'g0': logged_advance has 2 rounds, logged_draft_length has 1; both have one entry a "
        "round"
    )
