"""The data behind the figures of serving levers and the memory pool are what is drawn: the canvas itself is read."""

import importlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_traces import CASES, STATED, recorded
from test_report_stated import DAY, INTERVALS

from oracle.cli.report_stated import Stated, stated_material
from oracle.figures.levers_maps import decision_cells
from oracle.figures.pool import PARTS
from oracle.levers.procedure import configurations
from oracle.pages import Figure, Levers, compose
from oracle.summaries.levers_admission import configured

LINES = {
    "levers-repetitiveness": ("levers", "concurrency", "r"),
    "levers-prefix-share": ("levers", "batch", "rho"),
    "levers-precision": ("levers", "concurrency", "ratio"),
    "levers-matches": ("levers", "acceptance", "tokens"),
}
DOTTED = ":"
TENANTS = """tenant,tokens,concurrency,prefix_share,repetitiveness,prompt_tokens,output_tokens,context_tokens
agent,100,24,.85,.92,12000,300,16384
chat,400,64,.05,.05,600,400,1000
"""


def drawn(monkeypatch: pytest.MonkeyPatch, module: str, name: str, stated: Stated = STATED) -> tuple[Figure, Any]:
    """A figure of the report with what files state, and the canvas it is drawn on."""
    material = recorded() if stated is STATED else replace(recorded(), **stated_material(stated))
    (figure,) = [one for one in compose(material, "T").figures if one.name == name]
    kept: list[Any] = []

    def keep(canvas: Any, path: Path) -> Path:
        kept.append(canvas)
        return path

    monkeypatch.setattr(importlib.import_module(f"oracle.figures.{module}"), "save", keep)
    figure.draw(Path("none.svg"))
    return figure, kept[0]


def points(rows: list[Any], x: str, y: str) -> np.ndarray[Any, Any]:
    """Two columns of rows, nan where there is no value."""
    return np.array([[np.nan if row[key] is None else row[key] for key in (x, y)] for row in rows], dtype=np.float64)


def with_intervals(folder: Path) -> Stated:
    path = folder / "t.toml"
    path.write_text(INTERVALS, "utf-8")
    return Stated(STATED.deployment, str(path), str(CASES / "levers" / "measured.csv"))


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("wide", [False, True])
def test_lines_knees_and_observed_values(
    name: str, wide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x, y = LINES[name]
    figure, canvas = drawn(monkeypatch, module, name, with_intervals(tmp_path) if wide else STATED)
    (ax,) = canvas.axes
    lines = [row for row in figure.data.rows if row["mark"] == "line"]
    series = list(dict.fromkeys(row["series"] for row in lines))
    by_label = {line.get_label(): line for line in ax.lines}
    assert set(series) <= set(by_label)
    for one in series:
        seen = np.column_stack(by_label[one].get_data())
        np.testing.assert_array_equal(seen, points([row for row in lines if row["series"] == one], x, y))
    knees = sorted(row[x] for row in figure.data.rows if row["mark"] == "KV cache full")
    dotted = [line.get_xdata() for line in ax.lines if line.get_linestyle() == DOTTED]
    assert sorted(x[0] for x in dotted if len(x) == 2) == [knee for knee in knees if knee <= ax.get_xlim()[1]]
    here = [row for row in figure.data.rows if row["series"] == "here"]
    marks = [line for line in ax.lines if line.get_marker() == "D"]
    assert [[line.get_xdata()[0], line.get_ydata()[0]] for line in marks] == points(here, x, y).tolist()
    bars = [bar for container in ax.containers for each in container.lines[2] for bar in each.get_segments()]
    ends = [[row[f"{y}_low"], row[f"{y}_high"]] for row in here if row[f"{y}_low"] is not None]
    assert [[float(end) for end in bar[:, 1]] for bar in bars] == [pytest.approx(end) for end in ends]
    assert bool(ends) == (wide and name in ("levers-repetitiveness", "levers-prefix-share"))


def test_bands_of_eta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "levers", "levers-repetitiveness", with_intervals(tmp_path))
    rows = [row for row in figure.data.rows if row["mark"] == "line" and row["r_low"] is not None]
    bands = list(dict.fromkeys(row["series"] for row in rows))
    assert len(canvas.axes[0].collections) == len(bands) + 1  # and the bar of the observed r
    for band, one in zip(canvas.axes[0].collections[: len(bands)], bands, strict=True):
        corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices.tolist()}
        own = [row for row in rows if row["series"] == one]
        for end in ("r_low", "r_high"):
            assert {(row["concurrency"], round(row[end], 9)) for row in own} <= corners


def test_the_decision_map_is_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "levers_maps", "levers-decisions")
    levers = recorded().levers
    assert isinstance(levers, Levers)
    deployment = levers.shown.deployment
    names = [configured(deployment, each) for each in configurations(deployment)]
    mesh = canvas.axes[0].collections[0]
    cells = np.asarray(mesh.get_array()).reshape(101, -1)
    caps = decision_cells(levers.shown).capped
    assert caps is not None
    assert caps.any()
    by_r: dict[float, list[Any]] = {}
    for row in figure.data.rows:
        by_r.setdefault(row["repetitiveness"], []).append(row)
    assert np.allclose(list(by_r), np.linspace(0, 1, 101))
    for line, hatched, runs in zip(cells, caps, by_r.values(), strict=True):
        seen = list(zip(line.astype(int).tolist(), hatched.tolist(), strict=True))
        changed = [each for each, before in zip(seen, [None, *seen[:-1]], strict=True) if each != before]
        assert [(run["configuration"], run["capped"]) for run in runs] == [(names[v], cap) for v, cap in changed]
        edges = [(run["concurrency_low"], run["concurrency_high"]) for run in runs]
        assert edges[0][0] == 1
        assert all(low <= high < following for (low, high), (following, _) in pairwise(edges))


