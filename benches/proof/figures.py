"""Draw the records of benches/proof as the figures and tables of docs/proof.md.

    python benches/proof/figures.py [NAME ...]

Needs matplotlib for the figures; the tables are printed as Markdown.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "record"))
import trials  # noqa: E402

import record  # noqa: E402

Experiment = dict[str, Any]
"""A record of an experiment."""

AFTER_ROUNDS = re.compile(r"(.*), (\d+) rounds")
"""Name of an arm that is another arm after fewer rounds."""


def measure_titles(experiment: Experiment) -> dict[str, str]:
    """Return the title of each measure that is drawn."""
    attempts = {4: "four", 8: "eight"}[experiment["setting"]["attempts"]]
    titles = {
        "solved": "solved at one attempt",
        "solved_once": f"solved in {attempts} attempts",
        "different_right": f"different right answers of {attempts}",
    }
    return {measure: title for measure, title in titles.items() if measure in experiment["setting"]["measures"]}


def draw_arms(name: str, experiment: Experiment) -> None:
    """Draw a panel a measure: a point each seed, a bar for the mean of each arm."""
    titles = measure_titles(experiment)

    def draw(*axes: Any) -> None:
        arms = [arm for arm in experiment["runs"] if not AFTER_ROUNDS.fullmatch(arm)][::-1]
        for axis, (measure, title) in zip(axes, titles.items(), strict=True):
            for place, arm in enumerate(arms):
                values = [seed[measure] for seed in experiment["runs"][arm]]
                colour = trials.COLOURS[4] if arm == experiment["base"] else trials.COLOURS[0]
                axis.barh(place, np.mean(values), color=colour, alpha=0.35, height=0.6)
                axis.plot(values, [place] * len(values), "o", color=colour, markersize=4)
            axis.set_yticks(range(len(arms)), arms if axis is axes[0] else [""] * len(arms))
            axis.set_title(title, fontsize=9, loc="left")
            axis.tick_params(labelsize=8)
            axis.set_xlim(left=0)
            axis.locator_params(axis="x", nbins=5)

    trials.figure(name, draw, len(titles))


def draw_held_out(name: str, experiment: Experiment) -> None:
    """Draw each measure of held-out questions by round, a line an arm, from the start over the arms of fewer rounds."""
    titles, runs = measure_titles(experiment), experiment["runs"]
    last = experiment["setting"]["rl"]["rounds"]
    halfway = {part[1]: (int(part[2]), arm) for arm in runs if (part := AFTER_ROUNDS.fullmatch(arm))}

    def draw(*axes: Any) -> None:
        for axis, (measure, title) in zip(axes, titles.items(), strict=True):
            for colour, (arm, (rounds, fewer)) in zip(trials.COLOURS, halfway.items(), strict=False):
                values = [[seed[measure] for seed in runs[part]] for part in (experiment["base"], fewer, arm)]
                axis.plot([0, rounds, last], values, color=colour, linewidth=0.5, alpha=0.4)
                axis.plot([0, rounds, last], np.mean(values, axis=1), "o-", color=colour, linewidth=1.6, label=arm)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_xlabel("round", fontsize=8)
            axis.set_ylim(bottom=0)
            axis.tick_params(labelsize=8)
        axes[0].legend(frameon=False, fontsize=8)

    if halfway:
        trials.figure(f"{name}-held-out", draw, len(titles))


WEEKS = {
    "week_1_before": "model",
    "week_1_after": "week 1: the agent's log",
    "week_2_after": "week 2: own attempts",
    "week_3_after": "week 3: wrong rewards",
}


ROUNDS = {"outcome": "mean reward of the rollouts", "entropy": "entropy of the rollouts, nats a token"}


def draw_rounds(name: str, experiment: Experiment) -> None:
    """Draw outcome and entropy by round: a thin line each seed, a thick one for the mean of each arm."""

    def draw(*axes: Any) -> None:
        for axis, (metric, title) in zip(axes, ROUNDS.items(), strict=True):
            curves = [pair for pair in experiment["curves"].items() if not AFTER_ROUNDS.fullmatch(pair[0])]
            for colour, (arm, seeds) in zip(trials.COLOURS, curves, strict=False):
                trials.seeds(axis, [seed[metric] for seed in seeds], 1, colour, arm)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_xlabel("round", fontsize=8)
            axis.tick_params(labelsize=8)
        axes[1].legend(frameon=False, fontsize=8)

    trials.figure(f"{name}-rounds", draw, 2)


def draw_weeks(name: str, experiment: Experiment) -> None:
    """Draw the held-out reward of the model, and of each week's candidate, a line each seed."""

    def draw(axis: Any) -> None:
        for seeds in experiment["runs"].values():
            for place, (colour, seed) in enumerate(zip(trials.COLOURS, seeds, strict=False)):
                axis.plot(range(len(WEEKS)), [seed[week] for week in WEEKS], "o-", color=colour, label=f"seed {place}")
        axis.set_xticks(range(len(WEEKS)), list(WEEKS.values()), fontsize=8)
        axis.set_title("held-out reward of the week's candidate", fontsize=9, loc="left")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize=8)

    trials.figure(name, draw, 1)


def print_table(experiment: Experiment) -> None:
    """Print means, and the difference from the baseline with its interval."""
    known = measure_titles(experiment)
    measures = dict.fromkeys([*known, *experiment["setting"]["measures"]])
    measures = [
        name for name in measures if name in experiment["intervals"][experiment["base"]] and name != "cpu_seconds"
    ]
    titles = [known.get(name, name) for name in measures]
    print("| | " + " | ".join(titles) + " | CPU s |\n|" + "---|" * (len(titles) + 2))
    for arm in experiment["runs"]:
        cells = []
        for measure in measures:
            cell = f"{experiment['intervals'][arm][measure][0]:.3f}"
            if arm != experiment["base"]:
                cell += " ({:+.3f}, {:+.3f} to {:+.3f})".format(*experiment["differences"][arm][measure])
            cells.append(cell)
        seconds = np.mean([seed["cpu_seconds"] for seed in experiment["runs"][arm]])
        print(f"| {arm} | " + " | ".join(cells) + f" | {seconds:.0f} |")


def main() -> None:
    for file in sorted(record.RECORD.glob("proof-*.json")):
        if sys.argv[1:] and file.stem.removeprefix("proof-") not in sys.argv[1:]:
            continue
        experiment = json.loads(file.read_text("utf-8"))
        print(f"\n{file.stem}: {experiment['setting']['question']}\n")
        print_table(experiment)
        if experiment["setting"]["experiment"] == "weeks":
            draw_weeks(file.stem, experiment)
        else:
            draw_arms(file.stem, experiment)
        if experiment.get("curves"):
            draw_rounds(file.stem, experiment)
            draw_held_out(file.stem, experiment)


if __name__ == "__main__":
    main()
