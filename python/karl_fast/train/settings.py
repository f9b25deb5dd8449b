"""Settings of training, checked when they are made. Names and defaults are those of `mlx_lm lora`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from karl_fast.errors import UsageError
from karl_fast.settings import values
from karl_fast.settings.schema import (
    FROM_ONE,
    FROM_ZERO,
    POSITIVE,
    SEED,
    Range,
    ToolFormat,
    document_settings,
    setting,
    validate,
)

LOSS, DATA, ADAPTER, OPTIMIZER = "Loss", "Data", "Adapter", "Optimizer"
VALIDATION, RUN = "Validation", "Run"

FineTuneType = Literal["lora", "dora", "full"]
TrainOn = Literal["assistant", "last", "all"]
Overlong = Literal["tail", "window", "drop", "error"]
Rewritten = Literal["unroll", "error"]
Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "linear", "cosine"]
Recipe = Literal[
    "sft", "dft", "surprisal-gate", "boltzmann", "awr", "oapl", "vargrad", "dpo", "ipo", "simpo", "kto", "orpo"
]
Tracker = Literal["wandb", "trackio"]
Length = int | Literal["auto"]

AUTO = "auto"
"""Instead of a length: one that fits in memory."""

BETA, LAMBDA = 5.0, 0.5
"""Sharpness of a spike of surprisal, and its price. rl-experiments @879294c, `pedagogy_sandbox`."""

LENGTHS = ("max_seq_length", "segment_length")
"""Settings that may be ``auto``: a run finds a number once, and keeps it."""

GB = 1e9
"""Bytes in the unit of reported sizes."""

WITHOUT_EFFECT = ("steps_per_report", "report_to", "project_name", "keep", "memory_limit", "cache_limit")
"""Settings that change the reports of a run, and never its result."""


@document_settings
@dataclass(frozen=True)
class Training:
    """Settings of training: the loss, the learned part of each row, and the optimizer. A step is one weight update.

    `karl-fast train --help` describes each. Lengths are in tokens, rates of memory in GB; a setting of None is left to
    the run.

    Raises:
        UsageError: for settings that contradict each other or lie outside their range.
    """

    recipe: Recipe = setting(
        "sft",
        LOSS,
        "Loss. sft: the log-likelihood. dft: each token scaled by its probability. "
        "surprisal-gate: tokens that surprise the model hardly count. boltzmann, awr: each row weighted "
        "by log_weight, by advantage. oapl, vargrad: log-ratios regressed on rewards, by group. dpo, ipo, simpo, orpo: "
        "the margin of chosen answers over rejected ones. kto: answers with a label.",
    )
    inverse_temperature: float | None = setting(None, LOSS, "vargrad: b of exp(b * reward).", bounds=FROM_ZERO)
    temperature: float | None = setting(
        None,
        LOSS,
        "awr, oapl: divisor of the reward. dpo, ipo, kto, simpo: factor of the log-ratio, their beta. "
        "[default: 0.1; simpo: 2]",
        bounds=POSITIVE,
    )
    target_margin: float | None = setting(
        None, LOSS, "simpo: margin that is wanted, its gamma. [default: half of --temperature]", bounds=FROM_ZERO
    )
    odds_weight: float | None = setting(
        None, LOSS, "orpo: weight of the odds ratio beside the likelihood. [default: 0.1]", bounds=POSITIVE
    )
    desirable_weight: float | None = setting(
        None, LOSS, "kto: weight of answers with the label true. [default: 1]", bounds=FROM_ZERO
    )
    undesirable_weight: float | None = setting(
        None, LOSS, "kto: weight of answers with the label false. [default: 1]", bounds=FROM_ZERO
    )
    train_on: TrainOn = setting("assistant", DATA, "Learn from every assistant turn, the last one, or all tokens.")
    iters: int = setting(1000, DATA, "Batches to train on.", bounds=FROM_ONE)
    epochs: float | None = setting(None, DATA, "Instead of --iters: passes over all rows.", bounds=POSITIVE)
    batch_size: int = setting(
        4,
        DATA,
        "Rows a batch, and maximum rows in memory at a time: where a recipe keeps groups together, a larger group "
        "passes in parts.",
        bounds=FROM_ONE,
    )
    grad_accumulation_steps: int = setting(
        1, DATA, "Batches a step: their gradients add up as those of one batch.", bounds=FROM_ONE
    )
    max_seq_length: Length = setting(
        AUTO,
        DATA,
        "Maximum tokens of a row; auto: those of the longest row, or as many as fit in memory.",
        bounds=Range(low=2),
    )
    segment_length: Length = setting(
        AUTO,
        DATA,
        "Tokens of a row that pass through the model at a time: longer rows take more passes and less memory, with the "
        "same gradient. auto: whole rows where they fit in memory, else as many tokens as fit.",
        bounds=Range(low=8),
    )
    overlong: Overlong = setting(
        "tail",
        DATA,
        "Treatment of a longer row: keep its last tokens, cut it into windows, drop it, or end with an error.",
    )
    rewritten: Rewritten = setting(
        "unroll",
        DATA,
        "Treatment of a row whose earlier turns the template renders differently once others follow: train each turn "
        "in a row of its own, as the model wrote it, or end with an error.",
    )
    tool_format: ToolFormat = setting(
        "auto",
        DATA,
        "Calls of tools and their results: as the chat template writes them (template; a row that it does not show "
        "whole is dropped), as text between <tool_call> tags (text), or as text only in such rows (auto).",
    )
    fine_tune_type: FineTuneType = setting("lora", ADAPTER, "Parameters to train: LoRA, DoRA, or whole layers.")
    num_layers: int | None = setting(
        None,
        ADAPTER,
        "Layers to train, from the last one; -1 for all. [default: 16, or all]",
        bounds=Range(low=1, also=-1),
    )
    lora_rank: int = setting(8, ADAPTER, "Rank of LoRA.", bounds=FROM_ONE)
    lora_scale: float = setting(20.0, ADAPTER, "Factor of the product of the two LoRA matrices.", bounds=POSITIVE)
    lora_dropout: float = setting(0.0, ADAPTER, "Dropout in front of LoRA.", bounds=Range(low=0, below=1))
    lora_keys: tuple[str, ...] | None = setting(
        None,
        ADAPTER,
        "Layers that get LoRA, with commas. [default: all that are linear, routed experts too]",
        form=values.NAMES,
    )
    optimizer: Optimizer = setting("adam", OPTIMIZER, "Adam and AdamW correct their bias.")
    weight_decay: float = setting(
        0.01, OPTIMIZER, "adamw: share of a weight that a step at learning rate 1 removes.", bounds=FROM_ZERO
    )
    learning_rate: float = setting(1e-05, OPTIMIZER, "Learning rate, after the warm-up.", bounds=POSITIVE)
    lr_schedule: Schedule = setting(
        "constant", OPTIMIZER, "Decay of the learning rate after the warm-up: none, or to 0 at the end."
    )
    warmup: int = setting(0, OPTIMIZER, "Steps over which the learning rate rises from 0.", bounds=FROM_ZERO)
    max_grad_norm: float = setting(
        1.0, OPTIMIZER, "Maximum norm of the gradient, which is scaled down to it; 0 for no limit.", bounds=FROM_ZERO
    )
    grad_checkpoint: bool = setting(
        False, OPTIMIZER, "Recompute layers in the backward pass: less memory, a third more time."
    )
    val_batches: int = setting(
        25, VALIDATION, "Batches of valid.jsonl in a validation; -1 for all.", bounds=Range(low=1, also=-1)
    )
    steps_per_eval: int = setting(200, VALIDATION, "Steps between validations.", bounds=FROM_ONE)
    steps_per_report: int = setting(10, VALIDATION, "Steps between lines of the report.", bounds=FROM_ONE)
    patience: int | None = setting(
        None, VALIDATION, "Validations without a better loss before training stops.", bounds=FROM_ONE
    )
    save_every: int = setting(100, RUN, "Steps between checkpoints.", bounds=FROM_ONE)
    keep: int = setting(2, RUN, "Checkpoints to keep, besides the best.", bounds=FROM_ONE)
    seed: int = setting(0, RUN, "Same seed, data and settings: same bytes.", bounds=SEED)
    memory_limit: float | None = setting(
        None, RUN, "Memory limit in GB. [default: the limit that the device recommends]", bounds=POSITIVE
    )
    cache_limit: float = setting(1.0, RUN, "GB that MLX may keep for reuse.", bounds=FROM_ZERO)
    report_to: tuple[Tracker, ...] | None = setting(
        None, RUN, "Trackers, besides metrics.jsonl: wandb, trackio.", form=values.NAMES
    )
    project_name: str | None = setting(None, RUN, "Project of the run in the trackers.")

    _command = "train"

    def __post_init__(self) -> None:
        validate(self)
        for part in (_trackers, _together):
            part(self)

    @property
    def limit_tokens(self) -> int:
        """`max_seq_length`, where it is a number.

        Raises:
            UsageError: it is ``auto``, which the start of a training run makes a number of.
        """
        if isinstance(self.max_seq_length, int):
            return self.max_seq_length
        problem = f"max_seq_length is {AUTO}, of which only a training run makes a number: wanted a number"
        raise UsageError(problem, "max_seq_length")

    @property
    def segment_tokens(self) -> int | None:
        """`segment_length` where it is a number, else None."""
        return self.segment_length if isinstance(self.segment_length, int) else None

    @staticmethod
    def _displaced(values: dict[str, Any]) -> set[str]:
        """Return the settings that these override in weaker layers: the other length, and those without effect."""
        rivals = {"iters", "epochs"} if values.keys() & {"iters", "epochs"} else set()
        recipe = values.get("recipe")
        return rivals | {name for name, recipes in TEMPERED.items() if recipe and recipe not in recipes}

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change the result."""
        return {name: value for name, value in asdict(self).items() if name not in WITHOUT_EFFECT}


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Training)}


