"""Engines with one draft length for all batch sizes: llama.cpp, transformers, MLX."""

import shlex

from oracle.engines.request import Request


def llamacpp(request: Request) -> str:
    """Flags of llama-server; the former ``--draft-…`` flags fail there and are never written.

    ``--spec-draft-p-min 0`` keeps the draft's own confidence from ending a draft: K is K.
    """
    k = request.one_length("llama.cpp")
    if k == 0:
        return "# off: start llama-server without --spec-type and the other --spec-… flags\n"
    model = "" if request.draft_model is None else f" --spec-draft-model {shlex.quote(request.draft_model)}"
    return (
        _replace("TYPE", request, "draft-mtp")
        + f"--spec-type {shlex.quote(request.method or 'TYPE')}{model} --spec-draft-n-max {k} --spec-draft-n-min 0 "
        "--spec-draft-p-min 0\n"
    )


def transformers(request: Request) -> str:
    """Arguments of Hugging Face's assisted generation, which it reads from the assistant's generation_config."""
    k = request.one_length("transformers")
    if k == 0:
        return "# off: call generate() without assistant_model\n"
    return (
        "assistant_model.generation_config.update(\n"
        f"    num_assistant_tokens={k},\n"
        '    num_assistant_tokens_schedule="constant",\n'
        "    assistant_confidence_threshold=0.0,\n"
        ")\n"
    )


def mlx(request: Request) -> str:
    """Flags of mlx_lm."""
    k = request.one_length("MLX")
    if k == 0:
        return "# off: start mlx_lm without --draft-model and --num-draft-tokens\n"
    model = "" if request.draft_model is None else f"--draft-model {shlex.quote(request.draft_model)} "
    return f"{model}--num-draft-tokens {k}\n"


def _replace(word: str, request: Request, example: str) -> str:
    """Say what a word in capitals stands for, where the user did not say it."""
    return "" if request.method else f"# {word}: how drafts are made, such as {example}\n"
