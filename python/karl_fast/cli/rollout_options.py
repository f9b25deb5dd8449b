"""Options of attempts at held-out prompts, shared by `eval --rollouts` and `promote`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from karl_fast.evaluation import RolloutSettings

SECTION = "Rollouts"
"""Section of these options in a help."""

_option = partial(typer.Option, rich_help_panel=SECTION)

Config = Annotated[
    str | None,
    _option(
        "--config",
        help="The settings of a run of rl: its model, rewards and budgets are used.",
    ),
]
Out = Annotated[
    str | None,
    _option("--out", help="The folder to write: the log of the attempts, and the result."),
]
Attempts = Annotated[int, _option("--attempts", help="Attempts at each prompt.")]
Temperature = Annotated[
    float,
    _option("--temperature", help="Temperature of the attempts; 0 takes the most likely token."),
]
SolvedAt = Annotated[float, _option("--solved-at", help="Smallest reward of a solved attempt.")]
Confidence = Annotated[float, _option("--confidence", help="Confidence level of the intervals.")]
Seed = Annotated[int, _option("--seed", help="Seed of the attempts and of the resampling.")]
Resume = Annotated[bool, _option("--resume", help="Continue the evaluation in --out.")]
Force = Annotated[bool, _option("--force", help="Start anew where there is an evaluation.")]


def build_rollout_settings(config: str | None, data: str | None, *, model: str | None, **given: Any) -> RolloutSettings:
    """Return the settings of attempts; prompts are those of DATA, else the held-out ones of the configuration."""
    from karl_fast.evaluation import RolloutSettings
    from karl_fast.rl import load

    if config is None:
        raise UsageError(
            "config names no file, wanted one with a model and rewards",
            "config",
            hint="the file of karl-fast rl --config is one",
        )
    settings = load(config) if model is None else load(config, model=model)
    if not settings.model:
        raise UsageError("model is not set: attempts need one", "model")
    prompts = data if data is not None else settings.eval_prompts
    if not prompts:
        raise UsageError(
            "no held-out prompts given: wanted a file of them as DATA, or eval_prompts in the file of --config",
            hint="rewards on prompts of the training set do not show how the model does on others",
        )
    return RolloutSettings(settings, prompts, **given)
