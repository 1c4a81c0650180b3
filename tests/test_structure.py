"""What the parts of the source may know of one another, and what stands in two places because it must."""

import ast
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
KERNELS = {
    path.stem: ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "kernels").glob("*.py"))
    if path.stem not in ("__init__", "disk_cache")
}


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_contract_names_every_kernel_file() -> None:
    [contract] = [each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "independence"]
    assert contract["modules"] == [f"kernels.{name}" for name in KERNELS]


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_files_import_numpy_numba_and_what_types_need(name: str) -> None:
    known = set()
    for node in ast.walk(KERNELS[name]):
        if isinstance(node, ast.Import):
            known |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            known.add("." * node.level + (node.module or "").split(".")[0])
    assert known <= {"numpy", "numba", "math", "typing"}


@pytest.mark.parametrize("name", KERNELS)
def test_every_function_of_a_kernel_file_is_compiled_by_a_literal_decorator(name: str) -> None:
    """A decorator that is made elsewhere, or with other options, would escape Numba's cache."""
    forms = {"njit(cache=True, nogil=True)", "njit(inline='always')"}
    for function in functions(KERNELS[name]).values():
        [decorator] = function.decorator_list
        assert ast.unparse(decorator) in forms, function.name


def defined(tree: ast.Module) -> dict[str, str]:
    """Source of every constant and function by its name, without docstrings and comments."""
    found = {name: normal(node) for name, node in functions(tree).items()}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found |= {target.id: ast.unparse(node.value) for target in node.targets if isinstance(target, ast.Name)}
    return found


def normal(function: ast.FunctionDef) -> str:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    signature = f"{ast.unparse(function.decorator_list[0])}({ast.unparse(function.args)})"
    return "\n".join([signature, *map(ast.unparse, body)])


def test_what_has_one_name_in_several_kernel_files_is_the_same_in_all() -> None:
    forms: dict[str, set[str]] = {}
    for tree in KERNELS.values():
        for name, text in defined(tree).items():
            forms.setdefault(name, set()).add(text)
    assert {name: texts for name, texts in forms.items() if len(texts) > 1} == {}


def test_bits_are_set_alike_for_one_position_and_for_a_window() -> None:
    """`_add_bits` adds to what earlier rows of a window set, `_set_bits` begins anew; nothing else differs."""
    added = normal(functions(KERNELS["batch_union"])["_add_bits"])
    begun = normal(functions(KERNELS["windows"])["_set_bits"])
    stored = re.compile(r"(mask\[.*\]) \|= ")
    without_clearing = "\n".join(line for line in begun.splitlines() if line.strip() != "mask[:] = _0")
    assert stored.sub(r"\1 = ", without_clearing) == stored.sub(r"\1 = ", added)


def test_constraints_hold_every_dependency_at_its_lower_bound(tmp_path: Path) -> None:
    constraints = runpy.run_path(str(ROOT / ".ci" / "lower_bounds.py"))["constraints"]
    project = PYPROJECT["project"]
    pins = constraints(ROOT / "pyproject.toml")
    assert len(pins) == len(project["dependencies"]) + len(project["optional-dependencies"]["test"])
    assert "numpy==" + next(each for each in project["dependencies"] if each.startswith("numpy"))[7:] in pins
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["ray[data] >= 2.60, <2.64", "a_b.c>=1"]\noptional-dependencies = {test = ["d"]}\n'
    )
    with pytest.raises(ValueError, match=r"^pyproject\.toml: 'd' has no lower bound; write it as in name>=1\.2$"):
        constraints(tmp_path / "pyproject.toml")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["ray[data] >= 2.60, <2.64", "a_b.c>=1"]\noptional-dependencies = {test = []}\n'
    )
    assert constraints(tmp_path / "pyproject.toml") == ["ray==2.60", "a_b.c==1"]
