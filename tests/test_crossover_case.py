"""What the page of the recorded case says of batches and tenants is what the command on that page prints."""

import re
import shlex
from pathlib import Path

from test_cli import TINY, succeeded

HEADS = ("Unique experts of batches", "What mixing tenants in a batch costs")


def tables_of(page: str) -> dict[str, str]:
    """Markdown tables under the headings that are asked for."""
    chapters = (part.partition("\n") for part in re.split(r"(?m)^#+ ", page))
    return {head: "\n".join(re.findall(r"(?m)^\|.*$", text)) for head, _, text in chapters if head in HEADS}


def test_its_tables_are_those_of_the_command(tmp_path: Path) -> None:
    page = (TINY / "README.md").read_text("utf-8")
    commands = re.findall(r"(?m)^    draft-oracle (.* -[om] model\.json.*)$", page)
    assert len(commands) == 2
    for command in commands:
        placed = command.replace("cases/", f"{TINY.parent}/").replace("model.json", str(tmp_path / "model.json"))
        said = succeeded(*shlex.split(placed))
    assert set(tables_of(page)) == set(HEADS)
    assert tables_of(page) == tables_of(said)