def test_the_map_of_regret_is_its_dearer_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "levers_maps", "levers-regret")
    shown = np.asarray(canvas.axes[0].collections[0].get_array()).ravel()
    assert sorted(shown[shown > 1e-7]) == pytest.approx(sorted(100 * row["regret"] for row in figure.data.rows))
    assert 0 < len(figure.data.rows) < shown.size
    assert f"{len(figure.data.rows):,} of {shown.size:,} cells" in figure.data.notes[0]


def test_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "levers_schedule", "levers-schedule", DAY)
    upper, lower = canvas.axes
    rows = figure.data.rows
    stairs = [patch.get_data().values.tolist() for patch in upper.patches]
    keys = ("concurrency", "speculation_critical", "cache_critical", "cap")
    for values, key in zip(stairs, keys, strict=True):
        assert values == pytest.approx([np.nan if row[key] is None else row[key] for row in rows], nan_ok=True), key
    own = [lower.collections[0], lower.collections[2], lower.collections[4]]  # behind each, what intervals leave open
    bars = [{round(path.vertices[:, 0].min()) for path in bar.get_paths()} for bar in own]
    assert bars == [{t for t, row in enumerate(rows) if row[key]} for key in ("cache_on", "speculation_on", "cap")]
    assert len(rows) == 24


def test_the_legend_of_the_schedule_names_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _, canvas = drawn(monkeypatch, "levers_schedule", "levers-schedule", DAY)
    named = {text.get_text().replace("\n", " ") for text in canvas.legends[0].get_texts()}
    assert named == {
        "requests in flight", "speculation: pays below ± 10 %", "speculation switched off", "speculation switched on",
        "prefix cache: pays below ± 10 %", "prefix cache switched off", "prefix cache switched on",
        "cap that would pay (not in the schedule)", "left open by intervals or the count of experts",
    }  # fmt: skip
    assert "model output for what was stated, not a measurement" in canvas.axes[0].get_title(loc="left")


def test_the_cost_of_a_shared_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text(TENANTS, "utf-8")
    figure, canvas = drawn(
        monkeypatch, "levers_shared", "levers-shared", Stated(STATED.deployment, str(tmp_path / "t.csv"))
    )
    by_label = {line.get_label(): line for line in canvas.axes[0].lines}
    for name in ("FP16", "FP8", "NVFP4"):
        own = [row for row in figure.data.rows if row["series"] == name and row["mark"] == "line"]
        np.testing.assert_array_equal(
            np.column_stack(by_label[name].get_data()), points(own, "requests", "ms_per_token")
        )
    (here,) = [row for row in figure.data.rows if row["series"] == "here"]
    (mark,) = [line for line in canvas.axes[0].lines if line.get_marker() == "D"]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (here["requests"], here["ms_per_token"])


def test_memory_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "pool", "pool-memory")
    ax = canvas.axes[0]
    for container in ax.containers:
        assert container.get_label() in {what for _, what, *_ in PARTS}
        sizes = [row["gib"] for row in figure.data.rows if row["part"] == container.get_label()]
        assert [bar.get_width() for bar in container] == pytest.approx(sizes)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(
        dict.fromkeys(row["bar"] for row in figure.data.rows)
    )


def test_sizes_of_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "pool", "pool-draft-size")
    rows = figure.data.rows
    for ax, key in zip(canvas.axes, ("tenants", "gain"), strict=True):
        marks = [line for line in ax.lines if line.get_marker() != "None"]
        stated = points([row for row in rows if row["mark"] == "as stated"], "gib", key)
        np.testing.assert_allclose([[m.get_xdata()[0], m.get_ydata()[0]] for m in marks], stated)
        lines = [line for line in ax.lines if len(line.get_xdata()) > 2]
        drafts = list(dict.fromkeys(row["speedup"] for row in rows if row["mark"] == "line"))
        assert len(lines) == len(drafts) == 2  # lookup has no weights, hence no other size
        for line, name in zip(lines, drafts, strict=True):
            own = [row for row in rows if row["mark"] == "line" and row["speedup"] == name]
            np.testing.assert_allclose(np.column_stack(line.get_data()), points(own, "gib", key))


def test_early_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "pool", "pool-early-exit")
    for line in [line for line in canvas.axes[0].lines if not line.get_label().startswith("_")]:
        own = [row for row in figure.data.rows if row["series"] == line.get_label()]
        np.testing.assert_allclose(
            np.column_stack(line.get_data()), points(own, "batch", "saved") * [1, 100], rtol=1e-12
        )
    assert len({row["series"] for row in figure.data.rows}) == 4


def test_a_precision_that_does_not_fit_is_no_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.toml"
    path.write_text(Path(str(STATED.deployment)).read_text("utf-8").replace("1536e9", "400e9"), "utf-8")
    small = Stated(str(path), STATED.traffic)
    figure, canvas = drawn(monkeypatch, "levers", "levers-precision", small)
    assert canvas.axes[0].get_ylabel() == "decode cost over FP8's"
    assert {row["series"] for row in figure.data.rows} == {"FP8", "NVFP4"}
    assert {row["ratio"] for row in figure.data.rows if row["series"] == "FP8"} == {1.0, None}
