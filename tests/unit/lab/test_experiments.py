"""Each experiment of examples/lab: it loads, and every arm makes a round with the metrics that are measured."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from karl_fast.ablation import load
from karl_fast.objective import recipe
from karl_fast.objective.toml import to_toml
from karl_fast.rl import rl
from tests.unit.lab.conftest import LAB

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

FILES = sorted(LAB.glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_arm_makes_a_round(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMS_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("FORMS_ITERS", "20")
    experiment = load(file, seeds=(0,), rounds=1)
    assert experiment.question
    assert experiment.predictions
    for number, arm in enumerate(experiment.arms.values()):
        if arm.settings.environment and "or_debug" in arm.settings.environment:
            pytest.importorskip("highspy", reason="highspy is not installed: pip install '.[lab]'")
        out = tmp_path / str(number)
        file_of_recipe = tmp_path / f"{number}.toml"
        file_of_recipe.write_text(to_toml(arm.recipe), encoding="utf-8")
        rl(replace(arm.settings, out=str(out), recipe=str(file_of_recipe)))
        (line,) = map(json.loads, (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        metrics = {measure.metric for measure in experiment.measures.values()}
        assert {name for name in metrics if not name.startswith("held_out.")} <= line.keys()
        assert bool(arm.settings.eval_prompts) == any(name.startswith("held_out.") for name in metrics)
        assert not line["missing"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_experiments_have_five_seeds(file: Path) -> None:
    assert len(load(file).seeds) == 5


def test_reward_balance_is_the_arm_that_kept_most_answers() -> None:
    assert load(LAB / "modes.toml").arms["balance of the reward"].recipe.objective == recipe("reward-balance").objective
