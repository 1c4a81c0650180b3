"""Print constraints that hold every dependency of the tests at the lower bound that pyproject.toml states."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
LOWER_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?\s*>=\s*(?P<least>[0-9.]+)")


def constraints(pyproject: Path = PYPROJECT) -> list[str]:
    """Pin what the program and its tests need; a requirement without a lower bound is a ValueError."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    pins = []
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        found = LOWER_BOUND.match(requirement)
        if found is None:
            raise ValueError(f"{pyproject.name}: {requirement!r} has no lower bound; write it as in name>=1.2")
        pins.append(f"{found['name']}=={found['least']}")
    return pins


if __name__ == "__main__":
    print("\n".join(constraints()))
