"""Settings of training, checked when they are made. Names and defaults are those of `mlx_lm lora`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from karl_fast.errors import UsageError

FineTuneType = Literal["lora", "dora", "full"]
TrainOn = Literal["assistant", "last", "all"]
Overlong = Literal["tail", "window", "drop", "error"]
Rewritten = Literal["unroll", "error"]
Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "linear", "cosine"]
Recipe = Literal["sft", "dft", "boltzmann", "awr", "oapl", "vargrad"]
Tracker = Literal["wandb", "trackio"]
Length = int | Literal["auto"]

CHOICES = {
    "fine_tune_type": FineTuneType,
    "train_on": TrainOn,
    "overlong": Overlong,
    "rewritten": Rewritten,
    "optimizer": Optimizer,
    "lr_schedule": Schedule,
    "recipe": Recipe,
}

AUTO = "auto"
"""Instead of a length: the longest that memory has room for."""

GB = 1e9
"""Bytes in the unit of reported sizes."""

LEAST = {
    **dict.fromkeys(("iters", "batch_size", "lora_rank", "grad_accumulation_steps", "keep", "patience"), 1),
    **dict.fromkeys(("steps_per_report", "steps_per_eval", "save_every"), 1),
    **dict.fromkeys(("warmup", "seed"), 0),
}
"""The smallest whole number that a setting takes."""

WITHOUT_EFFECT = ("steps_per_report", "report_to", "project_name", "keep", "memory_limit", "cache_limit")
"""Settings that change the reports of a run, and never its result."""


@dataclass(frozen=True)
class Training:
    """Settings of training: the loss, the learned part of each row, and the optimizer. A step is one weight update.

    Attributes:
        recipe: loss; `karl_fast.train.offline_recipes` has the formulas.
        inverse_temperature: b of exp(b r), for vargrad.
        temperature: divisor of the reward, for awr and oapl.
        train_on: every assistant turn, the last one, or all tokens.
        iters, epochs: batches to train on, or passes over all rows.
        batch_size: rows a batch, and maximum rows in memory at a time; a larger group is one batch, in parts.
        grad_accumulation_steps: batches a step.
        max_seq_length: maximum tokens of a row; ``auto`` for the longest row, or as much of it as fits in memory.
        overlong: treatment of a longer row.
        rewritten: treatment of a row with earlier turns that the template rewrites.
        fine_tune_type: LoRA, DoRA, or whole layers.
        num_layers: number of layers, from the last one; -1 for all, None for 16 or all.
        lora_rank, lora_scale, lora_dropout, lora_keys: settings of the adapters; keys None for all linear layers.
        optimizer, weight_decay: Adam and AdamW correct their bias.
        learning_rate, lr_schedule, warmup: size of the steps.
        max_grad_norm: maximum norm of the gradient, which is scaled down to it; 0 for no limit.
        grad_checkpoint: True to recompute layers in the backward pass.
        val_batches, steps_per_eval, patience: validation and early stopping.
        steps_per_report: steps between lines of the report.
        save_every, keep: checkpoints.
        seed: same seed, data and settings: same bytes.
        memory_limit, cache_limit: in GB.
        report_to, project_name: trackers beside the file of metrics.

    Raises:
        UsageError: for settings that contradict each other or lie outside their range.
    """

    recipe: Recipe = "sft"
    inverse_temperature: float | None = None
    temperature: float | None = None
    train_on: TrainOn = "assistant"
    iters: int = 1000
    epochs: float | None = None
    batch_size: int = 4
    grad_accumulation_steps: int = 1
    max_seq_length: Length = 2048
    overlong: Overlong = "tail"
    rewritten: Rewritten = "unroll"
    fine_tune_type: FineTuneType = "lora"
    num_layers: int | None = None
    lora_rank: int = 8
    lora_scale: float = 20.0
    lora_dropout: float = 0.0
    lora_keys: tuple[str, ...] | None = None
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.01
    learning_rate: float = 1e-05
    lr_schedule: Schedule = "constant"
    warmup: int = 0
    max_grad_norm: float = 1.0
    grad_checkpoint: bool = False
    val_batches: int = 25
    steps_per_eval: int = 200
    steps_per_report: int = 10
    patience: int | None = None
    save_every: int = 100
    keep: int = 2
    seed: int = 0
    memory_limit: float | None = None
    cache_limit: float = 1.0
    report_to: tuple[Tracker, ...] | None = None
    project_name: str | None = None

    def __post_init__(self) -> None:
        for part in (_words, _numbers, _together):
            part(self)

    @property
    def limit_tokens(self) -> int:
        """`max_seq_length`, where it is a number.

        Raises:
            UsageError: it is ``auto``, which the start of a training run makes a number of.
        """
        if isinstance(self.max_seq_length, int):
            return self.max_seq_length
        said = f"max_seq_length is {AUTO}, of which only a training run makes a number: wanted a number"
        raise UsageError(said, "max_seq_length")

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change the result."""
        return {name: value for name, value in asdict(self).items() if name not in WITHOUT_EFFECT}


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Training)}


