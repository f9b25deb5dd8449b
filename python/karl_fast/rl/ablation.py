"""Ablations: a baseline, and arms that each change one choice, over several seeds.

| arm | differs from the baseline in |
|---|---|
| baseline | GRPO with k3 at 0.001 |
| no_kl | kl: none |
| asym_clip | clip: 0.2 below, 0.28 above (DAPO's clip-higher) |
| dynamic | draws: groups with equal rewards are redrawn (DAPO's dynamic sampling) |
| token_loss | aggregate: the mean over tokens |

The names are those of a study that compared scaled rewards of one arm with those of the others. Here every arm is
judged by its outcomes, which are rewards before any shaping.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic
from karl_fast.errors import AlarmError, UsageError
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.modeling.load import require_mlx_lm
from karl_fast.objective import Recipe, recipe, to_toml
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Clip
from karl_fast.objective.axes.kl import K3, NoKL
from karl_fast.rl.run import rl
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.evaluation import student

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karl_fast.rl.settings import Online

DRAWS = 4
"""Maximum draws of P groups in a round of the arm `dynamic`."""

LAST = 10
"""Number of last rounds that a run is judged by, by their mean outcome."""


def arms() -> dict[str, Recipe]:
    """Return the recipe of each arm; that of `dynamic` is the baseline's."""
    baseline = recipe("grpo").but("baseline", "ablations", kl=(K3(0.001), "beta 0.001 of the ablation script [code]"))
    changes: dict[str, dict[str, Any]] = {
        "no_kl": {"kl": (NoKL(), "beta 0 of the ablation script [code]")},
        "asym_clip": {"clip": (Clip(0.2, 0.28), "DAPO, section 3.1 [paper]")},
        "dynamic": {},
        "token_loss": {"aggregate": (TokenMean(), "DAPO, section 3.3 [paper]")},
    }
    return {"baseline": baseline} | {name: baseline.but(name, "ablations", **axes) for name, axes in changes.items()}


@dataclass(frozen=True)
class Arm:
    """Result of an arm.

    Attributes:
        name: name of the arm.
        outcomes: the mean outcome of the last rounds of each seed. [S]
        stopped: messages of alarms, by seed.
        mean: mean of the outcomes.
        low, high: a 95 % interval of the mean over seeds (Student's t); None with one seed.
        difference: the mean over seeds of outcome less the baseline's of the same seed.
        difference_low, difference_high: its 95 % interval; None with one seed.
    """

    name: str
    outcomes: tuple[float, ...]
    stopped: Mapping[int, str]
    mean: float
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None


def ablate(
    settings: Online,
    out: str | Path,
    *,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    only: Sequence[str] | None = None,
    told: Callable[[str, int, float], None] | None = None,
) -> list[Arm]:
    """Run each arm on each seed, and compare them.

    Args:
        settings: settings of every run; recipe and seed are ignored, and draws in the arm ``dynamic``.
        out: a folder with one folder a run. Existing runs are resumed; one without a checkpoint starts anew.
        seeds: one run for each seed and arm. A seed has the same first rollouts in every arm.
        only: names of arms; the baseline is always included.
        told: called with arm, seed and outcome after each run.

    Returns:
        The arms, the baseline first.

    Raises:
        UsageError: an unknown arm, no seed, a repeated seed, or an empty path.
        KarlError: as `karl_fast.rl.rl`; a run that an alarm stops counts with the rounds it made.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476) for the four changes.
    """
    require_mlx_lm()
    recipes = arms()
    selected = ["baseline", *(name for name in only or recipes if name != "baseline")]
    if unknown := [name for name in selected if name not in recipes]:
        raise UsageError(f"there is no arm {unknown[0]!r}; there are {', '.join(recipes)}", "only")
    refuse_empty(out=out)
    _atomic.refuse_file(Path(out))
    if not seeds:
        raise UsageError("seeds is empty, wanted one or more", "seeds")
    if twice := [seed for seed in seeds if list(seeds).count(seed) > 1]:
        raise UsageError(f"seeds has {twice[0]} twice, wanted each once: the same run gives the same result", "seeds")
    outcomes: dict[str, list[float]] = {}
    stopped: dict[str, dict[int, str]] = {}
    for name in selected:
        for seed in seeds:
            outcome, alarm = _run(settings, Path(out), name, recipes[name], seed)
            outcomes.setdefault(name, []).append(outcome)
            stopped.setdefault(name, {}).update({seed: alarm} if alarm else {})
            if told is not None:
                told(name, seed, outcome)
    return [_arm(name, outcomes, stopped[name]) for name in selected]


def _run(settings: Online, out: Path, name: str, arm: Recipe, seed: int) -> tuple[float, str | None]:

    folder = out / name / str(seed)
    with _atomic.name_file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    text = to_toml(arm)
    _atomic.write_file(out / name / "recipe.toml", lambda file: file.write(text.encode()))
    own = replace(
        settings,
        out=str(folder),
        recipe=str(out / name / "recipe.toml"),
        draws=DRAWS if name == "dynamic" else 1,
        training=replace(settings.training, seed=seed),
    )
    alarm = None
    try:
        with contextlib.chdir("."):  # a reward function may leave the folder that paths are relative to
            rl(own, resume=True, force=True)
    except AlarmError as error:
        alarm = str(error)
    return outcome(folder), alarm


def outcome(folder: Path) -> float:
    """Return the mean outcome of the last rounds of a run, from its metrics; NaN where every reward was missing."""
    import json

    lines = [json.loads(text) for text in (folder / METRICS_FILE).read_text("utf-8").splitlines()]
    outcomes = [line["outcome"] for line in lines[-LAST:] if "outcome" in line]
    return float(np.mean(outcomes)) if outcomes else math.nan


def _arm(name: str, outcomes: Mapping[str, Sequence[float]], stopped: Mapping[int, str]) -> Arm:
    own, base = np.array(outcomes[name]), np.array(outcomes["baseline"])
    return Arm(name, tuple(outcomes[name]), stopped, *interval(own), *interval(own - base))


def interval(values: Any) -> tuple[float, float | None, float | None]:
    """Return the mean of numbers, and its 95 % interval by Student's t; None for one number."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean, mean - half, mean + half
