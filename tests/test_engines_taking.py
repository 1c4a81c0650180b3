"""Which engines take a policy, by what their options do with the token that falls under the threshold."""

import pytest

from oracle.engines import ENGINES, NAMES, engines_that_take
from oracle.policies import parse_policy
from oracle.tuning import FAMILIES


@pytest.mark.parametrize(
    ("policy", "engines"),
    [
        ("static:0", NAMES),
        ("static:3@max=2", NAMES),
        ("static", NAMES),
        ("confidence", ("llama.cpp",)),
        ("confidence:0.6@max=6", ("llama.cpp",)),
        ("confidence@keep", ("transformers",)),
        ("confidence:0.6667@max=6@keep", ("transformers",)),
        ("confidence:0.6@min=1", ()),
        ("survival:0.3@keep", ()),
        ("goodput", ()),
        ("slope!:2.0", ()),
        ("budget", ()),
        ("column:static:3", ()),
    ],
)
def test_a_policy_goes_where_there_is_an_option_for_it(policy: str, engines: tuple[str, ...]) -> None:
    assert engines_that_take(policy) == engines


def test_every_engine_has_a_name_and_nothing_that_looks_ahead_is_taken() -> None:
    plain = [name.lower().replace(".", "").replace("-", "") for name in NAMES]
    assert plain == ["vllm", "sglang", "tensorrtllm", "llamacpp", "transformers", "mlx"]
    assert len(NAMES) == len(ENGINES)
    assert [family for family in FAMILIES if engines_that_take(family)] == ["static", "confidence", "confidence@keep"]
    for text in ("oracle", "blind", "survival!:0.5", "goodput!", "slope!:2.0"):
        assert not parse_policy(text).online
        assert engines_that_take(text) == ()