def _words(settings: Training) -> None:
    for name, kind in CHOICES.items():
        if getattr(settings, name) not in get_args(kind):
            wanted = ", ".join(get_args(kind))
            raise UsageError(f"{name} is {getattr(settings, name)!r}, wanted {wanted}", name)
    for tracker in settings.report_to or ():
        if tracker not in get_args(Tracker):
            raise UsageError(f"report_to names {tracker!r}, wanted {', '.join(get_args(Tracker))}", "report_to")


def _numbers(settings: Training) -> None:
    for name, least in LEAST.items():
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, int) and value >= least):
            raise UsageError(f"{name} is {value}, wanted a whole number from {least} on", name)
    if settings.seed >= 1 << 64:
        raise UsageError(f"seed is {settings.seed}, wanted a whole number below 2**64", "seed")
    _length(settings.max_seq_length)
    for name in ("epochs", "learning_rate", "lora_scale", "temperature", "memory_limit"):
        _real(name, getattr(settings, name), above=0.0)
    for name in ("weight_decay", "max_grad_norm", "inverse_temperature", "cache_limit"):
        _real(name, getattr(settings, name))
    if not 0 <= settings.lora_dropout < 1:
        raise UsageError(f"lora_dropout is {settings.lora_dropout}, wanted a share below 1", "lora_dropout")
    for name in ("num_layers", "val_batches"):
        value = getattr(settings, name)
        if value is not None and value != -1 and value < 1:
            raise UsageError(f"{name} is {value}, wanted 1 or more, or -1 for all", name)


def _length(value: Length) -> None:
    if value != AUTO and not (isinstance(value, int) and value >= 2):
        raise UsageError(f"max_seq_length is {value}, wanted a whole number from 2 on, or {AUTO}", "max_seq_length")


def _real(name: str, value: float | None, above: float | None = None) -> None:
    if value is None or (math.isfinite(value) and (value >= 0 if above is None else value > above)):
        return
    wanted = "from 0 on" if above is None else "above 0"
    raise UsageError(f"{name} is {value}, wanted a finite number {wanted}", name)


TEMPERED = {"inverse_temperature": ("vargrad",), "temperature": ("awr", "oapl")}
"""The recipes that take each."""


def _together(settings: Training) -> None:
    if settings.epochs is not None and settings.iters != DEFAULTS["iters"]:
        raise UsageError("iters and epochs are two ways to say one thing: give one", "iters", "epochs")
    for name, recipes in TEMPERED.items():
        if getattr(settings, name) is not None and settings.recipe not in recipes:
            raise UsageError(
                f"the recipe {settings.recipe} has no use for {name}, which is of {' and '.join(recipes)}", name
            )
        if getattr(settings, name) is None and settings.recipe in recipes:
            raise UsageError(f"the recipe {settings.recipe} needs {name}, which depends on the scale of rewards", name)
    if settings.recipe in ("oapl", "vargrad") and settings.fine_tune_type == "full":
        raise UsageError(
            f"the recipe {settings.recipe} compares with the model before training, and fine_tune_type full keeps none",
            "fine_tune_type",
        )
