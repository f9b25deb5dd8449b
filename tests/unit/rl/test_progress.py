"""What a person sees: lines, a table, and nothing that steers a terminal."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from karl_fast.cli.reports.rl import RoundLines, Silent, Table, describe_sample_rollout, draw_curve
from tests.unit.rl.test_parts import asked, metrics, rollout


def said() -> dict[str, Any]:
    return metrics(
        step=2,
        seconds=1.5,
        outcome=0.25,
        tokens=7.0,
        missing={"one: nan": 2},
        **{"reward.one": 0.5, "reward.two\x1b[2J": 0.1},
    )


def test_any_mean_is_a_few_characters(capsys: pytest.CaptureFixture[str]) -> None:
    RoundLines().on_round(said() | {"outcome": -1e100, "reward.one": 1e99, "kl": 1e30}, [], [])
    assert "outcome -1e+100  one 1e+99" in (line := capsys.readouterr().err)
    assert "kl 1e+30" in line


def test_a_round_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    RoundLines().on_round(said(), [], ["one raised\x1b[2J", "one raised\x1b[2J", "two"])
    printed = capsys.readouterr().err.splitlines()
    numbers = ["round     2", "outcome 0.2500", "one 0.500", r"two\x1b[2J 0.100", "mixed 50%", "tokens 7.0"]
    assert printed[0] == "  ".join([*numbers, "entropy 1.000", "kl 0.1000", "missing 2", "1.50 s"])
    assert printed[1:] == [r"missing   one raised\x1b[2J (2 times)", "missing   two"]


@pytest.mark.parametrize(
    ("round", "rewards", "told"),
    [
        (0, [0.0, 0.0, math.nan], "all 2 rewards of this round are 0, "),
        (0, [0.0, 1.0], ""),
        (0, [1.0], ""),
        (0, [math.nan, math.nan], ""),
        (1, [0.0, 0.0], ""),
    ],
)
def test_a_first_round_of_equal_rewards_is_told(
    round: int, rewards: list[float], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = [rollout(asked()[0], n, reward) for n, reward in enumerate(rewards)]
    RoundLines().on_round(said() | {"round": round}, rollouts, [])
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note ")]
    assert [told in note and "rollouts.jsonl" in note for note in notes] == [True] * bool(told)


def test_control_character_takes_one_place() -> None:
    said = "".join(map(chr, [*range(32), *range(127, 160)]))
    one = replace(rollout(asked()[0], 0, 0.5), messages=({"role": "a", "content": said + "\u202e\ud800"},))
    text = describe_sample_rollout(one).removeprefix("p0 [0.5] a: ")
    assert text == "".join(map(chr, range(0x2400, 0x2420))) + "\u2421" + 32 * "·" + r"\u202e\ud800"


def test_a_table_shows_numbers_and_rollouts() -> None:
    from rich.console import Console
    from rich.live import Live

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, legacy_windows=False)
    one = replace(rollout(asked()[0], 0, 0.5), messages=({"role": "assistant", "content": "[bold]a\x1b]0;b\x9b"},))
    with Live(console=console, auto_refresh=False) as live:
        Table(live, 1).on_round(said(), [one, one], [])
        live.refresh()
    text = screen.getvalue()
    assert "entropy" in text
    assert "p0 [0.5] assistant: [bold]a␛]0;b·" in text
    assert "\x1b]0;" not in text
    assert text.count("p0 [0.5]") == text.count("outcome ") >= 1


@pytest.mark.parametrize("width", [80, 140])
def test_table_shows_history_in_full_width(width: int) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=(screen := io.StringIO()), force_terminal=True, width=width, legacy_windows=False)
    with Live(console=console, auto_refresh=False) as live:
        table = Table(live, 0)
        for round in range(300):
            table.on_round(said() | {"round": round, "outcome": round / 300, "kl": 0.5}, [], [])
        live.refresh()
    last = screen.getvalue()[screen.getvalue().rindex("round 300 of") :].splitlines()
    found = next(line for line in last if " outcome " in line)
    assert {len(line) for line in last if "│" in line} == {width}
    assert [f"{number:.4g}" for number in (299 / 300, 0.0, 299 / 300)] == re.findall(r"(?<= )[\d.]+(?= )", found)
    bars = found.split("│")[-2].strip()
    assert list(bars) == sorted(bars)
    assert (bars[0], bars[-1]) == ("▁", "█")
    assert len(bars) > width - 64


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([0.0, 1.0], "▁█"), ([2.0], "▁"), ([1.0, 1.0], "▁▁"), ([0, 0, 4, 4, 8, 8, 4, 4], "▁▅█▅"), ([-1e308, 1e308], "▁▁")],
)
def test_a_curve_is_bars_of_means(values: list[float], wanted: str) -> None:
    assert draw_curve(values, 4) == wanted


@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        ([], "terminated in round 8; nothing saved yet"),
        (["0000003", "0000006"], "terminated in round 8; --resume goes on from round 7"),
    ],
)
def test_stopped_run_reports_its_position(saved: list[str], wanted: str) -> None:
    viewer = Silent()
    assert viewer.describe_stop("interrupted") == "interrupted before the first round"
    run: Any = SimpleNamespace(
        progress=SimpleNamespace(round=7),
        settings=SimpleNamespace(rounds=9),
        checkpoints=SimpleNamespace(folders=lambda: [Path(name) for name in saved]),
    )

    viewer.run = run
    assert viewer.describe_stop("terminated") == wanted
