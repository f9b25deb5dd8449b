"""Arms over several seeds: their intervals, the record that is kept of them, and the look of their figures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

import record
from karl_fast.ablation import interval

SMOKE = "--smoke" in sys.argv
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#6a994e", "#8d99ae", "#6d597a", "#2f3e46")

Runs = dict[str, list[dict[str, float]]]
"""The measures of each seed, by arm."""


def intervals(runs: Runs) -> dict[str, dict[str, list[float]]]:
    """Mean, low and high of each measure of each arm: a 95 % interval over seeds, by Student's t."""
    return {arm: {name: _numbers([seed[name] for seed in seeds]) for name in seeds[0]} for arm, seeds in runs.items()}


def _numbers(values: list[float]) -> list[float]:
    over = interval(values)
    return [round(number, 4) for number in (over.mean, over.low, over.high)]


def differences(runs: Runs, base: str) -> dict[str, dict[str, list[float]]]:
    """The same of each arm less the base, seed by seed."""
    apart = {
        arm: [{name: seed[name] - other[name] for name in seed} for seed, other in zip(seeds, runs[base], strict=True)]
        for arm, seeds in runs.items()
        if arm != base
    }
    return intervals(apart)


def show(runs: Runs, base: str) -> None:
    """A line an arm, a column a measure; then what lies between each arm and the base."""
    _table(intervals(runs))
    if len(runs) > 1:
        print(f"\nless {base}, seed by seed")
        _table(differences(runs, base))


def _table(by_arm: dict[str, dict[str, list[float]]]) -> None:
    measures = list(next(iter(by_arm.values())))
    print(f"{'':26}" + "".join(f"{name:>24}" for name in measures))
    for arm, values in by_arm.items():
        cells = ("{:.3f} ({:.3f} to {:.3f})".format(*values[name]) for name in measures)
        print(f"{arm:26}" + "".join(f"{cell:>24}" for cell in cells))


def keep(name: str, setting: dict[str, Any], runs: Runs, base: str, **more: Any) -> None:
    """Write the record of an experiment beside the others; a smoke run leaves it as it is."""
    if SMOKE:
        return
    results = {"intervals": intervals(runs), "base": base, "differences": differences(runs, base)}
    whole = {"machine": record.facts(), "setting": setting, **results, "runs": runs, **more}
    (record.RECORD / f"{name}.json").write_text(record.dumps(whole), encoding="utf-8")


def figure(name: str, draw: Any, columns: int) -> None:
    """Let `draw` fill axes side by side, and write them to docs/images, where matplotlib is installed."""
    if SMOKE:
        return
    try:
        import matplotlib as mpl
    except ImportError:
        print("no matplotlib: no figure", file=sys.stderr)
        return
    mpl.use("agg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = name
    drawn, axes = pyplot.subplots(1, columns, figsize=(7.6, 3.3), squeeze=False)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    draw(*axes[0])
    drawn.tight_layout()
    file = IMAGES / f"{name}.svg"
    drawn.savefig(file, metadata={"Date": None})
    pyplot.close(drawn)
    file.write_text(compact_svg(file.read_text("utf-8")), encoding="utf-8")


def compact_svg(text: str) -> str:
    """Return a figure of matplotlib without metadata, its lengths to a tenth of a point, a group of elements a line."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    lengths = re.compile(r'\b(?:d|x|y|points)="[^"]*"|translate\([^)]*\)')  # not scale(): glyphs have units of a 64th
    text = lengths.sub(lambda part: re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", part[0]), text)
    return re.sub(r"\s+", " ", text).replace(" <g id", "\n<g id").strip() + "\n"


def smooth(values: Any, width: int = 10) -> Any:
    """Return the mean over each stretch of so many rounds."""
    values = np.asarray(values, dtype=float)
    width = min(width, len(values))
    return np.convolve(values, np.ones(width) / width, mode="valid")


def stretches(values: Any, width: int) -> list[float]:
    """Return the mean over each so many rounds, one after the other."""
    return [round(float(np.mean(part)), 4) for part in np.split(values, range(width, len(values), width))]


def seeds(axis: Any, each: Any, width: int, colour: str, label: str) -> None:
    """Draw a thin line a seed, by stretches of so many rounds, and a thick one for their mean."""
    place = (np.arange(len(each[0])) + 0.5) * width
    axis.plot(place, np.transpose(each), color=colour, linewidth=0.5, alpha=0.4)
    axis.plot(place, np.mean(each, axis=0), color=colour, linewidth=1.6, label=label)


def online(settings: Any, recipe: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Run a recipe by `karl_fast.rl`; the policy at its end, and the metrics of each round."""
    from karl_fast.modeling.checkpoint import METRICS_FILE
    from karl_fast.objective import to_toml
    from karl_fast.rl import rl
    from karl_fast.rl.setup import prepare

    out = Path(settings.out)
    out.mkdir(parents=True)
    Path(settings.recipe).write_text(to_toml(recipe), encoding="utf-8")
    rl(settings)
    run = prepare(settings, resume=True)
    run.close()
    return run.policy, [json.loads(line) for line in (out / METRICS_FILE).read_text("utf-8").splitlines()]
