"""The dashboard as a person meets it: a real rank server, outcomes over gRPC, a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from drift.comparison import Comparison, Gap, Rivals, Verdict
from drift.entry import Entry
from drift.history import History
from drift.retraining import Attempt, Phase
from drift.shadow import Beside, Shadow
from serving.http_server import HttpServer
from serving.rank_http import rank_app
from tests.drift.conftest import sketched
from tests.serving.dashboard.chromium import BINARY, Chromium, Page, chromium
from tests.serving.dashboard.parts import SECRET, Running, serving, traffic

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(BINARY is None, reason="no Chromium here: apt-get install chromium"),
]

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>\u202e'
#: Elements that are wider than the page; what scrolls by itself may be.
STICKS_OUT = """
[...document.querySelectorAll('main *')]
  .filter((e) => !e.closest('.scroll, svg, details, .visually-hidden'))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 80))"""

#: Texts of charts that their edges cut.
CUT_OFF = """
[...document.querySelectorAll('.plot')].flatMap((plot) => {
  const box = plot.getBoundingClientRect();
  return [...plot.querySelectorAll('text')].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.right > box.right + 1 || own.left < box.left - 1 || own.bottom > box.bottom + 1;
  }).map((text) => text.textContent);
})"""

#: Opens the table of each chart; titles and summaries.
TOLD = """
[...document.querySelectorAll('.chart')].map((chart) => {
  chart.querySelector('details').open = true;
  return ['h2', '.visually-hidden'].map((what) => chart.querySelector(what).textContent);
})"""

LIVE = "document.querySelector('#connection').textContent === 'Live'"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    async with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A server that has seen good traffic, and a page's worth of everything."""
    async with serving(tmp_path_factory.mktemp("fed")) as running:
        good = traffic(700, 0.6, 1)
        await running.report([*good, *traffic(300, 0.55, 2, start=700)])
        promoted = Entry(good[400].arrival, "promotion", "ci", "chat", "1", "2", gate="tau-b +.04")
        history = History(running.history)
        history.add([promoted], good[400].arrival)
        history.close()
        yield running


async def test_a_promotion_is_marked_and_listed(browser: Chromium, fed: Running) -> None:
    page = await opened(browser, fed.page)
    await page.until("document.querySelectorAll('.mark.promotion').length === 3")
    assert "promotion" in await page.run("document.querySelector('.legend').innerText")
    row = await page.run("document.querySelector('[aria-label=\"What happened\"] tbody').innerText")
    assert "Promotion" in row
    assert "tau-b +.04" in row


async def opened(browser: Chromium, where: str, width: int = 1600, dark: bool = False) -> Page:
    page = await browser.page()
    await page.look(width, dark=dark)
    await page.open(where)
    return page


async def test_an_empty_page_fills_by_itself_and_says_what_the_state_means(
    browser: Chromium, tmp_path: Path
) -> None:
    async with serving(tmp_path) as running:
        page = await opened(browser, running.page)
        await page.until(LIVE)
        text = await page.run("document.body.innerText")
        assert "No outcomes have been reported yet." in text
        assert "ReportOutcomes" in text
        assert "alert" not in await page.run("document.title")
        await running.rank()
        await running.report(traffic(400, 0.6, 3, tenant="acme"))
        await page.until("document.querySelectorAll('.chart svg').length === 5")
        title = await page.run("document.querySelector('.headline-state').textContent")
        assert title == "OK"
        await running.report(traffic(500, 0.0, 4, start=400, tenant="acme"))
        running.sink.flush()
        await page.until("document.querySelector('.headline-state').textContent === 'Back to FCFS'")
        words = await page.run("document.querySelector('.headline').innerText")
        assert "chat: Forecasts order requests no better than arrival does" in words
        assert "What to do: schedule by fcfs" in words
        assert (await page.run("document.title")).startswith("Back to FCFS")
        assert (
            await page.run("document.querySelector('.headline').getAttribute('aria-live')")
            == "polite"
        )
        await page.until("document.querySelectorAll('.mark').length > 0")
        await page.until("document.body.innerText.includes('Degraded')")
        for held in (
            "document.documentElement.outerHTML",
            "fetch('board.json').then((r) => r.text())",
        ):
            assert SECRET not in await page.run(held)
        assert page.problems == []
        origin = running.page.removesuffix("/drift/")
        assert all(url.startswith(origin) for url in page.requested if url != "about:blank")


