"""Match probabilities and wrong tokens: what they say of a draft token must add up to the draft's own probabilities."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `record`")
pytest.importorskip("transformers", reason="needs the extra `record`")

from oracle.errors import InputError, InputWarning  # noqa: E402
from oracle.recorder.chances import Choice, match_probability, wrong_token  # noqa: E402
from oracle.recorder.timing import check_clock, medians  # noqa: E402

pytestmark = pytest.mark.record
DRAWS = 40_000
P = torch.tensor([0.5, 0.25, 0.125, 0.125])
Q = torch.tensor([0.25, 0.125, 0.5, 0.125])


def choice(greedy: bool = False, temperature: float = 1.0) -> Choice:
    return Choice(temperature, greedy, torch.Generator().manual_seed(3))


def shares(tokens: torch.Tensor) -> np.ndarray:
    return torch.bincount(tokens, minlength=4).numpy() / len(tokens)


def wrong(kind: str, p: torch.Tensor, q: torch.Tensor, emitted: int) -> np.ndarray:
    rows = (p.expand(DRAWS, -1), q.expand(DRAWS, -1), torch.full((DRAWS,), emitted))
    return shares(wrong_token(kind, *rows, choice()))  # type: ignore[arg-type]


def test_accepted_and_wrong_tokens_make_up_the_draft() -> None:
    """Speculative sampling: q = min(p, q) + (1 - Σ min) · (what is rejected)."""
    overlap = float(match_probability("overlap", P[None], Q[None], torch.tensor([0]))[0])
    assert overlap == 0.625
    rejected = wrong("overlap", P, Q, 0)
    np.testing.assert_allclose(np.minimum(P, Q) + (1 - overlap) * rejected, Q, atol=0.01)
    assert rejected[[0, 1, 3]].sum() == 0  # nothing but token 2 is more probable in the draft


def test_reference_and_greedy() -> None:
    emitted = torch.tensor([0, 2])
    both = (P.expand(2, -1), Q.expand(2, -1), emitted)
    assert match_probability("reference", *both).tolist() == [0.25, 0.5]
    assert match_probability("greedy", *both).tolist() == [0.0, 1.0]
    without = wrong("reference", P, Q, 2)
    assert without[2] == 0
    np.testing.assert_allclose(without, [0.5, 0.25, 0, 0.25], atol=0.01)
    assert wrong("greedy", P, Q, 0).tolist() == [0, 0, 1, 0]


def test_where_no_mismatch_is_possible_some_token_is_given() -> None:
    np.testing.assert_allclose(wrong("overlap", Q, Q, 0), Q, atol=0.01)
    sure = torch.tensor([0.0, 1.0, 0.0, 0.0])
    assert wrong("reference", P, sure, 1).tolist() == [0, 1, 0, 0]


def test_temperature_and_choice() -> None:
    logits = torch.log(P)[None] * 2
    halved = choice(temperature=2).probabilities(torch.cat([logits, torch.full((1, 3), -1e9)], dim=1), 4)
    np.testing.assert_allclose(halved[0], P, atol=1e-6)
    assert choice(greedy=True).of(P.expand(3, -1)).tolist() == [0, 0, 0]
    np.testing.assert_allclose(shares(choice().of(P.expand(DRAWS, -1))), P, atol=0.01)


def test_what_is_to_be_known_of_times_on_a_device() -> None:
    check_clock(torch.device("cpu"))
    with pytest.warns(InputWarning, match="come from CUDA events, which have not been tried on one yet"):
        check_clock(torch.device("cuda"))
    with pytest.raises(InputError, match="cannot be timed on the device mps, only on cpu and cuda; leave --timing"):
        check_clock(torch.device("mps"))


def test_medians_of_repeats_in_recording_order() -> None:
    import pyarrow as pa  # noqa: PLC0415

    target = {(0, 1): (5.0, 4.0, 9.0), (1, 1): (2.0, 1.0), (0, 0): (3.0,)}
    order = {(0, 1): (6, 1, 2), (1, 1): (3, 4), (0, 0): (0,)}
    rows = [
        {"order": o, "anchor": a, "draft_length": k, "target_ms": t, "draft_ms": 10 * t}
        for (a, k), times in target.items()
        for t, o in zip(times, order[a, k], strict=True)
    ]
    found = medians(pa.Table.from_pylist(rows)).to_pydict()
    assert found["round_index"] == [0, 4, 6]
    assert found["target_ms"] == [3.0, 1.5, 5.0]
    assert found["draft_ms"] == [30.0, 15.0, 50.0]
    assert found["repeats"] == [1, 2, 3]
    assert "anchor" not in found
