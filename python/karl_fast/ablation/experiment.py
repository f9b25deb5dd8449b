"""An experiment as a TOML file: runs of `rl` that differ in what their arms say, and what is predicted of them.

    question = "Which of DAPO's changes helps GRPO?"
    baseline = "GRPO"
    seeds = [0, 1, 2, 3, 4]
    setting = "Three of eight symbols are to be written backwards."     # what a reader has to know, for the page

    [run]                                  # settings of every run: the options of rl
    model = "reversal.py:policy"
    prompts = "reversal.py:prompts"
    recipe = "grpo"
    rounds = 100
    rewards = { "reversal.py:reward" = 1.0 }

    [arms.GRPO]                            # nothing differs
    [arms."higher clip"]
    axes.clip = { high = 0.28 }            # an axis of the recipe: some of its numbers, or another point
    [arms.redraw]
    draws = 4                              # any setting

    [measures]                             # default: the outcome of the last ten rounds
    outcome = { metric = "outcome", last = 10 }
    "entropy left" = { metric = "entropy", last = 10 }
    "rounds to entropy 0.1" = { metric = "entropy", below = 0.1 }

    [[predictions]]
    claim = "Redrawing constant groups raises the outcome."
    arm = "redraw"
    expect = "higher"                      # or lower, or equal with a margin

Paths are relative to the folder of the file. An arm's table overrides `[run]`; tables such as `alarms` are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import UsageError
from karl_fast.rl.settings import TABLES, Online, load_recipe, resolve_paths
from karl_fast.settings.schema import build, check_keys, shorten
from karl_fast.settings.toml import name_file, parse_toml, read_config_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karl_fast.objective import Recipe

LAST_ROUNDS = 10
"""Number of last rounds whose mean a measure is, where nothing else is said."""

Expectation = Literal["higher", "lower", "equal"]


@dataclass(frozen=True)
class Measure:
    """A number of a run, made from one metric of its rounds.

    Attributes:
        metric: name in ``metrics.jsonl``; ``held_out.`` in front for one of the last line of ``held_out.jsonl``.
        last: number of last rounds whose mean it is; None for all rounds, or for the newest evaluation.
        below: None, or the level that the metric has to fall to: the measure is the number of that round, from 1. A
            run that never reaches it counts one round more than it was to make.
        above: likewise, for a metric that rises.
        lost: None, or a number of rounds: the measure is the highest mean of so many rounds in a row, less that of the
            last ones. 0 for a run that ends at its best; a collapse is a large number.
    """

    metric: str
    last: int | None = None
    below: float | None = None
    above: float | None = None
    lost: int | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.last, self.below, self.above, self.lost)) > 1:
            raise UsageError(f"the measure of {self.metric} has more than one of last, below, above and lost; use one")
        for name, value in (("last", self.last), ("lost", self.lost)):
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value} for {self.metric}, wanted a number of rounds from 1 on")


@dataclass(frozen=True)
class Prediction:
    """Expectation of an arm, stated before it runs.

    Attributes:
        claim: a sentence.
        arm: name of the arm.
        than: arm that it is compared with; the baseline where empty.
        measure: name of the measure; the first where empty.
        expect: direction of the difference; ``equal`` for one within the margin.
        margin: the difference has to exceed it, or stay within it.
    """

    claim: str
    arm: str
    than: str = ""
    measure: str = ""
    expect: Expectation = "higher"
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.expect not in ("higher", "lower", "equal"):
            raise UsageError(f"expect is {shorten(self.expect)}, wanted higher, lower or equal")
        if self.margin < 0 or (self.expect == "equal" and not self.margin):
            raise UsageError(f"margin is {self.margin}, wanted a positive number for equal, and none below 0")


@dataclass(frozen=True)
class Arm:
    """Settings of one kind of run.

    Attributes:
        name: name of the arm.
        settings: settings of `Online`, without the seed and the folder.
        recipe: recipe with the axes that the arm changes.
        changes: the arm's own table, as the file has it.
    """

    name: str
    settings: Online
    recipe: Recipe
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """Arms, seeds, measures and predictions.

    Attributes:
        name: name of the file, without its suffix.
        question: what the experiment is to answer.
        baseline: name of the arm that the others are compared with.
        seeds: one run for each seed and arm; a seed has the same first rollouts in every arm of one policy.
        arms: by name, the baseline first.
        measures: by name, in the order of the table.
        predictions: to be judged.
        setting: sentences on what every run does, for people.
        run: settings of every run, as the file has them.
    """

    name: str
    question: str
    baseline: str
    seeds: tuple[int, ...]
    arms: Mapping[str, Arm]
    measures: Mapping[str, Measure]
    predictions: tuple[Prediction, ...] = ()
    setting: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)


KEYS = ("question", "baseline", "seeds", "setting", "run", "arms", "measures", "predictions")


def load(path: str | Path, *, seeds: tuple[int, ...] | None = None, rounds: int | None = None) -> Experiment:
    """Load an experiment.

    Args:
        path: a TOML file.
        seeds: other seeds than those of the file.
        rounds: another number of rounds than that of the file and its arms.

    Returns:
        The experiment, with paths relative to the working directory.

    Raises:
        FileError: it cannot be read.
        UsageError: it is not TOML, lacks a part, or has an unknown key or arm, or a wrong value.
    """
    file = Path(path)
    text = read_config_text(file)
    try:
        return _parse(file, parse_toml(text), seeds, rounds)
    except UsageError as error:
        raise name_file(file, error, *error.settings) from error


def _parse(file: Path, top: dict[str, Any], seeds: tuple[int, ...] | None, rounds: int | None) -> Experiment:
    _refuse_unknown("", top, KEYS)
    run, tables = _table(top, "run"), _table(top, "arms")
    if not run or not tables:
        raise UsageError("this is not an experiment: it needs the tables [run] and [arms]")
    more = {} if rounds is None else {"rounds": rounds}
    arms = {name: _parse_arm(name, run, _table(tables, name), more, file.parent) for name in tables}
    baseline = top.get("baseline", next(iter(arms)))
    _refuse_unknown_arm("baseline", baseline, arms)
    measures = {name: _make(Measure, f"measures.{name}", table) for name, table in _table(top, "measures").items()} or {
        "outcome": Measure("outcome", LAST_ROUNDS)
    }
    predictions = tuple(_make(Prediction, "predictions", table) for table in top.get("predictions", []))
    for prediction in predictions:
        _refuse_unknown_arm("arm", prediction.arm, arms)
        _refuse_unknown_arm("than", prediction.than or baseline, arms)
        if prediction.measure and prediction.measure not in measures:
            raise UsageError(f"measure is {prediction.measure!r}, wanted one of {', '.join(measures)}")
    return Experiment(
        name=file.stem,
        question=str(top.get("question", "")),
        baseline=baseline,
        seeds=check_seeds(top.get("seeds", [0, 1, 2, 3, 4]) if seeds is None else seeds),
        arms={baseline: arms[baseline]} | arms,
        measures=measures,
        predictions=predictions,
        setting=" ".join(str(top.get("setting", "")).split()),
        run=run | more,
    )


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """Return the seeds of an experiment.

    Raises:
        UsageError: there is none, one is there twice, or one is not a whole number.
    """
    if not isinstance(seeds, list | tuple) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UsageError(f"seeds is {shorten(seeds)}, wanted one or more whole numbers from 0 on", "seeds")
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise UsageError(f"seeds has {twice[0]} twice, wanted each once: the same run gives the same result", "seeds")
    return tuple(seeds)


def _parse_arm(name: str, run: dict[str, Any], own: dict[str, Any], more: dict[str, Any], folder: Path) -> Arm:
    if not name or name.startswith(".") or {"/", "\\"} & set(name):
        raise UsageError(f"the arm {name!r} cannot name a folder, wanted a name without / and \\")
    values = dict(own)
    axes = values.pop("axes", {})
    merged = run | values | more
    for table in TABLES:
        if table in run and table in values:
            merged[table] = _table(run, table) | _table(values, table)
    if reserved := merged.keys() & {"seed", "out"}:
        raise UsageError(f"{min(reserved)} is set in [run] or [arms.{name}]: the experiment sets it for each run")
    settings = build(Online, resolve_paths(check_keys(Online, merged, where=f"[arms.{name}] "), folder))
    return Arm(name, settings, _change_axes(name, load_recipe(settings.recipe), axes), own)


def _change_axes(name: str, recipe: Recipe, axes: Any) -> Recipe:
    """Return a recipe with some axes changed; a table without ``point`` changes numbers of the point that is there."""
    from karl_fast.objective.toml import parse_point

    if not axes:
        return recipe
    current: dict[str, Any] = recipe.objective.axes()
    points = {}
    for axis, table in axes.items():
        if axis not in current or not isinstance(table, dict):
            wanted = f"wanted a table for one of {', '.join(current)}"
            raise UsageError(f"[arms.{name}] axes.{axis} is {shorten(table)}, {wanted}")
        place = f"[arms.{name}] axes.{axis}"
        entries = {} if "point" in table else {"point": type(current[axis]).__name__, **vars(current[axis])}
        points[axis] = parse_point(place, entries | table)
    return recipe.but(name, "this experiment", **{axis: (point, "[ours]") for axis, point in points.items()})


def _make(kind: Any, place: str, table: Any) -> Any:
    if not isinstance(table, dict):
        raise UsageError(f"{place} is {shorten(table)}, wanted a table")
    _refuse_unknown(f"{place}.", table, [entry.name for entry in fields(kind)])
    try:
        return kind(**table)
    except TypeError as error:
        raise UsageError(f"{place}: {error}") from error


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    value = values.get(name, {})
    if not isinstance(value, dict):
        raise UsageError(f"{name} is {shorten(value)}, wanted a table")
    return value


def _refuse_unknown(place: str, table: dict[str, Any], known: Any) -> None:
    if unknown := [key for key in table if key not in known]:
        raise UsageError(
            f"the key {place}{unknown[0]} is unknown, wanted one of {', '.join(known)}",
            hint=ask_whether(nearest(unknown[0], known)),
        )


def _refuse_unknown_arm(key: str, name: str, arms: Mapping[str, Arm]) -> None:
    if name not in arms:
        raise UsageError(
            f"{key} is {name!r}, wanted one of the arms {', '.join(arms)}", hint=ask_whether(nearest(name, arms))
        )
