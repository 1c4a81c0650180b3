"""One generation: the text, match probabilities, chains from every anchor, routing of text and tails.

Row r of the text has token r as input and emits token r + 1. With P prompt tokens and G more (the first of them emitted
by the prefill, which is no decode decision) position t is row P + t: its input is token t of those G, it emits token
t + 1, and P + 1 + t tokens are in context.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from jinja2 import TemplateError
from numpy.typing import NDArray

from oracle.errors import InputError, InputWarning, printable
from oracle.recorder.chances import Choice
from oracle.recorder.drafters import Drafter, LookupDrafter, ModelDrafter, Proposed, Tokens
from oracle.recorder.loading import Models
from oracle.recorder.passes import Text
from oracle.recorder.prompts import Prompt
from oracle.recorder.routing import Ids
from oracle.recorder.settings import Settings
from oracle.recorder.unique import expected_unique, unique_of_chains


@dataclass(frozen=True, eq=False)
class Generation:
    """What one generation gives, N positions, K longest draft.

    Attributes
    ----------
    prompt
        What it goes on from.
    context : (P + 1,) int64
        Tokens in context at position 0.
    emitted : (N,) int64
        What the target emits.
    proposed
        Match probabilities and chains.
    experts : (N, layers, top_k) uint8 or uint16
        Routing of the rows that emit; no layers for a dense target.
    unique : (N, K + 1) float32, or None
        Unique experts of rounds, tails included; None for a dense target.
    """

    prompt: Prompt
    context: Tokens
    emitted: Tokens
    proposed: Proposed
    experts: Ids
    unique: NDArray[np.float32] | None


def record(models: Models, settings: Settings, prompt: Prompt, index: int) -> Generation:
    """Record one generation.

    Parameters
    ----------
    index
        Of the prompt; decides, with the seed, what is random.
    """
    choice = _choice(models, settings, index)
    context = tokens_of(models, prompt)
    text = generated(models, settings, context, choice) if prompt.reference is None else given(models, prompt)
    tokens = np.concatenate([context, text])
    longest = len(tokens) + settings.k_max
    if models.positions is not None and longest > models.positions:
        warnings.warn(
            f"prompt '{printable(prompt.id)}': text and draft reach {longest:,} tokens, more than the "
            f"{models.positions:,} that the models were made for; what they do beyond means little",
            InputWarning,
            stacklevel=2,
        )
    drafter: Drafter
    everything = torch.as_tensor(tokens, device=models.target.device)
    if models.draft is None:
        drafter = LookupDrafter(settings, tokens, len(context), models.target.device)
    else:
        drafter = ModelDrafter(models, settings, everything, len(context), choice)
    experts, tails = _walk(models, settings, everything, len(context), drafter, choice)
    proposed = drafter.proposed()
    unique = _unique(models, settings, experts, tails, proposed) if models.routing.layers else None
    return Generation(prompt, tokens[: len(context) + 1], text[1:], proposed, experts[:-1], unique)


def tokens_of(models: Models, prompt: Prompt) -> Tokens:
    """Give the tokens of a prompt."""
    if isinstance(prompt.prompt, str):
        ids = models.tokenizer(prompt.prompt)["input_ids"]
    elif prompt.is_token_ids:
        ids = prompt.prompt
    else:
        try:
            chat = list(prompt.prompt)
            ids = models.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        except ValueError as error:
            raise InputError(
                f"prompt '{printable(prompt.id)}': the tokenizer has no chat template; give `prompt` in place of "
                "`messages`"
            ) from error
        except (TemplateError, TypeError) as error:
            raise InputError(
                f"prompt '{printable(prompt.id)}': the chat template refuses the messages "
                f"({printable(str(error), most=160)}); give them in the order and with the roles it knows, or `prompt`"
            ) from error
    return _known(models, ids, f"prompt '{printable(prompt.id)}'", 1)


def generated(models: Models, settings: Settings, context: Tokens, choice: Choice) -> Tokens:
    """Let the target continue a prompt, token by token, as far as it goes."""
    text = Text(models.target)
    row = torch.as_tensor(context, device=models.target.device)
    text.prefill(row[:-1])
    row = row[-1:]
    found: list[int] = []
    while len(found) < settings.max_new_tokens and not (found and found[-1] in models.ends):
        row = choice.of(choice.probabilities(text.extend(row), models.vocabulary))
        found.append(int(row))
    return np.array(found, np.int64)


def given(models: Models, prompt: Prompt) -> Tokens:
    """Give the tokens of the text that takes the place of a generated one."""
    text = prompt.reference
    ids = models.tokenizer(text, add_special_tokens=False)["input_ids"] if isinstance(text, str) else text
    return _known(models, ids, f"the text for prompt '{printable(prompt.id)}'", 1)


def _known(models: Models, ids: object, what: str, least: int) -> Tokens:
    found = np.asarray(ids, np.int64).reshape(-1)
    if len(found) < least:
        raise InputError(f"{what}: holds no token; give a text that is not empty")
    if found.max() >= models.vocabulary:
        raise InputError(
            f"{what}: holds the token {found.max()}, but the models know {models.vocabulary:,}; was it made with "
            "another tokenizer?"
        )
    return found


def _choice(models: Models, settings: Settings, index: int) -> Choice:
    random = torch.Generator(device=models.target.device)
    random.manual_seed(int(np.random.SeedSequence([settings.seed, index]).generate_state(1, np.uint32)[0]))
    return Choice(settings.temperature, settings.decoding == "greedy", random)


def _walk(
    models: Models, settings: Settings, tokens: torch.Tensor, prompt: int, drafter: Drafter, choice: Choice
) -> tuple[Ids, Ids]:
    """Let the target read the text and verify a tail behind each row of it, stretch after stretch.

    Returns
    -------
    Routing of the N + 1 rows, (N + 1, layers, top_k), and of their tails, (N + 1, K, layers, top_k).
    """
    target = Text(models.target)
    target.prefill(tokens[:prompt])
    experts: list[Ids] = []
    tails: list[Ids] = []
    k = settings.k_max
    with models.routing:
        while target.length < len(tokens):
            many = min(len(tokens) - target.length, target.anchors_a_pass(k))
            rows = torch.arange(target.length, target.length + many, device=tokens.device)
            p = choice.probabilities(target.extend(tokens[rows]), models.vocabulary)
            experts.append(models.routing.take())
            tail = drafter.propose(rows, p)
            if models.routing.layers:
                of = torch.arange(many, device=tokens.device).repeat_interleave(k)
                target.branch(tail.reshape(-1), rows.repeat_interleave(k), of, logits=False)
                target.prune()
                ids = models.routing.take()
                tails.append(ids.reshape(many, k, *ids.shape[1:]))
    return np.concatenate(experts), np.concatenate(tails) if tails else np.zeros((0, k, 0, 0), np.uint8)


def _unique(models: Models, settings: Settings, experts: Ids, tails: Ids, proposed: Proposed) -> NDArray[np.float32]:
    """Count unique experts of rounds, the tails included."""
    if settings.unique_experts == "expected":
        return expected_unique(experts, tails, proposed.match, models.routing.num_experts)
    lengths = np.array([len(chain) for chain in proposed.chains], np.int64)
    return unique_of_chains(experts[:-1], tails[:-1], lengths, models.routing.num_experts)
