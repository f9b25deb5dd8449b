"""`karl-fast rl`, and the examples, word for word, on a tiny random model."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.run import COMMAND, ended_while_reporting
from tests.slow import nightly
from tests.unit.rl.conftest import EXAMPLES, lines
from tests.unit.train.conftest import made, quiet, ran

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the root of the repository, with a tiny model in it."""
    folder = tmp_path_factory.mktemp("root")
    shutil.copytree(EXAMPLES, folder / "examples" / "rl", ignore=shutil.ignore_patterns("__pycache__"))
    made(folder / "tiny-model")
    return folder


def run(place: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = ran([*words], place, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def begun(place: Path, out: str, rounds: int, *more: str) -> subprocess.Popen[bytes]:
    words = ["rl", "--config", "examples/rl/reversal.toml", "--out", out, "--rounds", str(rounds), "-q", *more]
    return subprocess.Popen(
        [*COMMAND, *words], cwd=place, env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("stop", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_stopped_process_resumes_to_the_same_bytes(place: Path, stop: signal.Signals) -> None:
    config = place / "examples" / "rl" / "reversal.toml"
    if "save_every" not in config.read_text():
        config.write_text("save_every = 3\n" + config.read_text())
    whole, cut = place / "runs" / f"whole-{stop}", place / "runs" / f"cut-{stop}"
    _, said = begun(place, str(whole), 14).communicate(timeout=300)
    assert not said
    for rounds in (4, 7, 11):  # with none saved, there is nothing to go on from
        process = begun(place, str(cut), 14, "--resume")
        log = cut / "metrics.jsonl"
        for _ in range(6000):
            if process.poll() is not None or (log.is_file() and log.read_bytes().count(b"\n") >= rounds):
                break
            time.sleep(0.05)
        process.send_signal(stop)
        _, said = process.communicate(timeout=300)
        assert process.returncode in (-stop, 128 + stop, 0)
        assert process.returncode != 130 or re.fullmatch(rb"interrupted in round \d+; .*\n", said), said
    run(place, "rl", "--config", "examples/rl/reversal.toml", "--out", str(cut), "--rounds", "14", "--resume")
    for name in ("adapters.safetensors", "rollouts.jsonl"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()
    assert [line["round"] for line in lines(cut / "metrics.jsonl")] == list(range(14))


def test_signal_after_last_round_reports_the_result(place: Path) -> None:
    shutil.rmtree(place / "runs" / "ended", ignore_errors=True)
    words = ("--config", "examples/rl/maths.toml", "--out", "runs/ended", "--rounds", "1", "-q")
    done = subprocess.run(
        [*ended_while_reporting("rl"), *words], cwd=place, env=quiet(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (143, "terminated; runs/ended is written\n")
    assert list((place / "runs" / "ended").rglob("adapters.safetensors"))


@pytest.mark.parametrize("name", nightly(["maths", "tools", "judge", "composite"]))
def test_an_example_runs_and_its_log_is_read(place: Path, name: str) -> None:
    done = run(place, "rl", "--config", f"examples/rl/{name}.toml")
    assert "trained   2 rounds" in done.stderr
    out = place / "runs" / name
    assert (out / "adapters.safetensors").is_file()
    assert json.loads((out / "adapter_config.json").read_text())["lora_parameters"]["keys"]
    found = lines(out / "rollouts.jsonl")
    assert len(found) == sum(line["rollouts"] for line in lines(out / "metrics.jsonl"))
    assert run(place, "inspect", f"runs/{name}/rollouts.jsonl", "--quiet").stdout
    again = run(place, "rl", "--config", f"examples/rl/{name}.toml", code=5)
    assert "--resume" in again.stderr
    run(place, "rl", "--config", f"examples/rl/{name}.toml", "--resume", "--rounds", "3", "--json")
    assert len(lines(out / "metrics.jsonl")) == 3


def test_an_adapter_is_one_that_mlx_lm_loads(place: Path) -> None:
    run(place, "rl", "--config", "examples/rl/maths.toml", "--rounds", "1", "--out", "runs/one", "-q")
    words = ["generate", "--model", "tiny-model", "--adapter-path", "runs/one", "--prompt", "3", "--max-tokens", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "mlx_lm", *words], cwd=place, env=quiet(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_recipe_is_printed_an_axis_a_line(place: Path) -> None:
    text = run(place, "rl", "--recipe", "Dr_GRPO", "--print").stdout
    assert text == run(place, "rl", "--recipe", "dr-grpo", "--print").stdout
    for axis in ("filter", "advantage", "ratio", "clip", "kl", "aggregate"):
        assert any(line.lstrip("* ").startswith(axis) and "[" in line for line in text.splitlines())
    (place / "mine.toml").write_text(run(place, "rl", "--recipe", "gspo", "--print", "--toml").stdout)
    assert (
        run(place, "rl", "--recipe", "mine.toml", "--print").stdout
        == run(place, "rl", "--recipe", "gspo", "--print").stdout
    )


def test_usage_errors_are_one_sentence(place: Path) -> None:
    assert "model, prompts and out are not set" in run(place, "rl", code=2).stderr
    assert "--config is empty, wanted a file of settings" in run(place, "rl", "--config", "", code=2).stderr
    assert (
        "--recipe is 'no', wanted a .toml file or one of"
        in run(place, "rl", "--recipe", "no", "--print", code=2).stderr
    )
    assert "no such file" in run(place, "rl", "--config", "nothing.toml", code=1).stderr.lower()
    for words, said in {
        "--out=": "--out is not set: a run needs one",
        "--model=": "--model is not set: a run needs one",
        "--rounds=0": "--rounds is 0, wanted a whole number from 1 on",
        "--rounds=1 --seed=-1": "--seed is -1, wanted a whole number from 0 on and below 2**64",
    }.items():
        flagged = run(place, "rl", "--config", "examples/rl/maths.toml", *words.split(), code=2)
        assert flagged.stderr == f"error: {said}\n"


def test_only_options_that_there_are_are_named(place: Path) -> None:
    text = (place / "examples" / "rl" / "reversal.toml").read_text()
    (place / "examples" / "rl" / "short.toml").write_text("max_context = 1\n" + text)
    said = run(place, "rl", "--config", "examples/rl/short.toml", "--out", "short", code=2).stderr
    assert "--max-context is 1, and the shortest prompt has" in said


def test_last_rollouts_are_shown_whole(place: Path, tmp_path: Path) -> None:
    made = {"round": 4, "learned": True, "finish": "stop", "missing": None, "components": {"one": 0.25, "two": 1}}
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a\x1b[2J\nb " + "long " * 300}]
    logged = [made | {"id": f"{n}-0", "prompt_id": "p", "reward": n / 4, "messages": said} for n in range(3)]
    log = tmp_path / "rollouts.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in logged) + '{"id": "3-0", "rou')  # a round in the making
    found = run(place, "rl", "show", str(tmp_path)).stdout
    text = ["rollout   2-0, round 5, prompt p", "outcome   reward 0.5, stop, learned", "rewards   one 0.25, two 1"]
    assert found.splitlines() == [*text, "[user]", "q", "[assistant]", "a\u241b[2J", "b " + "long " * 300]
    both = run(place, "rl", "show", str(tmp_path), "--show", "2").stdout
    assert [line[10:13] for line in both.splitlines() if line.startswith("rollout ")] == ["1-0", "2-0"]
    objects = run(place, "rl", "show", str(tmp_path), "--show", "9", "--json").stdout.splitlines()
    assert [json.loads(line) for line in objects] == logged


def test_a_run_that_cannot_be_shown_is_named(place: Path, tmp_path: Path) -> None:
    assert "cannot read" in run(place, "rl", "show", str(tmp_path / "none"), code=1).stderr
    assert "wanted options alone, or show and a folder" in run(place, "rl", "shew", "runs/first", code=2).stderr
    (tmp_path / "rollouts.jsonl").write_text("7\n")
    assert "has a line that is not a rollout" in run(place, "rl", "show", str(tmp_path), code=1).stderr


def test_a_long_log_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karl_fast.rl import rollout as rollout_log

    lines = [f"{number} \u2028" * 9 for number in range(50)]
    (tmp_path / "log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for block in (1, 7, 1000, 1 << 20):
        monkeypatch.setattr(rollout_log, "READ_BLOCK", block)
        assert rollout_log.read_last_lines(tmp_path / "log", 3) == lines[-3:]
        assert rollout_log.read_last_lines(tmp_path / "log", 60) == lines
        assert rollout_log.read_last_lines(tmp_path / "log", 0) == []


BREVITY = """\
def brevity(completions, **columns):
    return [1 / (9 + ord(text[0])) if text else 0.1 for text in completions]
"""


def test_run_without_step_names_the_filter(place: Path, tmp_path: Path) -> None:
    """A reward above 0 for every answer: SAMPO takes all of them for right, though the outcomes of groups differ."""
    (tmp_path / "rewards.py").write_text(BREVITY)
    root = place / "examples" / "rl"
    settings = (
        f'model = "{root / "reversal.py"}:policy"\nprompts = "{root / "reversal.jsonl"}"\nrecipe = "sampo"\n'
        "rounds = 2\nprompts_per_round = 4\ngroup_size = 4\nmax_tokens = 4\n"
    )
    (tmp_path / "rl.toml").write_text(f'{settings}[rewards]\n"{tmp_path / "rewards.py"}:brevity" = 1.0\n')
    done = ran(["rl", "--config", "rl.toml", "--out", "run"], tmp_path, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "mixed 100%" in done.stderr
    assert "note      no step was made: MixedGroups drops 16 of 16 rollouts\n" in done.stderr
    said = done.stderr.splitlines()[-2:]
    dropped = "MixedGroups dropped 32 rollouts of them"
    assert said[0] == f"error: nothing was learned: 2 of 2 rounds made no step: {dropped}"
    assert "name the reward function that says right or wrong as outcome" in said[1]
    assert (tmp_path / "run" / "metrics.jsonl").is_file()
