"""Options and files no command may take: numbers that are none, files without an end, options that contradict."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from oracle.cli import main
from oracle.cli.options import Finite
from oracle.errors import InputError
from oracle.files import MOST_TEXT_BYTES, read_text
from oracle.latency.model import LatencyModel
from oracle.tables import show

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "cases" / "published-a100" / "model.json"


def recommended(*words: str | Path, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(main.group, ["recommend", *map(str, words)], input=stdin)


def refused(*words: str | Path, stdin: bytes | None = None) -> str:
    done = recommended(*words, stdin=stdin)
    assert isinstance(done.exception, InputError), done.output
    return str(done.exception)


@pytest.fixture
def given(tmp_path: Path) -> tuple[str | Path, ...]:
    (tmp_path / "a.csv").write_text("position,rate\n1,.8\n2,.6\n")
    (tmp_path / "s.csv").write_text("draft_length,step_ms\n0,20\n1,24\n2,29\n")
    return ("--acceptance", tmp_path / "a.csv", "--acceptance-is", "survival", "--step-times", tmp_path / "s.csv")


# --- numbers ---------------------------------------------------------------------------------------------------------


def options_of(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Option]]:
    """Every option of every command."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from options_of(each, f"{path} {name}")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{path} {parameter.opts[0]}", parameter


CHECKED_LATER = {" record --temperature", " levers --band"}  # with all other faults of a recording, of a deployment
NUMBERS = {
    name: option for name, option in options_of(main.group) if isinstance(option.type, click.types.FloatParamType)
}


def test_there_are_such_options() -> None:
    assert {" recommend --context-len", " recommend --noise", " ablate --s-max", " levers --band"} <= set(NUMBERS)


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - CHECKED_LATER))
def test_no_command_takes_a_number_that_is_none(name: str) -> None:
    for text in ("nan", "inf", "-inf", "1e999", "NaN"):
        with pytest.raises(click.BadParameter, match=r"is not a finite number|is not in the range"):
            NUMBERS[name].type.convert(text, NUMBERS[name], None)


def test_finite_numbers_stay_in_their_range() -> None:
    assert Finite(0, 99).convert("2.5", None, None) == 2.5
    with pytest.raises(click.BadParameter, match=r"100\.0 is not in the range 0<=x<=99"):
        Finite(0, 99).convert("100", None, None)


@pytest.mark.parametrize("context", ["nan", "inf"])
def test_a_context_that_is_no_number_recommends_nothing(given: tuple[str | Path, ...], context: str) -> None:
    model = ("--model", PUBLISHED, "--unique-experts", "2:13,3:17", "--context-len", context)
    done = recommended(*given[:4], *model)
    assert done.exit_code == 2
    assert f"Invalid value for '--context-len': {context} is not a finite number." in done.output
    assert "tokens/s" not in done.output
    huge = (*model[:-1], "1e300")
    assert "the latency model prices a round over m = 2 at " in refused(*given[:4], *huge)


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, given: tuple[str | Path, ...]) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(MOST_TEXT_BYTES + 1)  # sparse: takes no space
    said = f"{path}: holds more than 268,435,456 bytes, the most that is read; cut the file down"
    assert refused("--acceptance", path, *given[2:]) == said
    assert refused(*given[:4], "--step-times", path) == said
    with pytest.raises(InputError, match="holds more than 268,435,456 bytes"):
        LatencyModel.load(path)
    path.write_text("abcdef")
    assert read_text(path, most=6) == "abcdef"
    with pytest.raises(InputError, match="holds more than 5 bytes"):
        read_text(path, most=5)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(InputError) as caught:
            read_text(path)
        assert str(caught.value) == f"{path}: is not a regular file; give a text file, or pipe it to stdin (-)"
    with pytest.raises(InputError, match=r"cannot be read \(No such file or directory\)"):
        read_text(tmp_path / "none")
    with pytest.raises(InputError, match=r"cannot be read \(embedded null byte\)"):
        read_text("a\0b")


def test_lines_end_as_they_do_in_any_text_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes("\ufeffa\r\nb\rc\n".encode())
    assert read_text(tmp_path / "t") == "a\nb\nc\n"


def test_stdin_is_read_as_a_file_would_be(given: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--acceptance", "-", *given[2:])
    assert "K = 2: 82.8 tokens/s" in recommended(*words, stdin=b"\xef\xbb\xbfposition,rate\r\n1,.8\r\n2,.6\r\n").output
    assert refused(*words, stdin=b"\xff\xfe") == "standard input: is not UTF-8 text (byte 0); give a text file"
    assert refused(*words, stdin=b" \n") == "standard input: the file is empty; was its writer interrupted?"
    monkeypatch.setattr("oracle.files.MOST_TEXT_BYTES", 10)
    assert refused(*words, stdin=b"x" * 11) == "standard input: holds more than 10 bytes, the most that is read"


# --- options that contradict -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        ("--engine-version", "1.2"),
        ("--method", "eagle3"),
        ("--draft-model", "m"),
        ("--data-parallel", "2"),
        ("--most-draft-tokens", "4"),
        ("--max-batch-size", "8"),
    ],
)
def test_options_of_an_engine_need_one(given: tuple[str | Path, ...], option: tuple[str, str]) -> None:
    assert refused(*given, *option) == f"{option[0]} goes with --engine, which is not given; add it"
    assert recommended(*given, "--engine", "vllm", *option).exit_code == 0


def test_one_form_of_output(given: tuple[str | Path, ...]) -> None:
    for both in (("--json", "--markdown"), ("--markdown", "--json")):
        done = recommended(*given, *both)
        assert done.exit_code == 2
        assert "--json and --markdown are two forms of the same tables; leave one of them out" in done.output
    showing = [each for name, each in options_of(main.group) if name.endswith(" --markdown")]
    assert len(showing) > 5
    assert all(option.callback is not None for option in showing)  # every command refuses both


def test_off_alone_is_nothing_to_compare(given: tuple[str | Path, ...], tmp_path: Path) -> None:
    left = "--k-max 0 leaves K = 0 only, so there is nothing to compare; raise --k-max"
    assert refused(*given, "--k-max", "0") == left
    assert refused(*given[4:], "--k-max", "0") == left
    (tmp_path / "one.csv").write_text("draft_length,step_ms\n0,20\n")
    only = "only K = 0 was measured; measure the step time of at least one K ≥ 1"
    assert refused(*given[:4], "--step-times", tmp_path / "one.csv") == only


def test_weights_without_tenants(given: tuple[str | Path, ...]) -> None:
    assert refused(*given, "--tenant-weights", "a=1") == (
        "tenant weights name a, and the acceptance names no tenants; name them, as --acceptance TENANT=FILE"
    )


def test_a_zero_is_an_option_that_was_given(tmp_path: Path) -> None:
    said = refused("--traces", tmp_path / "t", "--model", PUBLISHED, "--context-len", "0")
    assert said == "--context-len does not go with --traces, which hold it; leave one of them out"


def test_a_number_without_meaning_takes_no_300_digits() -> None:
    assert show(1.8e303, ",.1f") == "1.8e+303"
    assert show(10**300) == "1e+300"
    assert show(-2e20, "+.1f", 100) == "-2e+22"
    assert show(999_999_999_999_999) == "999,999,999,999,999"
