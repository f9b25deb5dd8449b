"""A bandit with two equal best arms: a balance keeps every arm at its weight, a policy gradient only the best ones.

    python examples/bandit.py [FIGURE]

Arms pay 1, 1, 0.2 and 0. The Boltzmann target of inverse temperature 3 over the uniform reference is known in closed
form: 0.467, 0.467, 0.042 and 0.023. All objectives see as many rollouts, in groups of 16. Needs the extra
`train`; a figure (SVG or PNG, by its name) needs matplotlib too.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import mlx.core as mx
import mlx.optimizers as optimizers
import numpy as np

from karl_fast.objective import Batch, Objective, recipe
from karl_fast.objective.axes.advantage import Raw
from karl_fast.objective.axes.balance import InverseTemperature, TokenSumLength, Unweighted
from karl_fast.objective.axes.kl import NoKL

REWARDS = np.array([1.0, 1.0, 0.2, 0.0])
INVERSE_TEMPERATURE = 3.0
TARGET = np.exp(INVERSE_TEMPERATURE * REWARDS) / np.exp(INVERSE_TEMPERATURE * REWARDS).sum()
SEEDS, STEPS, GROUP = 5, 600, 16

BALANCE = replace(
    recipe("flowrl-vargrad").objective,
    reward=Raw(),
    length=TokenSumLength(),
    scale=InverseTemperature(INVERSE_TEMPERATURE),
    weight=Unweighted(),
)
OBJECTIVES: dict[str, Objective] = {
    "trajectory balance": BALANCE,
    "GRPO": recipe("grpo").objective,
    "GRPO without its penalty": replace(recipe("grpo").objective, kl=NoKL()),
}


def rollouts(logp: Any, draw: np.random.Generator) -> tuple[Any, Batch]:
    """A group of arms, drawn from the policy."""
    chances = np.exp(np.array(logp, dtype=np.float64))
    arms = draw.choice(len(REWARDS), size=GROUP, p=chances / chances.sum())
    old = np.array(logp)[arms][:, None]
    uniform = np.full_like(old, -np.log(len(REWARDS)))
    group = np.zeros(GROUP, dtype=np.int64)
    return mx.array(arms), Batch(np.ones((GROUP, 1), dtype=np.bool_), REWARDS[arms], group, old, uniform)


def train(objective: Objective, seed: int) -> Any:
    """The probabilities of the arms after each step. [STEPS + 1, arms]"""
    draw = np.random.default_rng(seed)
    model = {"logits": mx.zeros(len(REWARDS))}
    optimizer = optimizers.Adam(optimizers.cosine_decay(0.1, STEPS), bias_correction=True)
    history = [np.full(len(REWARDS), 1 / len(REWARDS))]
    for _ in range(STEPS):
        arms, batch = rollouts(log_softmax(model["logits"]), draw)
        logp = np.array(log_softmax(model["logits"])[arms])[:, None]
        held = mx.array(objective(logp, objective.score(batch)).coefficients[:, 0])
        slope = mx.grad(lambda logits: (held * log_softmax(logits)[arms]).sum())(model["logits"])  # noqa: B023
        model = optimizer.apply_gradients({"logits": slope}, model)
        history.append(np.exp(np.array(log_softmax(model["logits"]))))
    return np.array(history)


def log_softmax(logits: mx.array) -> mx.array:
    """The log-probability of each arm."""
    return logits - mx.logsumexp(logits)


def show(histories: dict[str, list[Any]], file: str) -> None:
    """A column an objective: each arm of each seed as it is learned, and the target."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, columns = pyplot.subplots(1, len(histories), figsize=(9, 3.2), sharey=True)
    colours = ("#1b6ca8", "#d1495b", "#edae49", "#8d99ae")
    steps = np.arange(0, STEPS + 1, 3)
    for axes, (name, runs) in zip(columns, histories.items(), strict=True):
        for arm, colour in enumerate(colours):
            axes.axhline(TARGET[arm], color=colour, linewidth=1, linestyle=":")
            for run in runs:
                label = f"arm {arm + 1}, pays {REWARDS[arm]:g}" if run is runs[0] else None
                axes.plot(steps, run[::3, arm], color=colour, linewidth=0.9, alpha=0.75, label=label)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
    columns[0].set_ylabel("probability (dotted: target)")
    columns[0].legend(frameon=False, fontsize=8, loc="center right")
    figure.tight_layout()
    figure.savefig(file, dpi=150, metadata={"Date": None} if file.endswith(".svg") else None)


def main(*files: str) -> None:
    """Train, print, and draw where a file is named."""
    if files and find_spec("matplotlib") is None:
        sys.exit("a figure needs matplotlib: pip install matplotlib")
    print("target".ljust(34), *(f"{share:.3f}" for share in TARGET))
    histories = {name: [train(objective, seed) for seed in range(SEEDS)] for name, objective in OBJECTIVES.items()}
    for name, runs in histories.items():
        for seed, run in enumerate(runs):
            print(f"{name}, seed {seed}".ljust(34), *(f"{share:.3f}" for share in run[-1]))
    for file in files:
        show(histories, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
