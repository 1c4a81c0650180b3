"""Loading a target, a draft and their common tokenizer, from this machine unless told otherwise."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from oracle.errors import InputError, printable
from oracle.recorder.passes import check_attention, check_branches
from oracle.recorder.routing import Routing
from oracle.recorder.settings import Settings

_BRANCHING = "sdpa", "eager"  # attention that takes a mask of our own


@dataclass(frozen=True, eq=False)
class Models:
    """What a recording works with.

    Attributes
    ----------
    target, draft
        Models of transformers; no draft where a lookup proposes.
    tokenizer
        Of both.
    routing
        Of the target.
    ends
        Tokens that end a text.
    attention
        What the models' own passes use, target's and draft's; timed passes do too.
    """

    target: Any
    draft: Any | None
    tokenizer: Any
    routing: Routing
    ends: frozenset[int]
    attention: tuple[str, ...]

    @property
    def vocabulary(self) -> int:
        """Token ids that both models know; a padded embedding has more rows."""
        sizes = [model.config.get_text_config().vocab_size for model in (self.target, self.draft) if model is not None]
        return int(min(sizes))

    @property
    def positions(self) -> int | None:
        """How long a text both models were made for; None if they do not say."""
        models = [model for model in (self.target, self.draft) if model is not None]
        found = [getattr(model.config.get_text_config(), "max_position_embeddings", None) for model in models]
        return min((int(length) for length in found if length), default=None)

    def text_of(self, token: int) -> str:
        """Text of one token; U+FFFD for a part of a character."""
        return _text(self.tokenizer, token)

    def branching(self) -> None:
        """Let the models follow masks of our own."""
        for model in (self.target, self.draft):
            if model is not None and model.config._attn_implementation not in _BRANCHING:
                _set_attention(model, _BRANCHING)

    def own_attention(self) -> None:
        """Give the models back what they were loaded with."""
        models = [model for model in (self.target, self.draft) if model is not None]
        for model, kind in zip(models, self.attention, strict=True):
            model.set_attn_implementation(kind)


@lru_cache(maxsize=1 << 18)
def _text(tokenizer: Any, token: int) -> str:
    return str(tokenizer.decode([token]))


def load(settings: Settings) -> Models:
    """Load the models and check that they can be recorded.

    Raises
    ------
    InputError
        A model that is not there, tokenizers that differ, an architecture whose routing or attention cannot be used.
    """
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    _check_device(settings.device)
    target = _model(settings.target, settings)
    tokenizer = _tokenizer(settings.target, settings)
    draft = None
    if settings.ngram is None:
        _check_tokenizers(settings, tokenizer, _tokenizer(settings.draft, settings))
        draft = _model(settings.draft, settings)
    loaded = [model for model in (target, draft) if model is not None]
    ends = target.generation_config.eos_token_id if target.generation_config is not None else None
    models = Models(
        target,
        draft,
        tokenizer,
        Routing(target, f"--target {settings.target}"),
        frozenset([ends] if isinstance(ends, int) else ends or []),
        tuple(model.config._attn_implementation for model in loaded),
    )
    models.branching()
    for model, name in zip(loaded, (f"--target {settings.target}", f"--draft {settings.draft}"), strict=False):
        check_attention(model, name)
        check_branches(model, name)
    return models


def _model(name: str, settings: Settings) -> Any:
    options: dict[str, Any] = {"dtype": settings.dtype, "local_files_only": not settings.hub}
    if settings.attention is not None:
        options["attn_implementation"] = settings.attention
    if settings.experts_kernel is not None and name == settings.target:
        options["experts_implementation"] = settings.experts_kernel
    try:
        return AutoModelForCausalLM.from_pretrained(name, **options).to(settings.device).eval()
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise InputError(_refusal("the model", name, error, settings)) from error


def _check_device(name: str) -> None:
    try:
        torch.ones(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = printable(str(error).partition("\n")[0], most=160)
        raise InputError(
            f"--device '{printable(name)}' cannot be used ({reason}); give another, such as cpu"
        ) from error


def _tokenizer(name: str, settings: Settings) -> Any:
    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=not settings.hub)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(_refusal("the tokenizer of", name, error, settings)) from error


def _refusal(what: str, name: str, error: BaseException, settings: Settings) -> str:
    reason = printable(" ".join(str(error).split()), most=200)
    way_out = "check the name and the options"
    if not Path(name).exists() and not settings.hub:
        reason, way_out = "there is no such folder, and no copy on this machine", "check the path, or give --hub"
    elif isinstance(error, OSError) and not settings.hub:
        way_out = "give a folder, or --hub to let transformers fetch it"
    return f"{what} {printable(name, most=200)} cannot be loaded ({reason}); {way_out}"


def _check_tokenizers(settings: Settings, target: Any, draft: Any) -> None:
    """Refuse a draft whose tokens mean something else than the target's."""
    ours, theirs = target.get_vocab(), draft.get_vocab()
    if ours == theirs:
        return
    odd = min(set(ours.items()) ^ set(theirs.items()), key=lambda item: (item[1], item[0]))
    names = {number: token for token, number in ours.items()}, {number: token for token, number in theirs.items()}
    said = [repr(printable(one[odd[1]])) if odd[1] in one else "nothing" for one in names]
    raise InputError(
        f"--draft {printable(settings.draft, most=200)}: has another tokenizer than the target ({len(theirs):,} tokens "
        f"against {len(ours):,}; id {odd[1]} is {said[1]} there and {said[0]} in the target), so their tokens cannot "
        "be compared; give a draft of the same family, or --draft ngram"
    )


def _set_attention(model: Any, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        try:
            model.set_attn_implementation(kind)
        except (ValueError, ImportError):
            continue
        return
