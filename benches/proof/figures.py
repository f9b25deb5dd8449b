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


def print_table(found: dict[str, Any]) -> None:
    """Print means, and the difference from the baseline with its interval."""
    print("| | " + " | ".join(TITLES.values()) + " | CPU s |\n|" + "---|" * (len(TITLES) + 2))
    for arm in found["runs"]:
        cells = []
        for measure in TITLES:
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
        draw_arms(file.stem, found)


if __name__ == "__main__":
    main()