async def test_what_others_named_is_text_and_nothing_else(
    browser: Chromium, tmp_path: Path
) -> None:
    async with serving(tmp_path) as running:
        named = [
            replace(o, served_model=HOSTILE, tenant=HOSTILE if i % 2 else "acme")
            for i, o in enumerate(traffic(500, 0.6, 5))
        ]
        await running.report(named, reporter=HOSTILE)
        page = await opened(browser, running.page)
        await page.until("document.querySelectorAll('.chart svg').length === 5")
        await page.until("document.querySelectorAll('.sticky tbody tr').length >= 2")
        assert await page.run("document.querySelectorAll('main img, main script').length") == 0
        shown = await page.run("document.querySelector('.headline .given').textContent")
        assert shown == HOSTILE.replace("\u202e", "\\u202e")
        assert page.problems == []


async def test_who_is_tried_and_what_retraining_does_is_told(
    browser: Chromium, tmp_path: Path
) -> None:
    rivals = Rivals("chat", HOSTILE, "1", "2")
    gap = Gap("all", 812, 0.2004, 0.3111, 0.1107, 0.051, 0.1703)
    beside = Beside(Shadow(rivals), 7, Comparison(rivals, Verdict.BETTER, gap), 5.0)
    attempt = Attempt(
        "chat", "ranker", "champion", "1", Phase.TRAINED, 5.0, 6.0, reasons=(HOSTILE,)
    )
    async with serving(tmp_path, shadows=[beside.row()], retraining=[attempt.as_dict()]) as running:
        await running.report(traffic(300, 0.6, 3))
        page = await opened(browser, running.page, 400)
        await page.until("document.querySelector('[aria-label=\"Challengers\"] tbody tr') !== null")
        text = await page.run(
            "document.querySelector('[aria-labelledby=\"ranker-versions\"]').innerText"
        )
        for said in ("orders better", "0.311", "0.200", "0.111 (0.051 to 0.170)", "812", "trained"):
            assert said in text
        assert await page.run("document.querySelectorAll('main img, main script').length") == 0
        assert await page.run(STICKS_OUT) == []
        assert page.problems == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1600])
async def test_nothing_sticks_out_and_themes_differ(
    browser: Chromium, fed: Running, width: int, dark: bool
) -> None:
    page = await opened(browser, fed.page, width, dark)
    await page.until("document.querySelectorAll('.chart svg .axes').length === 5")
    assert await page.run("document.documentElement.scrollWidth") == width
    assert await page.run(STICKS_OUT) == []
    assert await page.run(CUT_OFF) == []
    light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128"
    assert await page.run(light) is not dark
    button = "document.querySelector('#theme')"
    await page.run(f"{button}.click()")  # auto, light, dark
    assert await page.run(light) is True
    await page.run(f"{button}.click()")
    assert await page.run(light) is False
    await page.run(f"{button}.click()")
    assert await page.run(f"{button}.textContent") == "Theme: auto"
    assert await page.run(light) is not dark
    assert page.problems == []


async def test_keys_reach_everything(browser: Chromium, fed: Running) -> None:
    page = await opened(browser, fed.page)
    await page.until("document.querySelectorAll('.chart svg .axes').length === 5")
    await page.press("Tab")
    assert await page.run("document.activeElement.className") == "skip"
    assert await page.run("document.activeElement.getBoundingClientRect().left >= 0")
    await page.press("Enter")
    assert await page.run("document.activeElement.id") == "main"
    seen = await page.run("document.querySelectorAll('.chart .plot').length")
    for i in range(seen):
        await page.run(f"document.querySelectorAll('.chart .plot')[{i}].focus()")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        await page.press("End")
        said = "document.activeElement.parentNode.querySelector('[aria-live]').textContent"
        last = await page.run(said)
        assert last
        assert await page.run(style) == "solid"
        await page.press("ArrowLeft")
        before = await page.run(said)
        assert before
        assert before != last or i == 0  # one replay is one point
        await page.press("Escape")
        assert await page.run(said) == ""
    charts = await page.run(TOLD)
    assert len({title for title, _ in charts}) == 5
    assert all(len(summary) > 60 for _, summary in charts)
    await page.until("document.querySelectorAll('.chart details tbody').length === 5")
    rows = "[...document.querySelectorAll('.chart details tbody')].map((body) => body.rows.length)"
    assert min(await page.run(rows)) >= 1


