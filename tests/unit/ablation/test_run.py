"""Runs of an experiment: side by side, resumed after a kill, not repeated; the record, the page, the figure."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.ablation import ablate, describe_record, draw_figure, load, write_page
from karl_fast.errors import FileError, RunFailedError, UsageError
from tests.cli.run import COMMAND
from tests.unit.ablation.conftest import ARMS, REVERSAL, RUN
from tests.unit.train.conftest import quiet, ran

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.ablation import Experiment


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    """An experiment that ran: its file, its folder, its record."""
    folder = tmp_path_factory.mktemp("small")
    predictions = '[[predictions]]\nclaim = "Nothing differs."\narm = "no KL"\nexpect = "equal"\nmargin = 2.0\n'
    measures = '[measures]\noutcome = { metric = "outcome" }\nwidth = { metric = "entropy", last = 1 }\n'
    setting = 'setting = """\nWords are\nturned around."""\n'
    (folder / "small.toml").write_text(
        "question = 'Q?'\nseeds = [0, 1]\n" + setting + RUN + ARMS + measures + predictions
    )
    return folder / "small.toml", folder / "out", ablate(load(folder / "small.toml"), folder / "out", jobs=2)


def test_record_holds_what_the_runs_measured(small: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, record = small
    assert record == json.loads((out / "record.json").read_text())
    assert record["seeds"] == [0, 1]
    for arm in ("GRPO", "no KL"):
        for place, seed in enumerate(record["seeds"]):
            lines = [
                json.loads(text) for text in (out / arm / str(seed) / "run/metrics.jsonl").read_text().splitlines()
            ]
            outcomes = [line["outcome"] for line in lines]
            assert record["values"][arm]["outcome"][place] == pytest.approx(sum(outcomes) / 3, rel=1e-5)
            assert record["values"][arm]["width"][place] == pytest.approx(lines[-1]["entropy"], rel=1e-5)
            assert record["curves"]["outcome"][arm][place] == pytest.approx(outcomes, abs=1e-4)
    assert record["predictions"][0]["verdict"] == "supported"


def test_arms_of_a_seed_begin_alike(small: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, _ = small
    first = {
        (arm, seed): (out / arm / seed / "run/rollouts.jsonl").read_text().splitlines()[0]
        for arm in ("GRPO", "no KL")
        for seed in ("0", "1")
    }
    messages = {name: json.loads(line)["messages"] for name, line in first.items()}
    assert messages["GRPO", "0"] == messages["no KL", "0"]
    assert messages["GRPO", "0"] != messages["GRPO", "1"]


def test_finished_runs_are_not_repeated(small: tuple[Path, Path, dict[str, Any]]) -> None:
    file, out, record = small
    before = {place: place.stat().st_mtime_ns for place in out.rglob("metrics.jsonl")}
    assert ablate(load(file), out)["values"] == record["values"]
    assert {place: place.stat().st_mtime_ns for place in out.rglob("metrics.jsonl")} == before


def test_changed_settings_need_force(small: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    file, _, _ = small
    (tmp_path / "small.toml").write_text(file.read_text().replace("rounds = 3", "rounds = 1").replace("[0, 1]", "[0]"))
    ablate(load(tmp_path / "small.toml"), tmp_path / "out")
    other = load(tmp_path / "small.toml", rounds=2)
    with pytest.raises(UsageError, match=r"GRPO/0 was made with other settings or files: rounds = \d") as caught:
        ablate(other, tmp_path / "out")
    assert "--force" in str(caught.value.hint)
    ablate(other, tmp_path / "out", force=True)
    assert len((tmp_path / "out/GRPO/0/run/metrics.jsonl").read_text().splitlines()) == 2


def test_changed_file_of_a_run_needs_force(written: Callable[..., Path], tmp_path: Path) -> None:
    function = "def reward(prompts, completions, **columns):\n    return [{} + len(text) % 2 for text in completions]\n"
    (tmp_path / "rewards.py").write_text(function.format(0))
    text = "seeds = [0]\n" + RUN.replace(f"{REVERSAL}:reward", "rewards.py:reward") + "[arms.GRPO]\n"
    before = ablate(load(written(text), rounds=1), tmp_path / "out")
    (tmp_path / "rewards.py").write_text(function.format(5))
    with pytest.raises(UsageError, match=r"other settings or files: rewards\.py: [0-9a-f]{16}"):
        ablate(load(written(text), rounds=1), tmp_path / "out")
    after = ablate(load(written(text), rounds=1), tmp_path / "out", force=True)
    assert after["values"]["GRPO"]["outcome"][0] == pytest.approx(before["values"]["GRPO"]["outcome"][0] + 5)


def test_other_prompts_of_the_same_name_are_noticed(written: Callable[..., Path], tmp_path: Path) -> None:
    run = RUN.replace("prompts_per_round = 4", "prompts_per_round = 2")
    for folder, prompt in (("a", "1 2 3"), ("b", "3 2 1")):
        (tmp_path / folder).mkdir()
        lines = [json.dumps({"prompt": text}) + "\n" for text in (prompt, "4 4 4")]
        (tmp_path / folder / "prompts.jsonl").write_text("".join(lines))

    def of(folder: str) -> Experiment:
        text = "seeds = [0]\n" + run.replace(f"{REVERSAL}:prompts", f"{folder}/prompts.jsonl") + "[arms.GRPO]\n"
        return load(written(text), rounds=1)

    ablate(of("a"), tmp_path / "out")
    with pytest.raises(UsageError, match=r"other settings or files: prompts\.jsonl: "):
        ablate(of("b"), tmp_path / "out")
    shutil.move(tmp_path / "a", tmp_path / "c")
    shutil.move(tmp_path / "out", tmp_path / "moved")
    assert ablate(of("c"), tmp_path / "moved")["seeds"] == [0]


def test_missing_file_is_named_before_any_run(written: Callable[..., Path], tmp_path: Path) -> None:
    text = "seeds = [0]\n" + RUN.replace(f"{REVERSAL}:prompts", "nowhere.jsonl") + ARMS
    with pytest.raises(FileError, match=r"cannot open .*nowhere\.jsonl"):
        ablate(load(written(text)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_settings_of_a_run_make_the_same_run(small: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    _, out, _ = small
    words = ["rl", "--config", str(out / "no KL/1/rl.toml"), "--out", str(tmp_path / "again"), "-q"]
    assert ran(words, tmp_path, timeout=300).returncode == 0
    for name in ("rollouts.jsonl", "adapters.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (out / "no KL/1/run" / name).read_bytes()


def test_failed_run_is_named_and_the_others_finish(written: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def policy(seed):\n    raise ValueError('no such thing')\n")
    text = "seeds = [0]\n" + RUN + ARMS
    text += f'[arms.broken]\nmodel = "{tmp_path}/bad.py:policy"\n'
    with pytest.raises(RunFailedError, match=r"1 run of 3 ended with an error: broken, seed 0: .*no such thing"):
        ablate(load(written(text), rounds=1), tmp_path / "out")
    assert (tmp_path / "out/no KL/0/result.json").is_file()
    assert not (tmp_path / "out/broken/0/result.json").exists()


def test_an_alarm_is_a_result(written: Callable[..., Path], tmp_path: Path) -> None:
    text = "seeds = [0]\n" + RUN + "[arms.calm]\n[arms.strict]\nalarms = { entropy_floor = 99 }\n"
    record = ablate(load(written(text), rounds=2), tmp_path / "out")
    assert list(record["stopped"]) == ["strict"]
    assert "entropy" in record["stopped"]["strict"]["0"]
    assert "strict, seed 0, stopped: " in describe_record(record)


def test_no_run_starts_after_the_time(written: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="no seed is done in every arm"):
        ablate(load(written()), tmp_path / "out", minutes=0)
    assert not list((tmp_path / "out").rglob("metrics.jsonl"))


def test_missing_rewards_leave_no_number(written: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("def none(prompts, completions, **columns):\n    return [None] * len(prompts)\n")
    text = "seeds = [0]\n" + RUN.replace(f"{REVERSAL}:reward", f"{tmp_path}/none.py:none")
    record = ablate(load(written(text + "alarms = { missing_share = 1.0 }\n" + ARMS), rounds=1), tmp_path / "out")
    assert record["intervals"]["GRPO"]["outcome"]["mean"] is None
    assert "GRPO" in describe_record(record)


def test_killed_experiment_continues(written: Callable[..., Path], tmp_path: Path) -> None:
    file = written("seeds = [0]\n" + RUN.replace("rounds = 3", "rounds = 12") + ARMS)
    words = [*COMMAND, "ablate", str(file), "--out", str(tmp_path / "cut"), "-q"]
    process = subprocess.Popen(words, env=quiet(), cwd=tmp_path, stdout=subprocess.DEVNULL)
    log = tmp_path / "cut/small/GRPO/0/run/metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (log.is_file() and log.read_bytes().count(b"\n") >= 4):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(200):  # the process of the run sees the end of its parent
        held = subprocess.run(["pgrep", "-f", str(tmp_path / "cut")], capture_output=True, check=False).stdout
        if not held:
            break
        time.sleep(0.05)
    assert not held
    record = ablate(load(file), tmp_path / "cut/small")
    whole = ablate(load(file), tmp_path / "whole")
    assert record["values"] == whole["values"]
    assert [line["round"] for line in map(json.loads, log.read_text().splitlines())] == list(range(12))


def test_page_and_figure_are_of_the_record(small: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    _, _, record = small
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
    page = write_page(record, tmp_path, "karl-fast ablate small.toml").read_text()
    assert page.startswith("# Q?\n\nWords are turned around.\n")
    assert record["cpu_minutes"] > 0
    assert f"{record['minutes']:g} minutes of runs in all, {record['cpu_minutes']:g} of CPU." in page
    assert "| Nothing differs. | **supported** |" in page
    assert "![outcome, width of each arm, seed by seed](small.svg)" in page
    mean = record["intervals"]["no KL"]["outcome"]["mean"]
    assert f"| no KL | {mean:.4f} (" in page
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "small.svg").read_text()
    draw_figure(record, tmp_path / "again.svg")
    assert re.sub(r"\s+", " ", first) == re.sub(r"\s+", " ", (tmp_path / "again.svg").read_text())
    for arm in record["arms"]:
        assert arm in first


def test_command_prints_tables_and_verdicts(small: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    file, out, record = small
    shutil.copytree(out, tmp_path / "held/small")
    done = ran(["ablate", str(file), "--out", str(tmp_path / "held")], tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == describe_record(record)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.splitlines()[0] == "runs      0 of 4 to make"
    again = ran(["ablate", str(file), "--out", str(tmp_path / "held"), "--json", "-q"], tmp_path, timeout=300)
    assert json.loads(again.stdout)["small"]["values"] == record["values"]
    assert not again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "1,1"], "--seeds has 1 twice"),
        (["--seeds", "x"], "--seeds is 'x', wanted whole numbers with commas"),
        (["--out", ""], "--out is empty, wanted a path"),
        (["{file}"], "two files are named small.toml"),
        (["nothing.toml"], "cannot open nothing.toml"),
    ],
)
def test_usage_errors_name_the_option(written: Callable[..., Path], words: list[str], message: str) -> None:
    file = written()
    done = ran(["ablate", str(file), *(word.format(file=file) for word in words)], file.parent, timeout=300)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
