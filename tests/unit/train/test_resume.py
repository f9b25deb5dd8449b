"""Killed anywhere and resumed, a run ends with the bytes of one that was not; so do two runs of one seed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast._signals import Stopped
from karl_fast.modeling.load import ADAPTERS
from karl_fast.train import Training, train
from karl_fast.train.setup import OfflineRun
from karl_fast.train.step import Learner
from tests import rows
from tests.cli.run import COMMAND
from tests.slow import nightly
from tests.unit.train.conftest import quiet, ran

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = {
    "iters": 30,
    "batch-size": 3,
    "grad-accumulation-steps": 2,
    "max-seq-length": 64,
    "learning-rate": 3e-3,
    "lr-schedule": "cosine",
    "warmup": 3,
    "lora-dropout": 0.1,
    "steps-per-eval": 4,
    "save-every": 2,
    "seed": 11,
}

CLOCK = ("tokens_per_second", "seconds", "peak_bytes", "active_bytes", "cache_bytes")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    log = rows.write(folder / "log.jsonl", rows.records(40, groups=10))
    karl_fast.sample(log, folder / "data", k=36, split=(0.6, 0.4, 0.0))
    return folder / "data"


def command(data: Path, model: Path, adapter: Path, **more: Any) -> list[str]:
    flags = FLAGS | {name.replace("_", "-"): value for name, value in more.items()}
    words = [
        text for name, value in flags.items() for text in (f"--{name}", value) if value is not True or text != value
    ]
    return [str(word) for word in [*COMMAND, "train", data, "--model", model, "--adapter-path", adapter, *words]]


def run(*arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    return ran(command(*arguments, **more)[len(COMMAND) :])


def bytes_of(adapter: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(adapter)): path.read_bytes()
        for path in adapter.rglob("*")
        if path.suffix != ".jsonl" and path.is_file()
    }


def metrics(adapter: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (adapter / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in CLOCK} for line in found]


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    adapter = tmp_path_factory.mktemp("whole") / "adapter"
    done = run(data, tiny_model, adapter)
    assert done.returncode == 0, done.stderr
    return adapter


def test_two_runs_of_one_seed_are_the_same(data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path) -> None:
    assert run(data, tiny_model, tmp_path / "again").returncode == 0
    assert bytes_of(tmp_path / "again") == bytes_of(uninterrupted)
    assert metrics(tmp_path / "again") == metrics(uninterrupted)


def test_another_seed_is_another_run(data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path) -> None:
    assert run(data, tiny_model, tmp_path / "other", seed=12).returncode == 0
    assert bytes_of(tmp_path / "other")["adapters.safetensors"] != bytes_of(uninterrupted)["adapters.safetensors"]


@pytest.mark.parametrize("seed", nightly(range(3)))
def test_random_kills_give_the_same_bytes(
    data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path, seed: int
) -> None:
    adapter, random_, kills = tmp_path / "adapter", random.Random(seed), 0
    for upto in sorted(random_.sample(range(1, 15), 2)):
        kills += killed(command(data, tiny_model, adapter, resume=True), adapter, upto, random_.random() * 0.05)
    assert kills > 0  # on a busy machine the second may come when the run is over
    done = run(data, tiny_model, adapter, resume=True)
    assert done.returncode == 0, done.stderr
    assert bytes_of(adapter) == bytes_of(uninterrupted)
    assert metrics(adapter) == metrics(uninterrupted)


@pytest.mark.slow
def test_kills_in_segments_give_the_same_bytes(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    """With dropout, in groups that pass in parts: what a sweep left out is a function of seed, step and segment."""
    how: dict[str, Any] = {"segment_length": 16, "save_every": 1}
    assert run(data, tiny_model, tmp_path / "whole", **how).returncode == 0
    adapter, random_ = tmp_path / "killed", random.Random(7)
    words = command(data, tiny_model, adapter, resume=True, **how)
    kills = sum(killed(words, adapter, step, random_.random() * 0.05) for step in range(1, 11))
    assert kills >= 5  # on a busy machine some come a step late
    assert run(data, tiny_model, adapter, resume=True, **how).returncode == 0
    assert bytes_of(adapter) == bytes_of(tmp_path / "whole")
    assert metrics(adapter) == metrics(tmp_path / "whole")


def test_kill_during_removal_gives_the_same_files(
    data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    killed(command(data, tiny_model, adapter, resume=True), adapter, 10, 0.0)
    half = adapter / "checkpoints" / "0000001"
    half.mkdir(exist_ok=True)
    (half / "state.json").unlink(missing_ok=True)
    (half / "optimizer.safetensors").write_bytes(b"left by a removal")
    assert run(data, tiny_model, adapter, resume=True).returncode == 0
    assert not half.exists()
    assert bytes_of(adapter) == bytes_of(uninterrupted)


def test_kill_during_last_save_keeps_the_weights(
    data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    """The checkpoint is there; the adapter beside it is still that of the one before, and an older one has not gone."""
    adapter = tmp_path / "adapter"
    shutil.copytree(uninterrupted, adapter)
    before = sorted((adapter / "checkpoints").iterdir())[-2]
    shutil.copyfile(before / "adapters.safetensors", adapter / "adapters.safetensors")
    shutil.copytree(before, adapter / "checkpoints" / "0000001")
    assert bytes_of(adapter) != bytes_of(uninterrupted)
    done = run(data, tiny_model, adapter, resume=True)
    assert done.returncode == 0, done.stderr
    assert bytes_of(adapter) == bytes_of(uninterrupted)


def killed(words: list[str], adapter: Path, step: int, later: float) -> bool:
    """Starts a run and kills it a while after a step; whether it was still going."""
    process = subprocess.Popen(words, env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file, until = adapter / "metrics.jsonl", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        if file.is_file() and f'"step": {step},' in file.read_text("utf-8"):
            break
        time.sleep(0.002)
    time.sleep(later)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def test_half_written_checkpoint_is_ignored(data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(uninterrupted, adapter)
    newest = sorted((adapter / "checkpoints").iterdir())[-1]
    newest.rename(newest.with_name(f".unfinished-{newest.name}"))
    done = run(data, tiny_model, adapter, resume=True)
    assert done.returncode == 0, done.stderr
    assert "from step 14" in done.stderr
    assert (adapter / "adapters.safetensors").read_bytes() == (uninterrupted / "adapters.safetensors").read_bytes()


def test_the_last_checkpoints_and_the_best_are_kept(
    data: Path, tiny_model: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    def kept(adapter: Path) -> list[int]:
        return sorted(int(path.name) for path in (adapter / "checkpoints").iterdir())

    assert kept(uninterrupted)[-2:] == [14, 15]
    # At a learning rate that spoils the model the first validation with a checkpoint stays the best.
    assert run(data, tiny_model, tmp_path / "a", learning_rate=0.5, lr_schedule="constant", keep=1).returncode == 0
    state = json.loads((tmp_path / "a" / "checkpoints" / "0000015" / "state.json").read_text("utf-8"))
    assert set(kept(tmp_path / "a")) == {15, *({state["best"][1]} - {0})}


@pytest.mark.parametrize("changed", [{"seed": 12}, {"lora_rank": 4}, {"batch_size": 4}])
def test_another_run_is_not_gone_on_with(
    data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(uninterrupted, adapter)
    done = run(data, tiny_model, adapter, resume=True, **changed)
    assert done.returncode == 1
    assert f"is of another run: its {next(iter(changed))} was" in done.stderr
    assert bytes_of(adapter) == bytes_of(uninterrupted)


def test_moments_of_another_version_are_refused(
    data: Path, tiny_model: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    import mlx.core as mx

    adapter = tmp_path / "adapter"
    shutil.copytree(uninterrupted, adapter)
    newest = sorted((adapter / "checkpoints").iterdir())[-1] / "optimizer.safetensors"
    moments: Any = mx.load(str(newest))
    mx.save_safetensors(str(newest), {name.replace("float32-", "old-"): value for name, value in moments.items()})
    done = run(data, tiny_model, adapter, resume=True)
    assert done.returncode == 1
    first, *rest = sorted(set(moments) | {name.replace("float32-", "old-") for name in moments})
    came = next(name for name in (first, *rest) if "float32-" in name or "old-" in name)
    form = "float32 of the shape (" + ", ".join(map(str, moments[came.replace("old-", "float32-")].shape))
    fit = sum("float32-" not in name for name in moments)
    said = f"{newest} lacks {came}, {form}" if came in moments else f"{newest} has {came}, {form}"
    assert f"error: {said}" in done.stderr
    assert f"; {fit} of the model's {len(moments)} tensors fit\n" in done.stderr


def test_patience_ends_a_run_and_reports(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    done = run(
        data,
        tiny_model,
        tmp_path / "a",
        learning_rate=1.0,
        lr_schedule="constant",
        warmup=0,
        steps_per_eval=1,
        patience=2,
    )
    assert done.returncode == 0, done.stderr
    assert "for nothing got better" in done.stderr
    again = run(
        data,
        tiny_model,
        tmp_path / "a",
        learning_rate=1.0,
        lr_schedule="constant",
        warmup=0,
        steps_per_eval=1,
        patience=2,
        resume=True,
    )
    assert again.returncode == 0, again.stderr


INTERRUPTED = Training(iters=6, batch_size=2, max_seq_length=64, steps_per_eval=2, save_every=100, learning_rate=1e-3)


def trained(data: Path, model: Path, where: Path, **more: Any) -> Any:
    return train(data, model, where, INTERRUPTED, **more)


@pytest.mark.parametrize("calls", [1, 3, 4, 6])
def test_signal_in_a_step_saves_the_previous(
    data: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    whole = trained(data, tiny_model, tmp_path / "whole")
    gradient, left = Learner.gradient, [calls]

    def stops(learner: Learner, batches: list[list[int]]) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Stopped(2, str)
        return gradient(learner, batches)

    monkeypatch.setattr(Learner, "gradient", stops)
    with pytest.raises(SystemExit):
        trained(data, tiny_model, tmp_path / "cut")
    saved = [int(place.name) for place in (tmp_path / "cut" / "checkpoints").glob("[0-9]*")]
    assert saved == ([calls - 1] if calls > 1 else [])
    resumed = trained(data, tiny_model, tmp_path / "cut", resume=True)
    assert (resumed.steps, resumed.best, resumed.learned_tokens) == (whole.steps, whole.best, whole.learned_tokens)
    assert (tmp_path / "cut" / ADAPTERS).read_bytes() == (tmp_path / "whole" / ADAPTERS).read_bytes()


@pytest.mark.parametrize("calls", [2, 3])
def test_signal_in_validation_loses_nothing(
    data: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    whole = trained(data, tiny_model, tmp_path / "whole")
    judge, left = OfflineRun.held_out_loss, [calls]

    def stops(self: OfflineRun) -> float | None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return judge(self)

    monkeypatch.setattr(OfflineRun, "held_out_loss", stops)
    with pytest.raises(KeyboardInterrupt):
        trained(data, tiny_model, tmp_path / "cut")
    assert [place.name for place in (tmp_path / "cut" / "checkpoints").glob("[0-9]*")] == [f"{2 * calls - 2:07d}"]
    resumed = trained(data, tiny_model, tmp_path / "cut", resume=True)
    assert (resumed.steps, resumed.best) == (whole.steps, whole.best)
    assert (tmp_path / "cut" / ADAPTERS).read_bytes() == (tmp_path / "whole" / ADAPTERS).read_bytes()
    lines = [(tmp_path / name / "metrics.jsonl").read_text().count("val_loss") for name in ("cut", "whole")]
    assert lines[0] == lines[1]