async def test_the_page_is_read_out_in_order(browser: Chromium, fed: Running) -> None:
    page = await opened(browser, fed.page)
    await page.until("document.querySelectorAll('.chart svg .axes').length === 5")
    tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    roles = [n["role"]["value"] for n in tree if not n["ignored"]]
    for role in ("banner", "main", "contentinfo", "heading", "table", "searchbox", "combobox"):
        assert role in roles, role
    for node in tree:
        if not node["ignored"] and node["role"]["value"] in (
            "button",
            "link",
            "searchbox",
            "combobox",
        ):
            assert node["name"]["value"].strip(), node
    levels = await page.run("[...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)")
    assert levels[0] == "H1"
    assert levels.count("H1") == 1
    ids = await page.run("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


async def test_a_lost_server_is_said_and_found_again(browser: Chromium, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with serving(first) as running:
        await running.report(traffic(300, 0.6, 6))
        page = await opened(browser, running.page)
        await page.until("document.querySelectorAll('.chart svg').length === 5")
        await page.until(LIVE)
        port = int(running.page.split(":")[2].partition("/")[0])
    await page.until("document.querySelector('#connection').textContent.startsWith('Stale since ')")
    assert await page.run("document.body.classList.contains('stale')")
    assert (
        await page.run("document.querySelectorAll('.chart svg').length") == 5
    )  # what was known stays
    async with serving(second, port=port):
        await page.until(LIVE, 60)
        assert not await page.run("document.body.classList.contains('stale')")
        await page.until("document.body.innerText.includes('No outcomes have been reported yet.')")


async def test_trouble_and_no_connection_have_a_page_of_their_own(browser: Chromium) -> None:
    from prometheus_client import CollectorRegistry

    from serving.dashboard.routes import Dashboard

    asked = [0.0]

    def read() -> dict[str, object]:
        raise OSError(5, "Input/output error")

    def clock() -> float:
        asked[0] += 10.0
        return asked[0]

    dashboard = Dashboard(read, clock)
    server = HttpServer(rank_app(CollectorRegistry(), dashboard), "127.0.0.1", 0)
    address = await server.start()
    page = await opened(browser, f"http://{address}/drift/", 400)
    await page.until("document.querySelector('.failed')?.isConnected")
    said = await page.run("document.querySelector('.failed').innerText")
    assert "The server could not put the board together" in said
    assert await page.run("document.querySelector('.failed').getAttribute('role')") == "alert"
    dashboard.feed.close()
    await server.stop()
    await page.until("document.querySelector('.failed').innerText.includes('No connection')")
    assert await page.run("document.documentElement.scrollWidth") == 400


async def test_thousands_of_slices_stay_usable(browser: Chromium, fed: Running) -> None:
    board = json.loads(json.dumps(fed.sink.board().as_dict()))
    (row, *_) = board["models"][0]["slices"]
    page = await opened(browser, fed.page)
    await page.until(LIVE)
    await page.run(f"""import('./assets/slices.js').then(({{ Slices }}) => {{
      const row = {json.dumps(row)};
      const rows = Array.from({{ length: 3000 }}, (_, i) => ({{ ...row, label: `tenant t${{i}}`,
        harm: (i * 7919) % 3000, state: i % 5 ? 'ok' : 'degraded',
        usual_efficiency: i % 3 ? i / 3000 : null }}));
      window.slices = new Slices();
      document.body.append(window.slices.root);
      window.slices.show(rows); }})""")
    shown = "[...slices.body.rows].map((r) => [...r.cells].map((c) => c.textContent))"
    rows = await page.run(shown)
    assert len(rows) == 50
    harms = [float(r[2]) for r in rows]
    assert harms == sorted(harms, reverse=True)
    assert harms[0] == 2999.0
    await page.run("slices.more.click()")
    assert len(await page.run(shown)) == 100
    await page.run("slices.heads[5].firstChild.click()")  # what is not known comes last
    usual = [r[5] for r in await page.run(shown)]
    assert usual == sorted(usual, reverse=True)
    await page.run("slices.heads[5].firstChild.click()")
    assert (await page.run(shown))[0][5] == "0.00"
    assert await page.run("slices.heads[5].getAttribute('aria-sort')") == "ascending"
    await page.run("slices.search.value = 'T299'; slices.search.dispatchEvent(new Event('input'))")
    assert {r[0] for r in await page.run(shown)} == {
        "tenant t299",
        *(f"tenant t299{i}" for i in range(10)),
    }
    assert "11 of 3,000 slices match" in await page.run("slices.counted.textContent")
    await page.run(
        "slices.state.value = 'degraded'; slices.state.dispatchEvent(new Event('change'))"
    )
    assert {r[0] for r in await page.run(shown)} == {"tenant t2990", "tenant t2995"}
    assert await page.run("slices.more.hidden")


async def test_the_line_goes_on_across_versions_with_a_mark_at_each_change(
    browser: Chromium, tmp_path: Path
) -> None:
    async with serving(tmp_path) as running:
        rows = traffic(400, 0.6, 21, tenant="acme")
        rows += traffic(300, 0.1, 22, start=400, tenant="acme")
        newer = traffic(400, 0.6, 23, start=700, tenant="acme")
        rows += [
            replace(o, forecast=replace(o.forecast, version="2"))
            for o in newer
            if o.forecast is not None
        ]
        await running.report(rows)
        page = await opened(browser, running.page)
        chart = "document.querySelectorAll('.chart')[1]"
        await page.until(f"{chart}?.querySelectorAll('svg .mark.version').length === 1")
        assert "another version" in await page.run(f"{chart}.querySelector('.legend').innerText")
        path = await page.run(f"{chart}.querySelector('svg .curve').getAttribute('d')")
        assert path.count("M") == 2  # broken where the version changes
        await page.run(TOLD)
        heads = await page.run(f"{chart}.querySelector('thead').innerText")
        assert "Version" in heads
        body = await page.run(f"{chart}.querySelector('tbody').innerText")
        assert "ranker 1" in body
        assert "ranker 2" in body
        level = await page.run(f"{chart}.querySelector('svg .level').getAttribute('x1')")
        change = await page.run(
            f"{chart}.querySelector('svg .mark.version line').getAttribute('x1')"
        )
        assert level == change  # the reference of the version in use begins with it
        for width, dark in ((400, False), (1600, False), (400, True), (1600, True)):
            await page.look(width, dark=dark)
            assert await page.run(STICKS_OUT) == []
            assert await page.run(CUT_OFF) == []
            await page.shoot(tmp_path / f"{width}-{dark}.png")


async def test_a_shift_of_meaning_is_told_where_a_ranker_has_an_embedding(
    browser: Chromium, fed: Running, tmp_path: Path
) -> None:
    table = "document.querySelector('section[aria-labelledby=shifts-of-traffic]')?.innerText"
    page = await opened(browser, fed.page)
    await page.until(f"{table}?.includes('novelty of prompts')")
    assert "eaning" not in await page.run(table)
    async with serving(tmp_path) as running:
        rows = traffic(500, 0.6, 1)
        await running.report(sketched(rows[:200], 1) + sketched(rows[200:], 2, shift=2.0))
        page = await opened(browser, running.page)
        await page.until(f"{table}?.includes('meaning of prompts')")
        told = await page.run(table)
        assert "what is asked can change while its length and score do not" in told
        (row,) = [line for line in told.splitlines() if line.startswith("meaning of prompts")]
        assert "large" in row


async def test_what_happened_folds_and_stays_unfolded(browser: Chromium, tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await running.report(traffic(250, 0.6, 31))
        history = History(running.history)
        for i in range(30):
            told = Entry(1000.0 + i, "promotion", "ci", "chat", f"{i}", f"{i + 1}", gate="passed")
            history.add([told], 9.0)
        page = await opened(browser, running.page, width=400)
        rows = "document.querySelectorAll('[aria-label=\"What happened\"] tbody tr').length"
        await page.until(f"{rows} === 8")
        fold = "document.querySelector('section[aria-labelledby=\"what-happened\"] details')"
        assert await page.run(f"{fold}.querySelector('summary').innerText") == "22 earlier"
        assert not await page.run(f"{fold}.open")
        await page.run(f"{fold}.querySelector('summary').click()")
        history.add([Entry(2000.0, "rollback", "ci", "chat", "31", "30")], 9.0)
        history.close()
        await page.until(f"{fold}.querySelector('summary').innerText === '23 earlier'")
        assert await page.run(f"{fold}.open")
        assert await page.run(STICKS_OUT) == []
