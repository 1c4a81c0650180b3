"""The report at the widths of a laptop, a tablet and a telephone: tables use the screen, what scrolls says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from report_traces import recorded

from oracle.pages import compose
from oracle.pages.html import html_text

pytestmark = pytest.mark.browser
SCROLLS = "[...document.querySelectorAll('figure')].filter(f => f.querySelector('.scroll'))"
CUT = "f.querySelector('.scroll').scrollWidth > f.querySelector('.scroll').clientWidth + 1"
HINT = "f.querySelector('.more').getBoundingClientRect().height > 0"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("report") / "report.html"
    written.write_text(html_text(compose(recorded(), "Draft lengths")), "utf-8")
    return written


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def opened(browser: Browser, path: Path, width: int) -> None:
    browser.open(path, width=width, height=1000)
    browser.ask("document.querySelectorAll('details').forEach(d => { d.open = true })")


def test_no_table_is_cut_on_a_laptop(browser: Browser, path: Path) -> None:
    opened(browser, path, 1300)
    assert browser.ask(f"{SCROLLS}.filter(f => {CUT}).map(f => f.querySelector('.scroll').ariaLabel)") == []
    assert browser.ask("Math.max(...[...document.querySelectorAll('section > p')].map(p => p.clientWidth))") < 900


def test_figures_stand_side_by_side_where_there_is_room(browser: Browser, path: Path) -> None:
    tops = "[...document.querySelectorAll('#policies .drawing')].slice(0, 2).map(f => f.getBoundingClientRect().top)"
    opened(browser, path, 1300)
    first, second = browser.ask(tops)
    assert first == second
    opened(browser, path, 900)
    first, second = browser.ask(tops)
    assert first < second


@pytest.mark.parametrize("width", [420, 900, 1300])
def test_a_hint_stands_exactly_where_something_is_cut(browser: Browser, path: Path, width: int) -> None:
    opened(browser, path, width)
    browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    wrong = f"{SCROLLS}.filter(f => f.querySelector('.more') && ({CUT}) !== ({HINT}))"
    visible = f"{wrong}.filter(f => getComputedStyle(f.querySelector('.more')).visibility === 'visible')"
    assert browser.ask(f"{visible}.map(f => f.querySelector('.scroll').ariaLabel)") == []
    cut = browser.ask(f"{SCROLLS}.filter(f => {CUT}).length")
    assert (cut > 0) == (width < 1300)


def test_the_hint_goes_at_the_end(browser: Browser, path: Path) -> None:
    opened(browser, path, 900)
    state = f"(() => {{ const f = {SCROLLS}.find(f => {CUT}); const s = f.querySelector('.scroll'); s.scrollLeft = %s; "
    state += "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
    state += "done(getComputedStyle(f.querySelector('.more')).visibility)))) })()"
    assert browser.ask(state % "0") == "visible"
    assert browser.ask(state % "s.scrollWidth") == "hidden"


def test_on_a_telephone_the_tables_that_decide_are_stacked(browser: Browser, path: Path) -> None:
    opened(browser, path, 420)
    tables = "[...document.querySelectorAll('.stacked')]"
    titles = browser.ask(f"{tables}.map(t => t.caption.textContent)")
    assert any(title.startswith("Which policy to deploy") for title in titles)
    assert any(title.startswith("Findings of the source") for title in titles)
    assert (
        browser.ask(f"{tables}.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth + 1).length") == 0
    )
    heads = "getComputedStyle(document.querySelector('.stacked tbody td'), '::before').content"
    assert browser.ask(heads).endswith(': "')
    assert browser.ask(f"{tables}.every(t => t.getAttribute('role') === 'table')")


@pytest.mark.parametrize("width", [420, 1300])
def test_no_line_ends_within_code(browser: Browser, path: Path, width: int) -> None:
    opened(browser, path, width)
    codes = "[...document.querySelectorAll('main code')].filter(c => c.getClientRects().length)"
    assert browser.ask(f"{codes}.length") > 5
    assert browser.ask(f"{codes}.filter(c => c.getClientRects().length > 1).map(c => c.textContent)") == []
    assert browser.ask(f"{codes}.filter(c => getComputedStyle(c).whiteSpace !== 'nowrap').length") == 0
