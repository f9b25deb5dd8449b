"""Settings of an online run, checked when they are made; those shared with the offline trainer are in `Training`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from karl_fast.errors import UsageError
from karl_fast.settings import values
from karl_fast.settings.ranges import FROM_ONE, FROM_ZERO, POSITIVE
from karl_fast.settings.schema import documented, is_a, part, setting, validate
from karl_fast.train.settings import Training

RUN, REWARDS, ROLLOUTS, UPDATES, PROMPTS = "Run", "Rewards", "Rollouts", "Updates", "Order of prompts"
ALARMS, REPLAY, HELD_OUT = "Alarms", "Replay", "Held-out prompts"

Order = Literal["shuffle", "pass-rate", "paced", "stages"]

Reference = Literal["start", "base"]

Schedule = Literal["fixed", "overlap"]

KVCacheKind = Literal["full", "8-bit"]

Priority = Literal["age", "accuracy-error"]

SHARED = (
    *("learning_rate", "optimizer", "weight_decay", "warmup", "lr_schedule", "max_grad_norm", "fine_tune_type"),
    *("num_layers", "lora_rank", "lora_scale", "lora_keys", "grad_checkpoint", "segment_length", "keep"),
    *("seed", "memory_limit", "cache_limit", "report_to", "project_name"),
)
"""The settings of `Training` that an online run has too."""

UNSEEN = (
    *("rounds", "out", "keep", "report_to", "project_name", "memory_limit", "cache_limit", "save_every", "show"),
    *("eval_prompts", "eval_every", "eval_attempts", "eval_temperature", "patience"),
)
"""Settings that may change when a run is resumed, because the training data does not depend on them."""


@documented
@dataclass(frozen=True)
class Alarms:
    """Thresholds at which a run stops itself; 0 or None turns one off."""

    entropy_floor: float = setting(0.0, ALARMS, "Minimum mean entropy a token, in nats.", bounds=FROM_ZERO)
    kl_ceiling: float | None = setting(
        None,
        ALARMS,
        "Maximum k3 to the reference a token, in nats; costs a forward pass of the reference a round.",
        bounds=FROM_ZERO,
    )
    flat_rounds: int = setting(
        10, ALARMS, "Maximum consecutive rounds without a group with different rewards.", bounds=FROM_ZERO
    )
    idle_rounds: int = setting(
        10, ALARMS, "Maximum rounds without a step, less the rounds with one since.", bounds=FROM_ZERO
    )
    skipped_steps: int = setting(
        3, ALARMS, "Maximum consecutive steps with a gradient that is not finite.", bounds=FROM_ZERO
    )
    missing_share: float = setting(0.5, ALARMS, "Maximum share of missing rewards in a round.", bounds=FROM_ZERO)

    def __post_init__(self) -> None:
        validate(self, "alarms")


@documented
@dataclass(frozen=True)
class Replay:
    """Rollouts of earlier rounds that are learned from again."""

    groups: int = setting(0, REPLAY, "Replayed groups in each round; 0 for none.", bounds=FROM_ZERO)
    max_age: int = setting(8, REPLAY, "Maximum age of a rollout, in steps; older ones are dropped.", bounds=FROM_ZERO)
    rate: float = setting(
        0.0,
        REPLAY,
        "Decay: the chance of a group halves every ln 2 / rate steps (karl_fast.replay.ExponentialDecay).",
        bounds=FROM_ZERO,
    )
    priority: Priority = setting(
        "age",
        REPLAY,
        "Choice of groups: age, at random by --replay-rate; accuracy-error, those with the largest difference between "
        "the mean outcome and the curriculum's estimate before the group was drawn (PACED-RL).",
    )
    capacity: int = setting(256, REPLAY, "Maximum groups in the buffer.", bounds=FROM_ONE)

    def __post_init__(self) -> None:
        validate(self, "replay")
        if self.priority == "accuracy-error" and self.rate:
            raise UsageError("replay.rate is of the priority age, and priority is accuracy-error", "replay.rate")


@documented
@dataclass(frozen=True)
class Online:
    """An online run. A round draws groups of rollouts and learns from them; a step is one update of the weights.

    Raises:
        UsageError: a choice outside its range, or two that do not go together.
    """

    model: str = setting(
        "",
        RUN,
        "Model: a folder, a name on the Hugging Face hub, or file.py:function that makes a policy from a seed.",
    )
    prompts: str = setting(
        "",
        RUN,
        "File of JSON lines, each with prompt or messages; reward functions get the other fields by name.",
    )
    out: str = setting("", RUN, "Folder of the run.")
    adapter: str = setting(
        "",
        RUN,
        "Adapter to start from: a folder that karl-fast train, rl or mlx_lm lora wrote, trained with the same "
        "--fine-tune-type, --num-layers and --lora settings. [default: a new adapter]",
    )
    reference: Reference = setting(
        "start",
        RUN,
        "Reference of the KL: start for a frozen copy of the weights that the run starts with, base for the model "
        "without --adapter.",
    )
    rewards: dict[str, float] = setting(
        dict,
        REWARDS,
        "Reward functions with weights: rewards.py:solved=0.5,format=0.3,karl-v2.motion=0.2; a function of a file, or "
        "a built-in signal: format, length, karl-v1, karl-v2, or one part of KARL's.",
        form=values.FUNCTIONS,
    )
    environment: str | None = setting(None, REWARDS, "Environment, file.py:Class: a new one for each rollout.")
    environment_weight: float = setting(1.0, REWARDS, "Weight of the environment's score.")
    outcome: str | None = setting(
        None,
        REWARDS,
        "Component (name of a function, or environment) that filters, --draws and the curriculum use; the others only "
        "shape the reward. [default: the whole reward]",
    )
    recipe: str = setting("grpo", RUN, "Objective: a name, or a TOML file with a table for each axis.")
    rounds: int = setting(100, RUN, "Number of rounds.", bounds=FROM_ONE)
    prompts_per_round: int = setting(4, ROLLOUTS, "Groups a round.", bounds=FROM_ONE)
    group_size: int = setting(8, ROLLOUTS, "Rollouts a group.", bounds=FROM_ONE)
    temperature: float = setting(
        1.0, ROLLOUTS, "Temperature of generation, and of every log-probability.", bounds=POSITIVE
    )
    max_tokens: int = setting(256, ROLLOUTS, "Maximum tokens the policy may generate in a rollout.", bounds=FROM_ONE)
    max_turns: int = setting(1, ROLLOUTS, "Maximum turns of the policy in a rollout.", bounds=FROM_ONE)
    max_turn_tokens: int = setting(
        0, ROLLOUTS, "Maximum tokens of one turn; 0 for as many as in the rollout.", bounds=FROM_ZERO
    )
    max_context: int = setting(
        4096, ROLLOUTS, "Maximum tokens of a rollout with its prompt; longer prompts are left out.", bounds=FROM_ONE
    )
    rollouts_in_flight: int = setting(256, ROLLOUTS, "Maximum rollouts generated at a time.", bounds=FROM_ONE)
    kv_cache: KVCacheKind = setting(
        "full",
        ROLLOUTS,
        "Caches of keys and values in generation: full, or 8-bit, in about half of the memory of 16 bits, where every "
        "layer has plain attention; contexts are then generated in batches of one length.",
    )
    schedule: Schedule = setting(
        "fixed",
        ROLLOUTS,
        "Order of turns: fixed, the same bytes in every run; overlap, environments answer while other rollouts go on.",
    )
    timeout_seconds: float = setting(
        60.0, REWARDS, "Timeout of each call of a reward function or an environment.", bounds=POSITIVE
    )
    compile: bool = setting(
        False,
        UPDATES,
        "Fuse operations by mx.compile in the passes, the gradient and generation: for small models. On a CPU it calls "
        "a C++ compiler, for half a minute the first time.",
    )
    epochs: int = setting(1, UPDATES, "Passes over the rollouts of a round.", bounds=FROM_ONE)
    minibatches: int = setting(1, UPDATES, "Steps a pass.", bounds=FROM_ONE)
    micro_batch: int = setting(32, UPDATES, "Rollouts in memory at a time.", bounds=FROM_ONE)
    draws: int = setting(
        1,
        ROLLOUTS,
        "Draws a round may make until all its groups have rewards that differ (DAPO); 1 for one.",
        bounds=FROM_ONE,
    )
    overlong_tokens: int = setting(
        0, REWARDS, "Tokens before --max-tokens over which the reward falls by 1 (DAPO); 0 for none.", bounds=FROM_ZERO
    )
    curriculum: Order = setting("shuffle", PROMPTS, "Choice of prompts.")
    stage_field: str = setting("difficulty", PROMPTS, "Field of a prompt that names its level, for stages.")
    log_z_learning_rate: float = setting(
        1e-3, UPDATES, "Learning rate of the head of log Z, where the recipe learns one.", bounds=POSITIVE
    )
    alarms: Alarms = part(Alarms, "thresholds at which the run stops itself.")
    replay: Replay = part(Replay, "rollouts of earlier rounds that are learned from again.")
    eval_prompts: str = setting(
        "", HELD_OUT, "File of held-out prompts, like --prompts: they are attempted, and not learned from."
    )
    eval_every: int = setting(
        10, HELD_OUT, "Rounds between evaluations; one more before the first round and after the last.", bounds=FROM_ONE
    )
    eval_attempts: int = setting(4, HELD_OUT, "Attempts at each held-out prompt.", bounds=FROM_ONE)
    eval_temperature: float | None = setting(
        None,
        HELD_OUT,
        "Temperature of the attempts; 0 takes the likeliest token. [default: --temperature]",
        bounds=FROM_ZERO,
    )
    patience: int | None = setting(
        None,
        HELD_OUT,
        "Evaluations without a larger mean reward after which the run ends. [default: none]",
        bounds=FROM_ONE,
    )
    show: int = setting(1, RUN, "Rollouts of a round shown at a terminal.", bounds=FROM_ZERO)
    save_every: int = setting(10, RUN, "Rounds between checkpoints.", bounds=FROM_ONE)
    training: Training = part(Training, "the optimizer, the adapters, the seed, and the checkpoints to keep.", SHARED)

    _command = "rl"

    def __post_init__(self) -> None:
        validate(self)
        for name, weight in self.rewards.items():
            if not (is_a(weight, float) and math.isfinite(weight)):
                raise UsageError(f"the weight of {name} is {weight!r}, wanted a finite number", "rewards")
        self._together()

    def _together(self) -> None:
        if self.overlong_tokens > self.max_tokens:
            raise UsageError("overlong_tokens is more than max_tokens", "overlong_tokens", "max_tokens")
        if self.max_turns > 1 and self.environment is None:
            raise UsageError("max_turns is above 1, and no environment answers a turn", "max_turns", "environment")
        if self.patience is not None and not self.eval_prompts:
            raise UsageError("patience is set, and there are no eval_prompts to judge by", "patience", "eval_prompts")
        if self.minibatches > self.prompts_per_round + self.replay.groups:
            raise UsageError("minibatches is more than there are groups a round", "minibatches", "prompts_per_round")
        if self.replay.priority == "accuracy-error" and self.curriculum not in ("paced", "pass-rate"):
            wanted = "wanted paced or pass-rate, which estimate the outcome of a prompt"
            said = f"replay.priority is accuracy-error, and curriculum is {self.curriculum}, {wanted}"
            raise UsageError(said, "curriculum", "replay.priority")
        if self.training.save_every != Training.save_every:
            raise UsageError("training.save_every counts steps of karl-fast train: save_every of Online counts rounds")

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change what is learned."""
        flat = {name: value for name, value in asdict(self).items() if name != "training"}
        flat |= {name: getattr(self.training, name) for name in SHARED}
        return {name: value for name, value in flat.items() if name not in UNSEEN}
