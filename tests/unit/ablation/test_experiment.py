"""The file of an experiment: arms over a common run, axes, measures, predictions, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast.ablation import load
from karl_fast.errors import UsageError
from karl_fast.objective.axes.clip import Clip
from karl_fast.objective.axes.kl import K3, NoKL
from tests.unit.ablation.conftest import ARMS, REVERSAL, RUN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_arm_overrides_the_common_run(written: Callable[..., Path]) -> None:
    arms = ARMS + '[arms.other]\nrecipe = "dapo"\ndraws = 4\nalarms = { flat_rounds = 3 }\n'
    experiment = load(written(RUN + "alarms = { idle_rounds = 5 }\n" + arms))
    assert experiment.name == "small"
    assert experiment.baseline == "GRPO"
    assert experiment.seeds == (0, 1, 2, 3, 4)
    other, first = experiment.arms["other"].settings, experiment.arms["GRPO"].settings
    assert (other.recipe, other.draws, first.recipe, first.draws) == ("dapo", 4, "grpo", 1)
    assert (other.alarms.flat_rounds, other.alarms.idle_rounds, first.alarms.flat_rounds) == (3, 5, 10)
    assert other.training.learning_rate == 3e-3


def test_axes_change_points_or_their_numbers(written: Callable[..., Path]) -> None:
    arms = (
        "[arms.GRPO]\n[arms.other]\naxes = { kl = { coef = 1e-3 }, clip = { high = 0.28 } }\n" + ARMS.partition("]")[2]
    )
    experiment = load(written(RUN + arms))
    recipe = experiment.arms["other"].recipe
    assert recipe.changes == ("clip", "kl")
    assert recipe.objective.axes()["clip"] == Clip(0.2, 0.28)
    assert recipe.objective.axes()["kl"] == K3(1e-3)
    assert experiment.arms["no KL"].recipe.objective.axes()["kl"] == NoKL()
    assert experiment.arms["GRPO"].recipe.objective.axes()["kl"] == K3(0.04)


def test_paths_are_relative_to_the_file(written: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("")
    text = RUN.replace(f"{REVERSAL}:prompts", "task.py:prompts") + ARMS
    settings = load(written(text)).arms["GRPO"].settings
    assert settings.prompts == f"{tmp_path}/task.py:prompts"


def test_other_seeds_and_rounds_replace_those_of_the_file(written: Callable[..., Path]) -> None:
    experiment = load(written(), seeds=(7,), rounds=9)
    assert experiment.seeds == (7,)
    assert {arm.settings.rounds for arm in experiment.arms.values()} == {9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"small\.toml: this is not an experiment: it needs the tables \[run\] and \[arms\]"),
        ("seedz = [1]\n" + RUN + ARMS, "the key seedz is unknown, wanted one of question, baseline"),
        ("seeds = []\n" + RUN + ARMS, r"seeds is \[\], wanted one or more whole numbers"),
        ("seeds = [1, 1]\n" + RUN + ARMS, "seeds has 1 twice"),
        ('baseline = "GRPP"\n' + RUN + ARMS, "baseline is 'GRPP', wanted one of the arms GRPO, no KL"),
        (RUN + "seed = 3\n" + ARMS, r"seed is set in \[run\] or \[arms.GRPO\]"),
        (RUN + "roundz = 3\n" + ARMS, r"\[arms.GRPO\] roundz is unknown"),
        (RUN + '[arms."a/b"]\n', "the arm 'a/b' cannot name a folder"),
        (
            RUN + "[arms.a]\naxes.kll = { coef = 1 }\n",
            r"\[arms.a\] axes.kll is \{'coef': 1\}, wanted a table for one of",
        ),
        (RUN + "[arms.a]\naxes.kl = { coeff = 1 }\n", r"\[arms.a\] axes.kl.coeff: K3 has by_ratio, coef"),
        (RUN + '[arms.a]\naxes.kl = { coef = "x" }\n', "axes.kl"),
        (RUN + '[arms.a]\naxes.kl = { point = "K9" }\n', r"\[arms.a\] axes.kl.point is 'K9', wanted one of"),
        (RUN + ARMS + "[measures]\na = { metric = 'outcome', last = 3, below = 1 }\n", "more than one of last, below"),
        (RUN + ARMS + "[measures]\na = { metrik = 'outcome' }\n", "measures.a.metrik is unknown"),
        (RUN + ARMS + '[[predictions]]\nclaim = "a"\narm = "no"\n', "arm is 'no', wanted one of the arms"),
        (RUN + ARMS + '[[predictions]]\nclaim = "a"\narm = "GRPO"\nexpect = "equal"\n', "margin is 0.0, wanted a"),
        (RUN + ARMS + '[[predictions]]\nclaim = "a"\narm = "GRPO"\nexpect = "more"\n', "expect is 'more', wanted"),
        (RUN + ARMS + '[[predictions]]\nclaim = "a"\narm = "GRPO"\nmeasure = "b"\n', "measure is 'b', wanted one of"),
    ],
)
def test_wrong_files_are_refused(written: Callable[..., Path], text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(written(text))
