"""Pages in a real browser: what they draw, what hostile text does to them, how much of a long log they draw.

Chromium of the system, driven by playwright; without it these tests are skipped.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast as kf
from tests import rows
from tests.unit.page.test_report import HOSTILE, record, write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

if CHROMIUM is None:
    pytest.skip("no chromium on this machine: apt-get install chromium", allow_module_level=True)

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

VISIBLE = "#list tbody tr:not(.space)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Seen:
    """An open page, and what went wrong on it."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str, hash: str) -> None:
        self.errors: list[str] = []
        height = 900 if width > 500 else 844
        self.page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        self.page.on(
            "request", lambda asked: asked.url.startswith("file:") or self.errors.append(f"asks for {asked.url}")
        )
        self.page.goto(path.as_uri() + hash)

    def texts(self, selector: str) -> list[str]:
        return list(self.page.locator(selector).all_text_contents())

    def wait(self, selector: str) -> None:
        self.page.wait_for_selector(selector)


@pytest.fixture
def see(browser: Any) -> Iterator[Callable[..., Seen]]:
    opened: list[Seen] = []

    def look(path: Path, width: int = 1280, scheme: str = "light", hash: str = "") -> Seen:
        opened.append(Seen(browser, path, width, scheme, hash))
        return opened[-1]

    yield look
    for seen in opened:
        seen.page.close()
        assert seen.errors == []


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of forty rows in groups of four."""
    folder = tmp_path_factory.mktemp("log")
    kf.report(write_log(folder / "log.jsonl", map(record, range(40))), folder / "page.html")
    return folder / "page.html"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_its_window(see: Callable[..., Seen], log: Path, width: int, scheme: str) -> None:
    seen = see(log, width, scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 27)"}[scheme]
    drawn = ".wide-drawing" if width > 720 else ".narrow-drawing"
    assert seen.page.locator(f"{drawn}:visible").count() >= 2
    assert seen.page.locator("svg:visible").evaluate_all(
        "all => all.every(one => one.getBoundingClientRect().width > 250)"
    )


def test_rows_are_searched_sorted_and_filtered(see: Callable[..., Seen], log: Path) -> None:
    seen = see(log)
    rewards = [float(text) for text in seen.texts(f"{VISIBLE} td.first")]
    assert rewards == sorted(rewards, reverse=True)
    assert seen.page.locator("th.first").get_attribute("aria-sort") == "descending"
    seen.page.get_by_role("button", name="reward", exact=True).click()
    assert float(seen.texts(f"{VISIBLE} td.first")[0]) == 0.25
    seen.page.locator("#group").select_option(label="g3 (4)")
    assert seen.texts("#count") == ["4 of 40 rows"]
    seen.page.locator("#group").select_option(index=0)
    seen.page.locator("#search").fill("task 7")
    assert seen.texts("#count") == ["4 of 40 rows"]
    # The answers are not in the list: Enter searches them.
    seen.page.locator("#search").fill("word word word 12")
    assert seen.texts("#count") == ["0 of 40 rows"]
    seen.page.locator("#search").press("Enter")
    playwright.expect(seen.page.locator("#count")).to_have_text("1 of 40 rows")
    assert seen.texts(f"{VISIBLE} td.prompt") == ["task 3"]


def test_keys_and_addresses_open_rows(see: Callable[..., Seen], log: Path) -> None:
    seen = see(log)
    seen.page.locator("#list").focus()
    seen.page.keyboard.press("j")
    seen.page.keyboard.press("Enter")
    seen.wait(".view .turn")
    second = seen.texts(f"{VISIBLE} td[data-name=id]")[1]
    assert seen.texts(".view h3") == [second]
    assert seen.page.evaluate("location.hash") == f"#row={second}"
    seen.page.keyboard.press("k")
    assert seen.texts(".view h3") == [seen.texts(f"{VISIBLE} td[data-name=id]")[0]]
    seen.page.keyboard.press("Escape")
    assert seen.page.locator(".view").count() == 0
    linked = see(log, hash="#row=r17")
    linked.wait(".view .turn")
    assert linked.texts(".view h3") == ["r17"]
    answer = record(17)["messages"][1]["content"]
    assert linked.texts(".turn.learned .text") == [answer]


def test_best_and_worst_of_a_group_stand_side_by_side(see: Callable[..., Seen], log: Path) -> None:
    seen = see(log)
    seen.page.locator("#group").select_option(label="g5 (4)")
    seen.page.get_by_role("button", name="Best and worst").click()
    seen.wait(".view:nth-child(2) .turn")
    assert seen.texts(".view h3") == ["r20", "r23"]
    boxes = [seen.page.locator(".view").nth(at).bounding_box() for at in (0, 1)]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_hostile_text_is_shown_and_does_nothing(see: Callable[..., Seen], tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": HOSTILE, "arguments": json.dumps({HOSTILE: HOSTILE})}}
    messages = [
        {"role": "user", "content": HOSTILE},
        {"role": "assistant", "content": HOSTILE, "reasoning_content": HOSTILE, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": HOSTILE, "success": False},
        {"role": "assistant", "content": "javascript:alert(1) <svg onload=alert(1)> \x1b]0;title\x07 \u2067abc\u2069"},
    ]
    evidence = [{"component": HOSTILE, "value": 1, "why": HOSTILE, "message": 1, "commit": HOSTILE, "file": HOSTILE}]
    hostile = [
        record(number, id=HOSTILE + str(number), group=HOSTILE + str(number % 2), domain=HOSTILE + str(number % 3))
        | {"messages": messages, "evidence": evidence, "outcome": {"tests": 1}, HOSTILE: HOSTILE}
        for number in range(12)
    ]
    kf.report(write_log(tmp_path / "log.jsonl", hostile), tmp_path / "page.html", domain="domain")
    seen = see(tmp_path / "page.html")
    seen.page.locator(VISIBLE).first.click()
    seen.wait(".view .turn")
    for summary in seen.page.locator("summary:visible").all():
        summary.click()
    seen.wait(".view .inside")
    assert seen.page.title().startswith("Log: ")
    assert seen.page.evaluate("document.querySelectorAll('script').length") == 3
    assert seen.page.evaluate("document.querySelectorAll('img, #views svg, #views script').length") == 0
    first = seen.texts(".turn .text")[0]
    assert first == HOSTILE.replace("\u202e", "U+202E").replace("\x1b[31m", "\u241b[31m")
    assert "\u202e" not in seen.page.evaluate("document.body.innerText")
    assert seen.page.locator(".turn .unseen").count() >= 10
    assert "\u2717" in seen.texts(".call .sign")


def test_calls_are_folded_and_sub_agents_are_inside(see: Callable[..., Seen], tmp_path: Path) -> None:
    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"id": name, "type": "function", "function": {"name": "Task", "arguments": json.dumps(arguments)}}

    def result(name: str, content: str, success: bool) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": name, "content": content, "success": success}

    parent = record(0, evidence=[{"component": "tests", "value": 1, "why": "3 passed", "message": 3}])
    parent["messages"] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call("a", prompt="look"), call("b", prompt="test")]},
        result("b", "failed badly", False),
        result("a", "looked well", True),
        {"role": "assistant", "content": "done", "weight": 0},
    ]
    child = record(1, parent={"id": "r0", "tool_call_id": "a"})
    kf.report(write_log(tmp_path / "log.jsonl", [parent, child]), tmp_path / "page.html")
    seen = see(tmp_path / "page.html", hash="#row=r0")
    seen.wait(".view .turn")
    assert seen.texts(".view > .turns > .turn > .said > .call > summary") == [
        "\u2713Task look sub-agent",
        "\u2717Task test",
    ]
    assert "looked well" not in seen.page.inner_text(".view")
    seen.page.locator(".call > summary").first.click()
    seen.page.locator(".view").get_by_text("looked well").wait_for()  # folded text is written when it is opened
    assert "failed badly" not in seen.page.inner_text(".view")
    # The evidence is of the result, which stands in the turn of its call.
    assert "3 passed" in seen.page.locator(".turn").nth(1).locator("ul.evidence").inner_text()
    assert seen.page.locator(".turn ul.evidence").bounding_box()["width"] > 150
    assert seen.page.locator(".view > .turns > .turn.learned").count() == 1
    seen.page.locator(".call .call > summary").first.click()
    seen.wait(".child .turn.learned")
    assert record(1)["messages"][1]["content"] in seen.page.inner_text(".child")


def test_a_message_of_ten_megabytes_is_shown_in_parts(see: Callable[..., Seen], tmp_path: Path) -> None:
    long = record(0)
    long["messages"][1]["content"] = "x" * 5_000_000 + "\n" + "word \x1b[1m\u202e" * 600_000
    kf.report(write_log(tmp_path / "log.jsonl", [long, record(1)]), tmp_path / "page.html")
    seen = see(tmp_path / "page.html", hash="#row=r0")
    seen.wait(".turn.learned .more")
    assert seen.page.evaluate("document.querySelector('.turn.learned .text').textContent.length") < 10_000
    seen.page.locator(".turn.learned .more").click()
    assert seen.page.evaluate("document.querySelector('.turn.learned .text').textContent.length") > 60_000


def test_a_list_of_two_thousand_rows_draws_what_is_visible(see: Callable[..., Seen], tmp_path: Path) -> None:
    rows.write(
        tmp_path / "log.jsonl", [rows.record(number, f"g{number % 250}", number / 2000) for number in range(2000)]
    )
    kf.report(tmp_path / "log.jsonl", tmp_path / "page.html")
    seen = see(tmp_path / "page.html")
    assert seen.texts("#count") == ["2,000 of 2,000 rows"]
    assert seen.page.locator(VISIBLE).count() < 80
    seen.page.evaluate("document.getElementById('list').scrollTop = 1e9")
    playwright.expect(seen.page.locator(f"{VISIBLE} td.first").last).to_have_text("0")
    assert seen.page.locator(VISIBLE).count() < 80
    seen.page.locator("#search").fill("question 19")
    assert seen.texts("#count") == ["111 of 2,000 rows"]


def test_the_pointer_shows_the_values_of_all_plots_of_a_row(see: Callable[..., Seen], log: Path) -> None:
    seen = see(log)
    plot = seen.page.locator(".multiples svg:visible").first
    box = plot.bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    values = seen.texts(".multiples text.value")
    assert len(values) == 3
    assert len({value.split(":")[0] for value in values}) == 1


def test_print_unfolds_the_open_row(see: Callable[..., Seen], log: Path) -> None:
    seen = see(log, hash="#row=r17")
    seen.wait(".view .turn")
    seen.page.emulate_media(media="print")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator(VISIBLE).count() == 40
    assert not seen.page.locator("#tools").is_visible()
    assert seen.page.evaluate("[...document.querySelectorAll('details')].every(one => one.open)")
