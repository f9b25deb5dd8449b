"""How a run begins in another's place, goes on, and ends: what is removed, what is kept, what is said."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modeling import parts
from tests.unit.train.test_mlx_lm_defects import chat, lines, write

import mlx.core as mx  # isort: skip

from karl_fast import _atomic
from karl_fast.cli.reports.train import Silent, describe_training
from karl_fast.errors import (
    CheckpointError,
    DivergedError,
    FileError,
    ModelError,
    OutputExistsError,
    OutputForeignError,
    OutputTakenError,
)
from karl_fast.modeling.model_views import split_model
from karl_fast.train import Training, train

if TYPE_CHECKING:
    from pathlib import Path

QUICK: dict[str, Any] = {"max_seq_length": 64, "learning_rate": 1e-3, "batch_size": 4, "iters": 2, "save_every": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    some = [chat(f"question {n}", f"answer {n}") for n in range(12)]
    return write(tmp_path_factory.mktemp("data"), some, some[:4])


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights(folder: Path) -> bytes:
    return (folder / "adapters.safetensors").read_bytes()


def test_force_removes_nothing_before_the_start(
    data: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = tmp_path / "adapter"
    train(data, tiny_model, adapter, Training(**QUICK))
    before = files(adapter)
    with pytest.raises(ModelError):
        train(data, tmp_path / "no-model", adapter, Training(**QUICK), force=True)
    assert files(adapter) == before
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ImportError):
        train(data, tiny_model, adapter, Training(report_to=("wandb",), **QUICK), force=True)
    assert files(adapter) == before


def test_force_removes_only_what_a_run_wrote(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    train(data, tiny_model, adapter, Training(**QUICK))
    strange = [adapter / "checkpoints" / "0000009" / "notes", adapter / "checkpoints" / "best" / "x", adapter / "mine"]
    for one in strange:
        one.parent.mkdir(exist_ok=True)
        one.write_text("mine", "utf-8")
    train(data, tiny_model, adapter, Training(**QUICK | {"iters": 1}), force=True)
    assert all(one.read_text("utf-8") == "mine" for one in strange)
    assert [path.parent.name for path in sorted(adapter.glob("checkpoints/*/state.json"))] == ["0000001"]
    assert {line["step"] for line in lines(adapter)} == {0, 1}


@pytest.mark.parametrize("name", ["notes.csv", "manifest.json", "metrics.jsonl", "adapter_config.json"])
def test_foreign_folder_is_not_written_unforced(data: Path, tiny_model: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"step": 3}\n', "utf-8")
    (tmp_path / ".hidden").touch()
    before = files(tmp_path)
    with pytest.raises(OutputForeignError, match=f"it exists and holds {name}, which no run writes") as error:
        train(data, tiny_model, tmp_path, Training(**QUICK))
    assert "--force writes into this one" in (error.value.hint or "")
    assert files(tmp_path) == before
    train(data, tiny_model, tmp_path, Training(**QUICK), force=True)
    ours = name in ("metrics.jsonl", "adapter_config.json")
    assert ours or (tmp_path / name).read_bytes() == before[tmp_path / name]


def test_checkpoints_of_another_tool_are_something_else(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "checkpoint-5").mkdir(parents=True)
    with pytest.raises(OutputForeignError, match="it exists and holds checkpoints, which no run writes"):
        train(data, tiny_model, tmp_path, Training(**QUICK))


def test_a_log_beside_a_run_is_no_hindrance(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    """As `2> adapter/train.log` leaves it."""
    (tmp_path / "train.log").write_text("mine", "utf-8")
    train(data, tiny_model, tmp_path, Training(**QUICK))
    assert (tmp_path / "train.log").read_text("utf-8") == "mine"


def test_resumable_run_may_have_foreign_files(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    train(data, tiny_model, tmp_path, Training(**QUICK), resume=True)
    assert weights(tmp_path)


def test_run_killed_before_checkpoint_restarts(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    draft = tmp_path / "checkpoints" / ".unfinished-0000009" / "state.json"
    draft.parent.mkdir(parents=True)
    for file in (draft, tmp_path / "train.toml", tmp_path / ".unfinished-adapters.safetensors"):
        file.touch()
    (tmp_path / "metrics.jsonl").write_text('{"step": 7}\n', "utf-8")
    train(data, tiny_model, tmp_path, Training(**QUICK))
    assert {line["step"] for line in lines(tmp_path)} == {0, 1, 2}
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["0000001", "0000002"]


def test_adapter_without_checkpoint_is_not_resumed(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "adapters.safetensors").write_bytes(b"of another tool")
    with pytest.raises(CheckpointError, match=r"has an adapter and no checkpoint in .*checkpoints") as error:
        train(data, tiny_model, tmp_path, Training(**QUICK), resume=True)
    assert "--force" in (error.value.hint or "")
    assert weights(tmp_path) == b"of another tool"


@pytest.mark.parametrize("held_out", [True, False])
def test_a_run_that_diverged_is_an_error(data: Path, tiny_model: Path, tmp_path: Path, held_out: bool) -> None:
    if not held_out:
        data = write(tmp_path / "data", [chat(f"question {n}", f"answer {n}") for n in range(12)])
    settings = Training(**QUICK | {"learning_rate": 1e30, "iters": 4, "save_every": 100})
    said = "the held-out loss is not finite" if held_out else "the gradient of the last step is not finite"
    with pytest.raises(DivergedError, match=f"step 4: {said}; nothing was saved"):
        train(data, tiny_model, tmp_path / "adapter", settings)
    assert "NaN" not in (tmp_path / "adapter" / "metrics.jsonl").read_text("utf-8")
    steps = [line for line in lines(tmp_path / "adapter") if "skipped" in line]
    assert [line["skipped"] for line in steps] == [False, True, True, True]
    assert len({line["learned_tokens"] for line in steps}) == 1  # a step that is skipped learns nothing
    assert not (tmp_path / "adapter" / "adapters.safetensors").exists()


@pytest.mark.parametrize("place", ["optimizer.safetensors", "state.json", "adapter/adapters.safetensors", "train.toml"])
def test_full_disk_leaves_a_resumable_run(
    data: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    adapter, write = tmp_path / "adapter", _atomic.write_file
    train(data, tiny_model, adapter, Training(**QUICK))
    before = files(adapter)

    def refused(path: Path, fill: Any) -> None:
        def none_left(_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        write(path, none_left if str(path).endswith(place) else fill)

    monkeypatch.setattr(_atomic, "write_file", refused)
    with pytest.raises(FileError, match=r"cannot write .*: No space left on device"):
        train(data, tiny_model, adapter, Training(**QUICK | {"iters": 4}), resume=True)
    now = files(adapter)
    kept = [path for path in before if path.name != "metrics.jsonl" and path.name != "train.toml"]
    assert all(now[path] == before[path] for path in kept)
    assert not list(adapter.rglob(".unfinished-*"))
    monkeypatch.undo()
    train(data, tiny_model, adapter, Training(**QUICK | {"iters": 4}), resume=True)
    train(data, tiny_model, tmp_path / "whole", Training(**QUICK | {"iters": 4}))
    assert weights(adapter) == weights(tmp_path / "whole")


SPOILING: dict[str, Any] = QUICK | {"learning_rate": 0.02, "iters": 30, "steps_per_eval": 1, "patience": 2, "keep": 1}


def test_an_early_end_leaves_the_best_weights(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    found = train(data, tiny_model, tmp_path, Training(**SPOILING))
    assert found.best is not None
    assert 0 < found.best[1] == found.adapter_step < found.steps[0] < 30
    assert weights(tmp_path) == weights(tmp_path / "checkpoints" / f"{found.adapter_step:07d}")
    assert weights(tmp_path) != weights(tmp_path / "checkpoints" / f"{found.steps[0]:07d}")
    assert f"the adapter is that of step {found.adapter_step}\n" in describe_training(found)


def test_early_end_reports_a_missing_best_checkpoint(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    found = train(data, tiny_model, tmp_path, Training(**SPOILING | {"save_every": 100}))
    assert found.best is not None
    assert found.best[1] < found.adapter_step == found.steps[0] < 30
    assert weights(tmp_path) == weights(tmp_path / "checkpoints" / f"{found.steps[0]:07d}")
    said = f"the adapter is that of step {found.steps[0]}, for step {found.best[1]} has no checkpoint\n"
    assert said in describe_training(found)


def test_a_place_that_is_a_file_is_refused(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OutputForeignError, match="mine: it exists and is not a directory"):
        train(data, tiny_model, tmp_path / "mine", Training(**QUICK), force=True)
    assert (tmp_path / "mine").read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputForeignError, match="link: it exists and is not a directory"):
        train(data, tiny_model, tmp_path / "link", Training(**QUICK), force=True)


def test_another_run_is_told_by_its_settings_first(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    train(data, tiny_model, tmp_path / "a", Training(**QUICK))
    for changed, said in (({"max_seq_length": 8}, "its max_seq_length was 64, and is 8; the rows differ"), ({}, None)):
        other = write(tmp_path / "other", [chat("q", f"answer {n}") for n in range(9)]) if said is None else data
        with pytest.raises(CheckpointError) as error:
            train(other, tiny_model, tmp_path / "a", Training(**QUICK | changed), resume=True)
        assert str(error.value).endswith(f"is of another run: {said or 'the rows differ'}")


def test_unrelated_run_is_reported_in_one_line(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    train(data, tiny_model, tmp_path, Training(**QUICK))
    changed = {"seed": 9, "learning_rate": 0.5, "batch_size": 1, "warmup": 1, "lora_rank": 4, "max_grad_norm": 0.5}
    with pytest.raises(CheckpointError) as error:
        train(data, tiny_model, tmp_path, Training(**QUICK | changed), resume=True)
    assert str(error.value).count(" was ") == 4
    assert str(error.value).endswith("; and 2 more")


def test_non_finite_weights_do_not_blame_the_type() -> None:
    model = parts.adapted(parts.built())
    split_model(model)
    model.layers[0].self_attn.q_proj.lora_b = mx.full(model.layers[0].self_attn.q_proj.lora_b.shape, float("nan"))
    with pytest.raises(ModelError, match="are not finite"):
        split_model(model)


def test_interrupted_run_without_checkpoint_reports_it(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    class Stopped(Silent):
        def on_metrics(self, values: dict[str, Any]) -> None:
            if values["step"] == 1:
                raise SystemExit(130)

    viewer = Stopped()
    before = viewer.describe_stop("interrupted")
    with pytest.raises(SystemExit):
        train(data, tiny_model, tmp_path, Training(**QUICK), viewer=viewer)
    assert before == "interrupted before the first step"
    assert viewer.describe_stop("terminated") == "terminated at step 1; nothing saved yet"


def test_a_second_run_into_one_folder_is_refused(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    settings, refusals = Training(**QUICK), []

    class Second(Silent):
        def on_start(self, run: Any) -> None:
            for how in ({}, {"resume": True}, {"force": True}):
                with pytest.raises(OutputExistsError, match="another run writes to") as refused:
                    train(data, tiny_model, tmp_path / "a", settings, **how)
                refusals.append(refused.value.exit_code)

    train(data, tiny_model, tmp_path / "a", settings, viewer=Second())
    train(data, tiny_model, tmp_path / "b", settings)
    assert refusals == [5, 5, 5]
    names = [{path.relative_to(tmp_path / name) for path in files(tmp_path / name)} for name in "ab"]
    assert names[0] == names[1]
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_killed_run_leaves_no_lock(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / _atomic.LOCK).touch()
    train(data, tiny_model, tmp_path / "a", Training(**QUICK))
    assert not (tmp_path / "a" / _atomic.LOCK).exists()


def test_link_in_place_of_a_file_stays(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs", "utf-8")

    class Linking(Silent):
        def on_start(self, run: Any) -> None:
            (tmp_path / "a" / "adapters.safetensors").symlink_to(tmp_path / "theirs")

    with pytest.raises(OutputTakenError, match="is a symbolic link: it is left as it is"):
        train(data, tiny_model, tmp_path / "a", Training(**QUICK), viewer=Linking())
    assert (tmp_path / "a" / "adapters.safetensors").is_symlink()
    assert (tmp_path / "theirs").read_text("utf-8") == "theirs"
