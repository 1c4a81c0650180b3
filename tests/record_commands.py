"""Recordings of tiny models by the command line: what their tests share."""

import json
from pathlib import Path

import record_models
import torch
from click.testing import CliRunner, Result

from oracle.cli.main import group

K = 3
ALL = [name for name in record_models.ARCHITECTURES if name != "alibi"]


def write_models(root: Path, names: list[str] = ALL) -> Path:
    """Models and prompts for them; torch on one thread, as the tests run side by side."""
    torch.set_num_threads(1)
    for name in names:
        record_models.save(root / name, name, seed=len(name))
    texts = ("def f(x):", "the cat sat on the mat", "привет, мир", "aaaaaaa", "1 2 3 4 5 6", "<p>one</p>")
    rows = [{"id": f"p{i}", "category": f"c{i % 2}", "prompt": text} for i, text in enumerate(texts)]
    (root / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return root


def command(models: Path, target: str, output: Path, *more: str, draft: str | None = None) -> list[str]:
    words = ["record", "--target", str(models / target), "--draft", draft or str(models / "dense")]
    usual = ["--dtype", "float32", "--k-max", str(K), "--max-new-tokens", "24", "--threads", "1"]
    return [*words, "--prompts", str(models / "prompts.jsonl"), "-o", str(output), *usual, *more]


def invoked(*words: str) -> Result:
    return CliRunner().invoke(group, list(words), catch_exceptions=False)


def succeeded(words: list[str]) -> str:
    result = invoked(*words)
    assert result.exit_code == 0, result.output
    return result.output
