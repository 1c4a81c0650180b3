"""The report in a real browser: nothing runs, nothing is asked for, it fits narrow and wide, keys open everything."""

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from report_traces import hostile_stated, hostile_traces, many_traces, material, recorded

from oracle.pages import compose
from oracle.pages.html import html_text

pytestmark = pytest.mark.browser
SECONDS = 10.0
TITLE = 'Draft lengths <b>&"'
TAB = 9
_FOLDER = tempfile.TemporaryDirectory()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@functools.cache
def report(kind: str) -> Path:
    """A report on recorded, hostile or many traces."""
    folder = Path(_FOLDER.name)
    if kind == "recorded":
        found = recorded()
    elif kind == "hostile":
        found = material(hostile_traces(folder / "hostile.parquet"), stated=hostile_stated(folder))
    else:
        found = material(many_traces(folder / "many.parquet", 100_000))
    path = folder / f"{kind}.html"
    path.write_text(html_text(compose(found, TITLE)), "utf-8")
    return path


KINDS = ("recorded", "hostile")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_and_nothing_is_asked_for(browser: Browser, kind: str, scheme: str) -> None:
    browser.open(report(kind), scheme=scheme)
    assert browser.ask("document.title") == TITLE
    assert browser.ask("document.querySelectorAll('script, iframe, object, embed, img, form, base').length") == 0
    wired = (
        "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
    )
    assert browser.ask(wired) == 0
    assert browser.ask("document.styleSheets.length") == 1
    for event in (
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
        "Page.javascriptDialogOpening",
    ):
        assert browser.said(event) == []
    asked = [request["request"]["url"] for request in browser.said("Network.requestWillBeSent")]
    # a map of cells is a picture inside the page: its data are in the address, so nobody is asked for them
    assert [url for url in asked if not url.startswith("data:image/png;base64,")] == [report(kind).resolve().as_uri()]


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_width_needs_sideways_scrolling(browser: Browser, kind: str, width: int, height: int) -> None:
    browser.open(report(kind), width=width, height=height)
    browser.ask("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert browser.ask("document.documentElement.scrollWidth") == width
    assert browser.ask("innerWidth") == width
    outside = "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && !e.closest('.hidden')"
    outside += " && e.getBoundingClientRect().right > innerWidth + 1).length"
    assert browser.ask(outside) == 0


def test_panels_are_seen(browser: Browser) -> None:
    browser.open(report("recorded"))
    assert browser.ask("document.querySelectorAll('article.panel').length") == 16
    small = "[...document.querySelectorAll('.panel .token')].filter(e => e.getBoundingClientRect().width < 20).length"
    assert browser.ask(small) == 0
    rows = "new Set([...document.querySelectorAll('.panel ol')].map(ol => ol.querySelectorAll('.line.cut').length))"
    assert browser.ask(f"[...{rows}]") == [1]


@pytest.mark.parametrize(("width", "shown", "other"), [(420, "narrow", "wide"), (1200, "wide", "narrow")])
def test_one_drawing_of_each_figure_is_seen_and_its_texts_can_be_read(
    browser: Browser, width: int, shown: str, other: str
) -> None:
    browser.open(report("recorded"), width=width)
    count = browser.ask(f"document.querySelectorAll('figure.drawing .sheet.{shown} svg').length")
    assert count >= 21
    boxes = "[...document.querySelectorAll('.sheet.{} svg')].map(e => e.getBoundingClientRect())"
    assert browser.ask(f"{boxes.format(shown)}.filter(r => r.height < 80 || r.width < 200).length") == 0
    assert browser.ask(f"{boxes.format(other)}.filter(r => r.width > 0).length") == 0
    # 6.6 pixels high: 7 points, the least that figures use, in a drawing that is hardly scaled
    texts = f"[...document.querySelectorAll('.sheet.{shown} text')].map(e => e.getBoundingClientRect())"
    small = f"{texts}.filter(r => r.width > 0 && Math.max(r.height, r.width) < 4).length"
    assert browser.ask(small) == 0
    if width == 420:
        cut = "[...document.querySelectorAll('.drawing .scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert browser.ask(cut) == 0
        outside = "[...document.querySelectorAll('.sheet.narrow svg')].filter(s => [...s.querySelectorAll('text')]"
        outside += ".some("
        outside += "t => { const a = t.getBoundingClientRect(), b = s.getBoundingClientRect(); "
        outside += "return a.left < b.left - 3 || a.right > b.right + 3 })).map(s => s.getAttribute('aria-label'))"
        assert browser.ask(outside) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser: Browser, scheme: str) -> None:
    """AA: 4.5 to 1 for every text of the page itself; figures are drawn on white paper."""
    browser.open(report("recorded"), scheme=scheme)
    faint = """(() => {
      const rgb = c => c.match(/[\\d.]+/g).map(Number);
      const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b };
      const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
        if (c.length < 4 || c[3] > 0) return c } return [255, 255, 255] };
      const found = new Set();
      for (const e of document.querySelectorAll('body *')) {
        if (e.closest('svg') || e.closest('.hidden') || e.closest('.skip')) continue;
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.add(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 20));
      }
      return [...found];
    })()"""
    assert browser.ask(faint) == []


def test_every_fold_is_reached_and_opened_by_keys(browser: Browser) -> None:
    browser.open(report("recorded"))
    count = browser.ask("document.querySelectorAll('details').length")
    assert count > 30
    opened = 0
    for _ in range(2000):
        browser.press("Tab", TAB)
        if browser.ask("document.activeElement.tagName") == "SUMMARY" and not browser.ask(
            "document.activeElement.parentElement.open"
        ):
            browser.press("Enter", 13)
            assert browser.ask("document.activeElement.parentElement.open")
            opened += 1
        if opened == count:
            break
    assert opened == count


def test_the_first_key_offers_to_skip_the_navigation(browser: Browser) -> None:
    browser.open(report("recorded"))
    browser.press("Tab", TAB)
    assert browser.ask("document.activeElement.textContent") == "Skip to the content"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter", 13)
    assert browser.ask("document.activeElement.id") == "content"


def test_a_printed_page_is_black_on_white_and_cuts_no_table(browser: Browser) -> None:
    browser.open(report("recorded"), width=688, media="print", scheme="dark")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert browser.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    cut = "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > 690)"
    assert browser.ask(f"{cut}.map(t => t.caption.textContent)") == []


def test_a_report_over_100_000_decisions_opens_in_seconds(browser: Browser) -> None:
    path = report("many")
    start = time.monotonic()
    browser.open(path)
    assert browser.ask("document.querySelectorAll('section').length") > 10
    assert time.monotonic() - start < SECONDS
