"""Every choice of a training run, checked when it is made. Names and defaults are those of `mlx_lm lora`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
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

CHOICES = {
    "fine_tune_type": FineTuneType,
    "train_on": TrainOn,
    "overlong": Overlong,
    "rewritten": Rewritten,
    "optimizer": Optimizer,
    "lr_schedule": Schedule,
    "recipe": Recipe,
}

LEAST = {
    **dict.fromkeys(("iters", "batch_size", "lora_rank", "grad_accumulation_steps", "keep", "patience"), 1),
    **dict.fromkeys(("steps_per_report", "steps_per_eval", "save_every"), 1),
    **dict.fromkeys(("warmup", "seed"), 0),
    "max_seq_length": 2,
}
"""The smallest whole number that a setting takes."""

WITHOUT_EFFECT = ("steps_per_report", "report_to", "project_name", "keep", "memory_limit", "cache_limit")
"""Settings that change what is seen of a run, and never what comes out of it."""


def _say(help: str, default: Any) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Training:
    """What to train, on what part of each row, and how. A step is one update of the weights.

    The text of each setting is in its field's metadata, which ``karl-fast train --help`` prints.

    Raises:
        UsageError: for settings that contradict each other or lie outside their range.
    """

    recipe: Recipe = _say(
        "What is minimised. sft: the log-likelihood. dft: each token scaled by its probability. boltzmann, awr: each row "
        "weighted by log_weight, by advantage. oapl, vargrad: log-ratios regressed on rewards, by group.",
        "sft",
    )
    inverse_temperature: float | None = _say("boltzmann, vargrad: b of exp(b * reward).", None)
    temperature: float | None = _say("awr, oapl: what the reward is divided by.", None)
    train_on: TrainOn = _say("Learn from every assistant turn, the last one, or all tokens.", "assistant")
    iters: int = _say("Batches to train on.", 1000)
    epochs: float | None = _say("Instead of --iters: how often every row is seen.", None)
    batch_size: int = _say("Rows a batch; a recipe by groups takes whole groups, at least so many rows.", 4)
    grad_accumulation_steps: int = _say("Batches a step: their gradients add up as those of one batch.", 1)
    max_seq_length: int = _say("Tokens a row may have.", 2048)
    overlong: Overlong = _say(
        "A longer row: keep its last tokens, cut it into windows, drop it, or end with an error.", "tail"
    )
    rewritten: Rewritten = _say(
        "A template that renders earlier turns otherwise once others follow: train each turn in a row of its own, as "
        "it was when the model said it, or end with an error.",
        "unroll",
    )
    fine_tune_type: FineTuneType = _say("What is trained.", "lora")
    num_layers: int | None = _say("Layers to train, from the last one; -1 for all. [default: 16, or all]", None)
    lora_rank: int = _say("Rank of LoRA.", 8)
    lora_scale: float = _say("What the product of the two LoRA matrices is multiplied with.", 20.0)
    lora_dropout: float = _say("Dropout in front of LoRA.", 0.0)
    lora_keys: tuple[str, ...] | None = _say("Layers that get LoRA, with commas. [default: all that are linear]", None)
    optimizer: Optimizer = _say("Adam and AdamW correct their bias.", "adam")
    weight_decay: float = _say("adamw: share of a weight that a step at learning rate 1 takes away.", 0.01)
    learning_rate: float = _say("Learning rate, after the warm-up.", 1e-5)
    lr_schedule: Schedule = _say("How it falls after the warm-up: not, or to 0 at the end.", "constant")
    warmup: int = _say("Steps over which it rises from 0.", 0)
    max_grad_norm: float = _say("The gradient is scaled down to this norm; 0 for not.", 1.0)
    grad_checkpoint: bool = _say("Less memory, a third more time: layers are computed again going back.", False)
    val_batches: int = _say("Batches of valid.jsonl that are judged by; -1 for all.", 25)
    steps_per_eval: int = _say("Steps between validations.", 200)
    steps_per_report: int = _say("Steps between lines of the report.", 10)
    patience: int | None = _say("Stop after so many validations without a better one.", None)
    save_every: int = _say("Steps between checkpoints.", 100)
    keep: int = _say("Checkpoints that are kept, beside the one that was best.", 2)
    seed: int = _say("Same seed, data and settings: same bytes.", 0)
    memory_limit: float | None = _say("GB that may be used. [default: what the device recommends]", None)
    cache_limit: float = _say("GB that MLX may hold on to for later.", 1.0)
    report_to: tuple[Tracker, ...] | None = _say("Trackers beside metrics.jsonl: wandb, trackio.", None)
    project_name: str | None = _say("The project that trackers file the run under.", None)

    def __post_init__(self) -> None:
        for part in (_words, _numbers, _together):
            part(self)

    def to_dict(self) -> dict[str, Any]:
        """Every choice that can change what comes out."""
        return {name: value for name, value in asdict(self).items() if name not in WITHOUT_EFFECT}


DEFAULTS = {field.name: field.default for field in fields(Training)}


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
            raise UsageError(f"the recipe {settings.recipe} has no use for {name}, which is of {' and '.join(recipes)}", name)
        if getattr(settings, name) is None and settings.recipe in recipes:
            raise UsageError(f"the recipe {settings.recipe} needs {name}, which depends on the scale of rewards", name)
    if settings.recipe in ("oapl", "vargrad") and settings.fine_tune_type == "full":
        raise UsageError(
            f"the recipe {settings.recipe} compares with the model before training, which fine_tune_type full overwrites",
            "fine_tune_type",
        )
    if settings.recipe in ("oapl", "vargrad") and settings.overlong in ("tail", "window"):
        return  # told where a row is overlong: most data sets have none