def _trackers(settings: Training) -> None:
    for tracker in settings.report_to or ():
        if tracker not in get_args(Tracker):
            raise UsageError(f"report_to names {tracker!r}, wanted {', '.join(get_args(Tracker))}", "report_to")


PREFERENCES = ("dpo", "ipo", "simpo", "kto", "orpo")
"""Recipes that learn from preferences."""

PAIRED = ("dpo", "ipo", "simpo", "orpo")
"""Recipes of which a row has two answers."""

ANCHORED = ("oapl", "vargrad", "dpo", "ipo", "kto")
"""Recipes that compare with the model before training."""

TEMPERED = {
    "inverse_temperature": ("vargrad",),
    "temperature": ("awr", "oapl", "dpo", "ipo", "kto", "simpo"),
    "target_margin": ("simpo",),
    "odds_weight": ("orpo",),
    "desirable_weight": ("kto",),
    "undesirable_weight": ("kto",),
}
"""The recipes that take each."""


def _together(settings: Training) -> None:
    if settings.epochs is not None and settings.iters != DEFAULTS["iters"]:
        raise UsageError("iters and epochs cannot be combined; use one of them", "iters", "epochs")
    for name, recipes in TEMPERED.items():
        if getattr(settings, name) is not None and settings.recipe not in recipes:
            raise UsageError(
                f"the recipe {settings.recipe} has no use for {name}, which is of {' and '.join(recipes)}", name
            )
        if getattr(settings, name) is None and settings.recipe in recipes and settings.recipe not in PREFERENCES:
            raise UsageError(f"the recipe {settings.recipe} needs {name}, which depends on the scale of rewards", name)
    if settings.recipe in PREFERENCES and settings.train_on == "all":
        raise UsageError(
            f"the recipe {settings.recipe} compares answers, and train_on all learns prompts too", "train_on"
        )
    if settings.recipe in ANCHORED and settings.fine_tune_type == "full":
        raise UsageError(
            f"the recipe {settings.recipe} compares with the model before training, and fine_tune_type full keeps none",
            "fine_tune_type",
        )
