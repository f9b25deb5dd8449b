"""A run that starts from an adapter: every tensor is checked, and the reference is the one that was asked for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import _seen_hashes
from karl_fast.errors import CheckpointError, ModelError, UsageError
from karl_fast.modeling.parameters import flatten_tree, read_tensors, write_tensors
from karl_fast.rl.rollout import Packed
from karl_fast.rl.run import rl
from karl_fast.rl.settings import Online
from karl_fast.rl.setup import prepare
from karl_fast.train.settings import Training
from tests.unit.rl.conftest import lines
from tests.unit.train.conftest import made

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHTS = "adapters.safetensors"

KINDS = ("lora", "dora", "full")

SMALL: dict[str, Any] = {"num_layers": 2, "lora_rank": 4, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("start") / "tiny")


@pytest.fixture
def asked(tmp_path: Path, tiny_model: Path) -> Callable[..., Online]:
    """Settings of two short rounds that reward length; `training` takes those of `Training`."""
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "one"}\n{"prompt": "another"}\n')
    (tmp_path / "own.py").write_text(
        "def long(completions, **columns):\n    return [len(one) / 9 for one in completions]"
    )

    def settings(out: str, **over: Any) -> Online:
        training = Training(**SMALL | over.pop("training", {}))
        rewards = {f"{tmp_path / 'own.py'}:long": 1.0}
        given = Online(str(tiny_model), str(tmp_path / "prompts.jsonl"), str(tmp_path / out), rewards=rewards)
        small: dict[str, Any] = {"rounds": 2, "prompts_per_round": 2, "group_size": 4, "max_tokens": 6}
        return replace(given, training=training, **small | over)

    return settings


@pytest.fixture
def first(asked: Callable[..., Online]) -> Callable[[str], str]:
    """The folder of a run that was trained, by its kind."""

    def trained(kind: str) -> str:
        settings = asked(f"first-{kind}", training={"fine_tune_type": kind})
        rl(settings)
        return settings.out

    return trained


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    import mlx.core as mx

    weights = change(read_tensors(path))
    mx.eval(weights)  # MLX reads a file when its arrays are wanted
    with path.open("wb") as file:
        write_tensors(weights, file)


def logp(policy: Any, *, reference: bool) -> Any:
    from karl_fast.rl.logprobs import Forward

    tokens = np.arange(5, 17, dtype=np.int32)[None]
    mask = np.ones((1, 11), np.bool_)
    packed = Packed(tokens, mask, np.zeros((1, 11), np.int64), np.zeros((1, 11), np.float32))
    return Forward(policy, 1.0).logp(packed, reference=reference)


@pytest.mark.parametrize("kind", KINDS)
def test_run_starts_from_another_adapter(asked: Callable[..., Online], first: Callable[[str], str], kind: str) -> None:
    start = first(kind)
    run = prepare(asked("second", adapter=start, training={"fine_tune_type": kind}))
    run.close()
    wanted, there = read_tensors(Path(start) / WEIGHTS), flatten_tree(run.policy.model.trainable_parameters())
    assert wanted.keys() == there.keys()
    assert all(np.array_equal(np.array(wanted[name]), np.array(there[name])) for name in wanted)


def test_a_start_on_another_base_is_noted(asked: Callable[..., Online], first: Callable[[str], str]) -> None:
    start = first("lora")

    def remarks(out: str) -> list[str]:
        run = prepare(asked(out, adapter=start))
        run.close()
        return [remark for remark in run.remarks if remark is not None and "trained on" in remark]

    assert not remarks("same")
    file = Path(start) / "adapter_config.json"
    config = json.loads(file.read_text())
    config["base"]["quantization"] = {"bits": 4, "group_size": 64}
    file.write_text(json.dumps(config))
    (remark,) = remarks("other")
    assert "was trained on the model in 4 bits in groups of 64 (float32), and this one is in float32" in remark


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_the_start_or_the_base(
    asked: Callable[..., Online], first: Callable[[str], str], kind: str
) -> None:
    how: dict[str, Any] = {"adapter": first(kind), "training": {"fine_tune_type": kind}}
    begun = prepare(asked("begun", **how))
    base = prepare(asked("base", training={"fine_tune_type": kind}))
    start = logp(begun.policy, reference=False)
    plain = logp(base.policy, reference=True)
    assert np.abs(start - plain).max() > 1e-3
    for name, wanted in (("start", start), ("base", plain)):
        run = prepare(asked(f"run-{name}", reference=name, **how))
        moved = {key: value + 0.05 for key, value in flatten_tree(run.policy.model.trainable_parameters()).items()}
        run.policy.model.load_weights(list(moved.items()), strict=False)
        assert np.array_equal(logp(run.policy, reference=True), wanted)
        assert np.abs(logp(run.policy, reference=False) - wanted).max() > 1e-3
        run.close()
    begun.close()
    base.close()


def test_whole_model_moves_from_its_reference(asked: Callable[..., Online]) -> None:
    settings = asked("whole", rounds=3, training={"fine_tune_type": "full"})
    rl(settings)
    found = [line["kl"] for line in lines(Path(settings.out) / "metrics.jsonl")]
    assert found[0] == 0.0
    assert found[-1] > 1e-6


def test_run_from_adapter_resumes_to_same_bytes(asked: Callable[..., Online], first: Callable[[str], str]) -> None:
    start = first("lora")
    whole, cut = asked("whole", rounds=4, adapter=start), asked("cut", rounds=2, adapter=start)
    rl(whole)
    rl(cut)
    rl(replace(cut, rounds=4), resume=True)
    for name in (WEIGHTS, "rollouts.jsonl"):
        assert (Path(whole.out) / name).read_bytes() == (Path(cut.out) / name).read_bytes()
    with pytest.raises(CheckpointError, match="its reference was start, and is base"):
        rl(replace(cut, rounds=5, reference="base"), resume=True)
    rewrite(Path(start) / WEIGHTS, lambda weights: {name: value * 2 for name, value in weights.items()})
    with pytest.raises(CheckpointError, match=r"its file .*adapters\.safetensors was"):
        rl(replace(cut, rounds=5), resume=True)


def test_unfitting_adapter_is_refused_by_name(
    asked: Callable[..., Online], first: Callable[[str], str], tmp_path: Path
) -> None:
    start = first("lora")
    with pytest.raises(ModelError, match="has lora_rank 4, and the run has 2") as error:
        prepare(asked("other", adapter=start, training={"lora_rank": 2}))
    assert error.value.hint == "--lora-rank 4 goes on with that adapter"
    lacking = tmp_path / "lacking"
    shutil.copytree(start, lacking)
    gone = sorted(read_tensors(lacking / WEIGHTS))[3]
    rewrite(lacking / WEIGHTS, lambda weights: {name: one for name, one in weights.items() if name != gone})
    with pytest.raises(ModelError, match=f"lacks {gone}"):
        prepare(asked("other", adapter=str(lacking)))
    with pytest.raises(ModelError, match="there is no such file"):
        prepare(asked("other", adapter=str(tmp_path / "nowhere")))
    with pytest.raises(UsageError, match="is in the folder of the run"):
        prepare(asked("first-lora", adapter=start), force=True)
    assert not (tmp_path / "other").exists()


def test_a_policy_of_ones_own_takes_no_adapter(online: Callable[..., Online], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="adapter needs a model of mlx-lm"):
        prepare(online(adapter=str(tmp_path)))


def test_offline_and_online_go_on_from_each_other(
    asked: Callable[..., Online], first: Callable[[str], str], tiny_model: Path, tmp_path: Path
) -> None:
    start = first("lora")
    log = Path(start) / "rollouts.jsonl"
    karl_fast.sample(log, tmp_path / "data", k=8)
    from karl_fast.train import train

    offline = tmp_path / "offline"
    train(tmp_path / "data", tiny_model, offline, Training(**SMALL, iters=1), resume_adapter_file=Path(start) / WEIGHTS)
    rl(asked("third", adapter=str(offline)))
    seen = _seen_hashes.read_seen(tmp_path / "third")
    before = _seen_hashes.read_seen(offline)
    assert seen is not None
    assert before is not None
    assert before.prompts
    assert before.prompts <= seen.prompts
    config = json.loads((tmp_path / "third" / "adapter_config.json").read_text())
    assert config["lora_parameters"]["rank"] == 4
