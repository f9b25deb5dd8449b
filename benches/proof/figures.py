"""Draw the records of benches/proof as the figures and tables of docs/proof.md.

    python benches/proof/figures.py [NAME ...]

Needs matplotlib for the figures; the tables are printed as Markdown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "record"))
import trials  # noqa: E402

import record  # noqa: E402

TITLES = {
    "solved": "solved at one attempt",
    "solved_once": "solved in eight attempts",
    "different_right": "different right answers of eight",
}


def draw_arms(name: str, found: dict[str, Any]) -> None:
    """A panel a measure: a point each seed, a bar for the mean of each arm."""

    def draw(*axes: Any) -> None:
        arms = list(found["runs"])[::-1]
        for axis, (measure, title) in zip(axes, TITLES.items(), strict=True):
            for place, arm in enumerate(arms):
                values = [seed[measure] for seed in found["runs"][arm]]
                colour = trials.COLOURS[4] if arm == found["base"] else trials.COLOURS[0]
                axis.barh(place, np.mean(values), color=colour, alpha=0.35, height=0.6)
                axis.plot(values, [place] * len(values), "o", color=colour, markersize=4)
            axis.set_yticks(range(len(arms)), arms if axis is axes[0] else [""] * len(arms))
            axis.set_title(title, fontsize=9, loc="left")
            axis.tick_params(labelsize=8)
            axis.set_xlim(left=0)

    trials.figure(name, draw, len(TITLES))


WEEKS = {
    "week_1_before": "model",
    "week_1_after": "week 1: the agent's log",
    "week_2_after": "week 2: own attempts",
    "week_3_after": "week 3: wrong rewards",
}


ROUNDS = {"outcome": "mean reward of the rollouts", "entropy": "entropy of the rollouts, nats a token"}


def draw_rounds(name: str, found: dict[str, Any]) -> None:
    """Outcome and entropy by round: a thin line each seed, a thick one for the mean of each arm."""

    def draw(*axes: Any) -> None:
        for axis, (metric, title) in zip(axes, ROUNDS.items(), strict=True):
            for colour, (arm, seeds) in zip(trials.COLOURS, found["curves"].items(), strict=False):
                trials.seeds(axis, [seed[metric] for seed in seeds], 1, colour, arm)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_xlabel("round", fontsize=8)
            axis.tick_params(labelsize=8)
        axes[0].legend(frameon=False, fontsize=8)

    trials.figure(f"{name}-rounds", draw, 2)


def draw_weeks(name: str, found: dict[str, Any]) -> None:
    """The held-out reward of the model, and of each week's candidate, a line each seed."""

    def draw(axis: Any) -> None:
        for seeds in found["runs"].values():
            for place, (colour, seed) in enumerate(zip(trials.COLOURS, seeds, strict=False)):
                axis.plot(range(len(WEEKS)), [seed[week] for week in WEEKS], "o-", color=colour, label=f"seed {place}")
        axis.set_xticks(range(len(WEEKS)), list(WEEKS.values()), fontsize=8)
        axis.set_title("held-out reward of the week's candidate", fontsize=9, loc="left")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize=8)

    trials.figure(name, draw, 1)


def print_table(found: dict[str, Any]) -> None:
    """Print means, and the difference from the baseline with its interval."""
    measures = dict.fromkeys([*TITLES, *found["setting"]["measures"]])
    measures = [name for name in measures if name in found["intervals"][found["base"]] and name != "cpu_seconds"]
    titles = [TITLES.get(name, name) for name in measures]
    print("| | " + " | ".join(titles) + " | CPU s |\n|" + "---|" * (len(titles) + 2))
    for arm in found["runs"]:
        cells = []
        for measure in measures:
            cell = f"{found['intervals'][arm][measure][0]:.3f}"
            if arm != found["base"]:
                cell += " ({:+.3f}, {:+.3f} to {:+.3f})".format(*found["differences"][arm][measure])
            cells.append(cell)
        seconds = np.mean([seed["cpu_seconds"] for seed in found["runs"][arm]])
        print(f"| {arm} | " + " | ".join(cells) + f" | {seconds:.0f} |")


def main() -> None:
    for file in sorted(record.RECORD.glob("proof-*.json")):
        if sys.argv[1:] and file.stem.removeprefix("proof-") not in sys.argv[1:]:
            continue
        found = json.loads(file.read_text("utf-8"))
        print(f"\n{file.stem}: {found['setting']['question']}\n")
        print_table(found)
        if found["setting"]["experiment"] == "weeks":
            draw_weeks(file.stem, found)
        else:
            draw_arms(file.stem, found)
        if found.get("curves"):
            draw_rounds(file.stem, found)


if __name__ == "__main__":
    main()
