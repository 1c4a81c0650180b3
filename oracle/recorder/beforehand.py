"""What can be found out of a recording before its expensive part begins: texts that cannot be, rounds too many."""

from collections.abc import Sequence
from pathlib import Path

from oracle.errors import Faults, InputError
from oracle.files import sha256_of
from oracle.recorder.loading import Models
from oracle.recorder.prompts import Prompt
from oracle.recorder.sequence import given, tokens_of
from oracle.recorder.settings import Settings

_OF_A_MODEL = (".safetensors", ".bin", ".pt", ".pth", ".json", ".model", ".txt", ".jinja", ".tiktoken", ".py")


def check_texts(models: Models, settings: Settings, prompts: Sequence[Prompt], anchors: int) -> None:
    """Tokenise all prompts and texts, and count where rounds could be timed.

    Parameters
    ----------
    anchors
        Places at which rounds are to be timed; 0: none.

    Raises
    ------
    InputError
        All faults: prompts and texts that make no tokens of these models, fewer places than anchors.
    """
    faults = Faults()
    places = longest = 0
    for prompt in prompts:
        try:
            tokens_of(models, prompt)
            text = settings.max_new_tokens if prompt.reference is None else len(given(models, prompt))
        except InputError as error:
            for fault in error.faults:
                faults.add(fault)
            continue
        longest = max(longest, text - 1)
        places += max(0, text - 1 - settings.k_max)
    if anchors and not faults and places < anchors:
        limited = "" if any(prompt.reference is not None for prompt in prompts) else " and --max-new-tokens"
        faults.add(
            f"--timing-rounds needs {anchors:,} places that {settings.k_max} positions follow (--k-max), one for every "
            f"{settings.k_max + 1} rounds; the texts have {places:,} at most (the longest has {longest:,} positions): "
            f"time fewer rounds, lower --k-max, or raise the number of prompts{limited}"
        )
    faults.raise_if_any()


def files_of(settings: Settings, models: Models) -> dict[str, str]:
    """Digest what the models were loaded from: of a folder the files of a model's kinds in it, of a hub the commit."""
    found: dict[str, str] = {}
    for role, model in (("target", models.target), ("draft", models.draft)):
        name = getattr(settings, role)
        if model is None:
            continue
        if Path(name).is_dir():
            files = sorted(path for path in Path(name).iterdir() if path.suffix in _OF_A_MODEL and path.is_file())
            found |= {f"{role}/{path.name}": f"sha256 {sha256_of(path)}" for path in files}
        else:
            found[role] = f"commit {getattr(model.config, '_commit_hash', None)}"
    return found
