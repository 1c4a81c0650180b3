"""The report as a file: what it says equals what the other commands say, in every format, and what it refuses."""

import base64
import functools
import itertools
import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from report_traces import HOSTILE, TINY, hostile_stated, hostile_traces, many_traces, material, recorded, write_model
from test_cli import HAND, refused, succeeded

from oracle.errors import InputWarning
from oracle.pages import Page, compose
from oracle.pages.html import html_text
from oracle.pages.text import json_report, markdown_text

MOST_BYTES = 10_000_000


@functools.cache
def page() -> Page:
    return compose(recorded(), "A title")


@functools.cache
def html() -> str:
    return html_text(page())


class Seen(HTMLParser):
    """Elements of a page in order, with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


def tables_of(report: str) -> dict[str, Any]:
    """Every table of a JSON report, those of figures included."""
    found: dict[str, Any] = {}
    for section in json.loads(report)["sections"]:
        found |= {figure["data"]["name"]: figure["data"] for figure in section["figures"]}
        found |= section["tables"]
    return found


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("policies",), ("deployment", "tuned_policies", "tuned_by_category", "realised_scores", "extensions")),
        (("ablate", "--draws", "100"), ("changes", "boundaries", "decomposition", "alpha_path", "stability", "scores")),
        (("recommend", "--traces"), ("recommendation", "draft_lengths", "break_even")),
    ],
)
def test_tables_equal_those_of_the_other_commands(
    command: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model.json")
    place = (TINY,) if command[-1] == "--traces" else ()
    said = json.loads(succeeded(*command, *(place or (TINY,)), "-m", model, "--json"))["tables"]
    ours = tables_of(json_report(page()))
    for name in names:
        assert ours[name]["rows"] == said[name]["rows"], name


def test_sections_follow_the_question_of_the_reader_and_none_is_missing() -> None:
    anchors = [section.anchor for section in page().sections]
    assert anchors == [
        "policies", "maximum", "round", "lengths", "latency", "serving", "levers", "pool", "ablation", "stability",
        "contexts", "cases", "gallery", "limits",
    ]  # fmt: skip
    assert page().left_out == ()
    assert len(page().summary) == 4
    said = page().summary
    assert said[0].startswith(
        "Recommended setting: confidence:0.6667@keep (taken by transformers; on vLLM, SGLang, TensorRT-LLM, llama.cpp, "
        "MLX, which take static lengths: static:0, off), 3.604 [3.396; 3.787] ms a token"
    )
    assert said[1].startswith("On recorded matches of greedy texts, held out too, confidence@keep takes -0.286 ")
    assert said[1].endswith(" ms against off (K = 0), not significant.")
    assert "of its decisions would differ" in page().summary[2]


def test_every_figure_says_what_it_shows_how_much_and_with_which_intervals() -> None:
    names = [figure.name for figure in page().figures]
    assert len(set(names)) == len(names)
    for figure in page().figures:
        assert figure.alt
        assert figure.data.rows, figure.name
        if not figure.apart:
            sample = r"as stated, not measured|model output for what was stated, not a measurement|n = [\d,]+ "
            assert re.search(sample, figure.caption), figure.caption
            assert "interval" in figure.caption, figure.caption


def test_html_is_one_accessible_file_without_scripts() -> None:
    seen = Seen(html())
    assert not seen.all("script", "iframe", "object", "embed", "img", "form", "base")
    assert [a["http-equiv"] for a in seen.all("meta") if "http-equiv" in a] == ["Content-Security-Policy"]
    for _, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "src", "xlink:href"):
            assert re.match(r"#|data:", attributes.get(name) or "#")
    ids = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = [a["href"] or "" for a in seen.all("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    levels = [int(tag[1]) for tag, _ in seen.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert all(a.get("scope") in ("row", "col") for a in seen.all("th"))
    assert all(a.get("aria-label") for a in seen.all("svg"))
    for landmark in ("header", "nav", "main"):
        assert len(seen.all(landmark)) == 1
    assert seen.all("html") == [{"lang": "en"}]


def test_the_page_says_every_sentence_and_every_number_of_the_json_report() -> None:
    seen = " ".join("".join(Seen(html()).texts).split())
    for section in page().sections:
        captions = [figure.caption for figure in section.figures if not figure.apart]
        for sentence in (section.title, *section.paragraphs, *section.detail, *captions):
            assert _typed(sentence) in seen
        for table in (*section.tables, *section.folded):
            for row in table.rows:
                for column in table.columns:
                    assert " ".join(_typed(column.show(row)).split()) in seen


def _typed(text: str) -> str:
    """What is typed somewhere stands between marks, which the page shows as code."""
    return text.replace("`", "")


def test_links_to_data_hold_the_tables() -> None:
    links = [a for a in Seen(html()).all("a") if "download" in a]
    held = tables_of(json_report(page()))
    read = {}
    for link in links:
        if str(link["download"]).endswith(".json"):
            whole = json.loads(base64.b64decode(str(link["href"]).partition("base64,")[2]))
            read[whole.pop("name")] = whole
    assert read["maximum_lengths"]["rows"] == held["maximum_lengths"]["rows"]
    assert set(held) - {"q_values", "cases", "gallery"} <= set(read)


def test_markdown_and_json_hold_the_same_content() -> None:
    text = markdown_text(page(), "figures")
    whole = json.loads(json_report(page()))
    assert whole["format"] == "draft-oracle/report"
    assert [section["title"] for section in whole["sections"]] == re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert text.count("### ") >= sum(len(section["tables"]) for section in whole["sections"])
    assert "![" in text
    assert "(figures/maximum-length.svg)" in text
    panels = [panel for section in whole["sections"] for panel in section["panels"]]
    assert len(panels) == 16
    assert all(len(panel["target"]) >= 1 and panel["sentences"] for panel in panels)


def test_the_same_inputs_give_the_same_bytes() -> None:
    assert html_text(page()) == html()


def test_hostile_names_and_tokens_stay_text(tmp_path: Path) -> None:
    stated = hostile_stated(tmp_path)
    found = compose(
        material(hostile_traces(tmp_path / "t.parquet"), stated=stated), '<script>document.title="t"</script>'
    )
    text = html_text(found)
    seen = Seen(text)
    assert not seen.all("script", "iframe", "img", "base", "textarea")
    assert len(seen.all("style", "title", "main")) == 3
    assert not [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]
    assert not re.search("[\x00\x1b\u202e\u2066]", text)
    shown = "".join(seen.texts)
    assert '<img src=x onerror="document.title=1">' in shown
    assert "\\u202egnp.exe" in shown
    written = markdown_text(found)
    assert not re.search(r"(?<!`)<(script|img|svg|iframe|base|style)", written)
    panels = [p for section in json.loads(json_report(found))["sections"] for p in section["panels"]]
    texts = {token["text"] for panel in panels for token in panel["target"]}
    assert texts & set(HOSTILE)  # JSON keeps them as they are


def test_traces_without_texts_leave_sections_out_and_say_why(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pq.read_table(TINY / "traces.parquet").slice(0, 12)
    pq.write_table(table.drop(["token_text", "draft_text", "draft_token_id", "draft_prob"]), path)
    found = compose(material(path), "T")
    why = {one.title: one.why for one in found.left_out}
    assert {"Language contexts", "Gallery"} <= set(why)
    assert "token_text" in why["Language contexts"]
    assert "the trace lacks token_text, draft_token_id" in why["Gallery"]
    assert f"Language contexts, because {why['Language contexts']}" in "".join(Seen(html_text(found)).texts)


def test_a_warning_is_said_once_and_stands_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pq.read_table(TINY / "traces.parquet").slice(0, 12)
    survival = table.drop(["match_prob"])
    falling = [[[0.9 * 0.7**j for j in range(10)] for _ in row] for row in table["match_prob"].to_pylist()]
    import pyarrow as pa  # noqa: PLC0415

    pq.write_table(survival.append_column("match_probs", pa.array(falling, pa.list_(pa.list_(pa.float32(), 10)))), path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = material(path)
    messages = [str(one.message) for one in caught if issubclass(one.category, InputWarning)]
    assert len(messages) == len(set(messages)) == 1
    assert found.warnings == tuple(message.replace(str(path), path.name) for message in messages)
    assert any(
        paragraph == f"Warning: {found.warnings[0]}." for paragraph in compose(found, "T").sections[-1].paragraphs
    )


def test_a_report_over_100_000_decisions_is_below_10_mb(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    found = compose(material(many_traces(path, 100_000)), "Many")
    text = html_text(found)
    assert len(text.encode()) < MOST_BYTES
    assert "4 of 118,476 decisions, token by token: chosen by the rules" in text
    assert "no sample, so they say nothing of how often anything happens" in text


def test_files_appear_whole_in_every_format_and_figures_beside_them(tmp_path: Path) -> None:
    model, out, figures = HAND / "model.json", tmp_path / "report.html", tmp_path / "figures"
    assert succeeded("report", HAND, "-m", model, "-o", out, "--figures", figures, "--title", "On <paper>") == ""
    assert "<title>On &lt;paper&gt;</title>" in out.read_text()
    names = {path.name for path in figures.iterdir()}
    assert "figures.txt" in names
    pictures = {name.rpartition(".")[0] for name in names if name.endswith(".svg")}
    assert {"maximum-length", "round-terms", "chosen-lengths", "coefficients"} <= pictures
    assert {f"{name}.png" for name in pictures} <= names
    assert (figures / "maximum-length.png").read_bytes().startswith(b"\x89PNG")
    assert "the folder exists already" in refused("report", HAND, "-m", model, "-o", out, "--figures", figures)
    succeeded("report", HAND, "-m", model, "-o", tmp_path / "r.md", "--figures", figures, "--overwrite")
    assert "](figures/maximum-length.svg)" in (tmp_path / "r.md").read_text()
    succeeded("report", HAND, "-m", model, "-o", tmp_path / "r", "--format", "json")
    assert json.loads((tmp_path / "r").read_text())["title"] == "Draft lengths: what these traces say"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "r", "r.md", "report.html"]


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    model = HAND / "model.json"
    assert "give --output FILE, such as report.html" in refused("report", HAND, "-m", model)
    assert "would replace the input" in refused("report", HAND / "trace.parquet", "-m", model, "-o", model)
    assert "the page is a file; give --output FILE" in refused("report", HAND, "-m", model, "-o", "-")
    other = refused("report", HAND, "-m", model, "-o", tmp_path / "r.pdf")
    assert "a report is not written as '.pdf'; name the file .html, .md or .json, or give --format" in other
    out = tmp_path / "r.html"
    assert "no such file or folder" in refused("report", tmp_path / "none", "-m", model, "-o", out)
    assert "only K = 0 may be chosen" in refused("report", HAND, "-m", model, "-o", out, "--k-max", "0")
    rounds = refused("report", HAND, "-m", model, "-o", out, "--rounds", HAND / "trace.parquet")
    assert "trace.parquet" in rounds
    assert list(tmp_path.iterdir()) == []
