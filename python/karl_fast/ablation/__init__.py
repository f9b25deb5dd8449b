"""The laboratory: experiments that compare recipes and settings of `karl_fast.rl` over several seeds.

| name | what it does |
|---|---|
| `load` | reads an experiment from a TOML file |
| `ablate` | runs its arms on its seeds, and returns the record with intervals and verdicts |
| `judge` | a verdict on a prediction, from differences seed by seed |
| `write_page`, `draw_figure` | the page and the figure of a record |

Needs the extra ``train``, and ``plot`` for figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karl_fast.ablation.analysis import Interval, Judgement, interval, judge
    from karl_fast.ablation.experiment import Arm, Experiment, Measure, Prediction, load
    from karl_fast.ablation.report import describe_record, draw_figure, write_page
    from karl_fast.ablation.run import ablate

HOMES = {
    "Arm": "experiment",
    "Experiment": "experiment",
    "Interval": "analysis",
    "Judgement": "analysis",
    "Measure": "experiment",
    "Prediction": "experiment",
    "ablate": "run",
    "describe_record": "report",
    "draw_figure": "report",
    "interval": "analysis",
    "judge": "analysis",
    "load": "experiment",
    "write_page": "report",
}
"""Home modules of public names that need NumPy or MLX; loaded on first use."""

__all__ = [
    "Arm",
    "Experiment",
    "Interval",
    "Judgement",
    "Measure",
    "Prediction",
    "ablate",
    "describe_record",
    "draw_figure",
    "interval",
    "judge",
    "load",
    "write_page",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    from karl_fast._extras import mlx_needed

    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with mlx_needed():
        return getattr(import_module(f"karl_fast.ablation.{HOMES[name]}"), name)
