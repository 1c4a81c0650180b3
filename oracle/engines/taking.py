"""Which engines take a policy as it stands: with options of their own, no code of anybody's."""

NAMES = ("vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "transformers", "MLX")
# what happens to the token that falls under the threshold is what tells the two apart: --spec-draft-p-min leaves it out
# (older llama.cpp verified it), assistant_confidence_threshold verifies it; the other engines have no threshold
_THRESHOLD = {False: ("llama.cpp",), True: ("transformers",)}


def engines_that_take(policy: str) -> tuple[str, ...]:
    """Name the engines that take a policy as it stands; none for what needs code of its own.

    Checked with the versions that `configuration` names. A static length has a place in every one; a maximum, too. A
    minimum has none: llama.cpp's ``--spec-draft-n-min`` throws shorter drafts away.

    Parameters
    ----------
    policy
        Text form, with or without its parameter.
    """
    rule, *options = policy.split("@")
    form = rule.partition(":")[0]
    if any(option.startswith("min") for option in options):
        return ()
    if form == "static":
        return NAMES
    return _THRESHOLD["keep" in options] if form == "confidence" else ()
