"""What can be done with a recipe beside computing it: look it up, print, hash, compare, store, load, refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from karl_fast.errors import IncoherentObjectiveError, UsageError
from karl_fast.objective import (
    Distillation,
    PolicyGradient,
    Preference,
    Recipe,
    TargetPolicy,
    TokenGradients,
    TokenTargets,
    TrajectoryBalance,
    WeightedLikelihood,
    from_toml,
    recipe,
    table,
    to_toml,
)
from karl_fast.objective.axes.advantage import Anchored, Centre, Given, Whitened, ZScore
from karl_fast.objective.axes.balance import Huber
from karl_fast.objective.axes.clip import Cap, Clip, Delight, GeometricClip, NoClip
from karl_fast.objective.axes.kl import K1, K2, K3, K1InReward, K1PerToken
from karl_fast.objective.axes.kondo_gate import Gated
from karl_fast.objective.axes.log_z import GroupOptimum
from karl_fast.objective.axes.ratio import OnPolicy, SequenceRatio
from karl_fast.objective.recipes import RECIPES
from tests.unit.objective.batch_cases import title
from tests.unit.objective.objectives_to_test import neighbours

WANTED = """GRPO DR_GRPO DAPO GSPO GSPO_TOKEN CISPO SAPO GMPO RLOO REINFORCE REINFORCE_PLUS_PLUS PPO_CLIP MAXRL PMD_MEAN
SAMPO FLOWRL FLOWRL_RELEASED FLOWRL_VARGRAD PACED OAPL A_STAR_PO AWR TPO DG KONDO ASPO R2VPO VPO DFT SFT BOLTZMANN
MULTI_RLVR GDPO PASS_AT_K DPPO IPO OPD OPD_PG OPD_REVERSE_KL OPD_FORWARD_KL OPD_TOP_K OPD_GRPO
DPO IPO_PAIRS SIMPO KTO ORPO"""
NAMES = {
    "dr-grpo": "DR_GRPO",
    "Dr_GRPO": "DR_GRPO",
    "Dr. GRPO": "DR_GRPO",
    "gspo-token": "GSPO_TOKEN",
    "A*PO": "A_STAR_PO",
    "a-star-po": "A_STAR_PO",
    "reinforce++": "REINFORCE_PLUS_PLUS",
    "Kondo gate": "KONDO",
    " dapo ": "DAPO",
}


def test_every_recipe_that_is_promised_is_there() -> None:
    assert set(WANTED.split()) <= set(RECIPES)


@pytest.mark.parametrize(("written", "name"), NAMES.items())
def test_a_name_is_found_as_people_write_it(written: str, name: str) -> None:
    assert recipe(written) is RECIPES[name]


def test_unknown_recipe_is_refused_with_all_names() -> None:
    with pytest.raises(UsageError, match=r"^there is no recipe 'ppo2'; there are REINFORCE, RLOO, "):
        recipe("ppo2")


@pytest.mark.parametrize("found", RECIPES.values(), ids=title)
def test_each_axis_prints_with_its_source(found: Recipe) -> None:
    head, *lines = str(found).splitlines()
    assert head.startswith(f"{found.name}: {type(found.objective).__name__}, {found.reference}")
    lines = lines[1:] if found.base else lines
    assert len(lines) == len(found.objective.axes())
    for line, (axis, source) in zip(lines, found.sources, strict=True):
        assert line[0] == ("*" if axis in found.changes else " ")
        assert line[2:].split()[0] == axis
        assert repr(getattr(found.objective, axis)) in line
        assert line.endswith(source)
        assert source


@pytest.mark.parametrize("found", RECIPES.values(), ids=title)
def test_a_constant_says_whose_it_is(found: Recipe) -> None:
    """An axis with a number in it has a tag; a root has one on every axis, but for what maximum likelihood is."""
    for axis, source in found.sources:
        if re.search(r"\d", repr(getattr(found.objective, axis))) and found.name != "SFT":
            assert re.search(r"\[(paper|code|note|ours)\]", source), (axis, source)


@pytest.mark.parametrize("found", RECIPES.values(), ids=title)
def test_recipe_round_trips_through_toml(found: Recipe) -> None:
    again = from_toml(to_toml(found))
    assert again == found
    assert hash(again) == hash(found)
    assert str(again) == str(found)
    assert to_toml(again) == to_toml(found)


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_every_point_is_stored(objective: Any) -> None:
    mine = Recipe("mine", objective, "", tuple((axis, "[ours]") for axis in objective.axes()))
    assert from_toml(to_toml(mine)) == mine


def test_recipes_are_all_different_and_cannot_be_changed() -> None:
    assert len({held.objective for held in RECIPES.values()}) == len(RECIPES)
    with pytest.raises(FrozenInstanceError):
        recipe("grpo").name = "mine"  # type: ignore[misc]


def test_custom_recipe_is_a_stored_diff() -> None:
    mine = recipe("grpo").but("mine", "a sweep", clip=(Clip(0.1, float("inf")), 'tried "all" \x7f [ours]'))
    assert mine.changes == ("clip",)
    assert mine.base == "GRPO"
    assert mine.objective == replace(recipe("grpo").objective, clip=Clip(0.1, float("inf")))
    assert from_toml(to_toml(mine)) == mine
    assert from_toml(to_toml(mine)).but("again", "", clip=(Clip(0.2, 0.2), "x")).objective == recipe("grpo").objective


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a = ", "this is not a recipe"),
        ("family = 'Nothing'", r"^family is 'Nothing', wanted one of PolicyGradient, "),
        ("family = 'TargetPolicy'\n[filter]\npoint='KeepAll'", "the recipe has no table target"),
        (to_toml(recipe("grpo")).replace('"Clip"', '"Clop"'), r"^clip\.point is 'Clop', wanted one of"),
        (to_toml(recipe("grpo")).replace("low =", "lower ="), r"^clip\.lower: Clip has high, low$"),
        (to_toml(recipe("grpo")).replace("low = 0.2\n", ""), r"^clip: .*'low'"),
        (to_toml(recipe("grpo")).replace("low = 0.2", "low = 'x'"), r"^clip: "),
        (to_toml(recipe("grpo")).replace('"Clip"', '"K3"'), r"^clip\.high: K3 has by_ratio, coef$"),
        (to_toml(recipe("grpo")).replace('"KeepAll"', '"Centre"'), "filter is a Centre, wanted a point of Filter"),
        (to_toml(recipe("grpo")).replace("base =", "basis ="), r"^the recipe has basis, which"),
    ],
)
def test_a_text_that_is_no_recipe_is_refused(wrong: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_toml(wrong)


GRPO = recipe("grpo").objective
INCOHERENT: list[tuple[dict[str, Any], str]] = [
    ({"kl": K1(0.1)}, "k1 in the loss has a gradient of 0 on average"),
    ({"ratio": OnPolicy()}, "a ratio of 1 is never bounded: Clip does nothing under OnPolicy"),
    ({"ratio": OnPolicy(), "clip": Cap(5.0)}, "Cap does nothing under OnPolicy"),
    ({"clip": Delight()}, "Delight weighs the log-probability: it has no use for TokenRatio"),
    ({"ratio": SequenceRatio(), "clip": GeometricClip(0.4, 0.4)}, "GeometricClip takes the mean itself"),
    ({"ratio": OnPolicy(), "clip": NoClip(), "kl": K3(0.1, by_ratio=True)}, "multiplied by a ratio, which is 1"),
    ({"ratio": OnPolicy(), "clip": NoClip(), "kl": K2(0.1, by_ratio=True)}, "multiplied by a ratio, which is 1"),
    ({"kl": K1PerToken(0.1)}, "K1PerToken rewards tokens, which ZScore does not look at"),
    ({"kl": K1InReward(0.1), "advantage": Given()}, "K1InReward changes the reward, which Given does not look at"),
    ({"kl": K1InReward(0.1), "advantage": Anchored()}, "which Anchored does not look at"),
    ({"kl": K1InReward(0.1), "advantage": Gated(Given())}, "which Gated does not look at"),
]


@pytest.mark.parametrize(("points", "message"), INCOHERENT)
def test_incoherent_points_raise_when_built(points: dict[str, Any], message: str) -> None:
    with pytest.raises(IncoherentObjectiveError, match=message):
        replace(GRPO, **points)


def test_incoherent_balances_raise_when_built() -> None:
    balance = recipe("flowrl-vargrad").objective
    with pytest.raises(IncoherentObjectiveError, match="GroupOptimum is the optimum of Squared"):
        replace(balance, regression=Huber(1.0))
    for shaping in (Whitened(), Anchored(), Gated(Whitened())):
        with pytest.raises(IncoherentObjectiveError, match="needs one reward a rollout"):
            replace(balance, reward=shaping)
    assert replace(balance, log_z=recipe("flowrl").objective.log_z, regression=Huber(1.0)).log_z != GroupOptimum()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"clip": Clip}, "^clip is the class Clip, wanted an instance"),
        ({"clip": ZScore()}, "^clip is a ZScore, wanted a point of Clipper"),
        ({"filter": None}, "^filter is a NoneType, wanted a point of Filter"),
    ],
)
def test_non_point_of_an_axis_is_refused(points: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(GRPO, **points)


def test_an_axis_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^mine changes target, wanted filter, "):
        recipe("grpo").but("mine", "", target=(Centre(), ""))
    with pytest.raises(UsageError, match=r"^mine has the axes filter, wanted filter, target, length$"):
        Recipe.of("mine", TargetPolicy, "", filter=(recipe("tpo").objective.filter, ""))


FAMILIES = (
    PolicyGradient,
    TrajectoryBalance,
    TargetPolicy,
    TokenTargets,
    TokenGradients,
    WeightedLikelihood,
    Distillation,
    Preference,
)


def test_table_has_every_recipe_and_bold_changes() -> None:
    rows = [line for family in FAMILIES for line in table(family).splitlines()[2:]]
    assert len(rows) == len(RECIPES)
    text = "\n".join(rows)
    assert (
        "| DAPO = GRPO but | **Both(DropConstantGroups, DropTruncated)** | | | **Clip(0.2, 0.28)** | **NoKL** |" in text
    )
    for held, row in zip(sorted(RECIPES.values(), key=lambda r: FAMILIES.index(type(r.objective))), rows, strict=True):
        assert row.count("**") == 2 * len(held.changes), held.name


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "objectives.md"


def test_page_tables_match_the_recipes() -> None:
    text = PAGE.read_text("utf-8")
    for family in FAMILIES:
        assert table(family) in text, f"stale: print(karl_fast.objective.table({family.__name__}))"


WITHOUT_MLX = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlx", "torch", "jax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
import numpy as np
from karl_fast.objective import Batch, from_toml, recipe, table, to_toml
from karl_fast.objective.recipes import RECIPES

for found in RECIPES.values():
    assert from_toml(to_toml(found)) == found and str(found) and table(type(found.objective))
logp = np.log([[0.5], [0.25]])
batch = Batch(np.ones((2, 1), dtype=bool), np.array([1.0, 0.0]), np.zeros(2, dtype=np.int64))
print(recipe("sft")(logp, batch).coefficients.tolist())
"""


def test_recipes_are_stored_and_computed_without_a_framework() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_MLX], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[[-0.5], [-0.5]]"]


@pytest.mark.parametrize("axis", ["entropy", "correction", "labels", "tree"])
def test_recipe_from_before_an_axis_loads(axis: str) -> None:
    text = to_toml(recipe("grpo"))
    start = text.index(f"[{axis}]")
    old = text[:start] + text[text.index("\n[", start) + 1 :]
    found = from_toml(old)
    assert found.objective == recipe("grpo").objective
