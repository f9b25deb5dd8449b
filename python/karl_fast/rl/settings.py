"""Settings of an online run, checked when they are made; those shared with the offline trainer are in `Training`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from karl_fast.errors import UsageError
from karl_fast.train.settings import Training

Order = Literal["shuffle", "pass-rate", "paced", "stages"]

SHARED = (
    *("learning_rate", "optimizer", "weight_decay", "warmup", "lr_schedule", "max_grad_norm", "fine_tune_type"),
    *("num_layers", "lora_rank", "lora_scale", "lora_keys", "grad_checkpoint", "keep"),
    *("seed", "memory_limit", "cache_limit", "report_to", "project_name"),
)
"""The settings of `Training` that an online run has too."""

UNSEEN = ("rounds", "out", "keep", "report_to", "project_name", "memory_limit", "cache_limit", "save_every", "show")
"""Settings that may change when a run is resumed, because the training data does not depend on them."""


@dataclass(frozen=True)
class Alarms:
    """Thresholds at which a run stops itself; 0 or None turns one off.

    Attributes:
        entropy_floor: minimum mean entropy a token, in nats.
        kl_ceiling: maximum k3 to the reference a token, in nats; costs a forward pass of the reference a round.
        flat_rounds: maximum consecutive rounds without a group with different rewards.
        skipped_steps: maximum consecutive steps with a gradient that is not finite.
        missing_share: maximum share of missing rewards in a round.
    """

    entropy_floor: float = 0.0
    kl_ceiling: float | None = None
    flat_rounds: int = 10
    skipped_steps: int = 3
    missing_share: float = 0.5

    def __post_init__(self) -> None:
        for name in ("entropy_floor", "kl_ceiling", "missing_share"):
            _real(f"alarms.{name}", getattr(self, name))
        for name in ("flat_rounds", "skipped_steps"):
            _whole(f"alarms.{name}", getattr(self, name), 0)


@dataclass(frozen=True)
class Replay:
    """Rollouts of earlier rounds that are learned from again.

    Attributes:
        groups: number of replayed groups in each round; 0 for none.
        max_age: in steps; older ones are dropped.
        rate: a group's chance halves every ``ln 2 / rate`` steps (`karl_fast.replay.Exponential`).
        capacity: groups that are kept at most.
    """

    groups: int = 0
    max_age: int = 8
    rate: float = 0.0
    capacity: int = 256

    def __post_init__(self) -> None:
        _real("replay.rate", self.rate)
        for name in ("groups", "max_age"):
            _whole(f"replay.{name}", getattr(self, name), 0)
        _whole("replay.capacity", self.capacity, 1)


@dataclass(frozen=True)
class Online:
    """An online run. A round draws groups of rollouts and learns from them; a step is one update of the weights.

    Attributes:
        model: a folder or a name that mlx-lm loads, or ``file.py:function`` that makes a policy: it is given ``seed``.
        prompts: a file of JSON lines, each with ``prompt`` or ``messages``; other fields go to rewards by name.
        out: the folder of the run.
        rewards: ``file.py:function`` to its weight.
        environment: ``file.py:Class``, a new one for each rollout.
        environment_weight: of its score.
        outcome: the component (a function's name, or ``environment``) that filters, ``draws`` and the curriculum look
            at, where others only shape it; the whole reward where absent.
        recipe: a name, or a TOML file with a table for each axis.
        rounds: number of rounds.
        prompts_per_round: P, groups a round.
        group_size: G, rollouts a group.
        temperature: of the draw, and of every log-probability.
        max_tokens: that the policy may say in a rollout.
        max_turns: of the policy in a rollout.
        max_turn_tokens: that the policy may say in one turn; 0 for as many as in the rollout.
        max_context: tokens of a rollout with its prompt; longer prompts are left out.
        draw_rows: rollouts that are drawn at a time.
        timeout_seconds: of each call of a reward function or an environment.
        compile: True to fuse operations by `mx.compile` in the passes, the gradient and the draw: for small
            models. On a CPU it calls a C++ compiler, for half a minute the first time.
        epochs: passes over the rollouts of a round.
        minibatches: steps a pass.
        micro_batch: rollouts in memory at a time.
        draws: how often a round may draw P groups until P of them have rewards that differ (DAPO); 1 is once.
        overlong_tokens: stretch before max_tokens over which the reward falls by 1 (DAPO); 0 for none.
        curriculum: how prompts are chosen.
        stage_field: the field of a prompt that names its level, for ``stages``.
        log_z_learning_rate: of the head, where the recipe learns one.
        alarms: when it stops of itself.
        replay: what comes back.
        show: number of rollouts of a round shown at a terminal.
        save_every: rounds from one checkpoint to the next; a round takes as long as many steps of `Training` do.
        training: the optimizer, the adapters, the seed, and the number of checkpoints kept.

    Raises:
        UsageError: a choice outside its range, or two that do not go together.
    """

    model: str = ""
    prompts: str = ""
    out: str = ""
    rewards: dict[str, float] = field(default_factory=dict)
    environment: str | None = None
    environment_weight: float = 1.0
    outcome: str | None = None
    recipe: str = "grpo"
    rounds: int = 100
    prompts_per_round: int = 4
    group_size: int = 8
    temperature: float = 1.0
    max_tokens: int = 256
    max_turns: int = 1
    max_turn_tokens: int = 0
    max_context: int = 4096
    draw_rows: int = 256
    timeout_seconds: float = 60.0
    compile: bool = False
    epochs: int = 1
    minibatches: int = 1
    micro_batch: int = 32
    draws: int = 1
    overlong_tokens: int = 0
    curriculum: Order = "shuffle"
    stage_field: str = "difficulty"
    log_z_learning_rate: float = 1e-3
    alarms: Alarms = field(default_factory=Alarms)
    replay: Replay = field(default_factory=Replay)
    show: int = 1
    save_every: int = 10
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        for name in COUNTS:
            _whole(name, getattr(self, name), 1)
        for name in ("overlong_tokens", "show", "max_turn_tokens"):
            _whole(name, getattr(self, name), 0)
        for name in ("temperature", "timeout_seconds", "log_z_learning_rate"):
            _real(name, getattr(self, name), above=True)
        for name in ("model", "prompts", "out", "recipe", "stage_field"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name} is {getattr(self, name)!r}, wanted a text", name)
        if not isinstance(self.rewards, dict):
            raise UsageError(f"rewards is {self.rewards!r}, wanted a table of functions and weights", "rewards")
        for name, weight in (*self.rewards.items(), ("environment_weight", self.environment_weight)):
            if not (_number(weight) and math.isfinite(weight)):
                raise UsageError(f"the weight of {name} is {weight!r}, wanted a finite number", "rewards")
        if not isinstance(self.compile, bool):
            raise UsageError(f"compile is {self.compile!r}, wanted true or false", "compile")
        if self.curriculum not in get_args(Order):
            raise UsageError(f"curriculum is {self.curriculum!r}, wanted {', '.join(get_args(Order))}", "curriculum")
        self._together()

    def _together(self) -> None:
        if self.overlong_tokens > self.max_tokens:
            raise UsageError("overlong_tokens is more than max_tokens", "overlong_tokens", "max_tokens")
        if self.max_turns > 1 and self.environment is None:
            raise UsageError("max_turns is above 1, and no environment answers a turn", "max_turns", "environment")
        if self.minibatches > self.prompts_per_round + self.replay.groups:
            raise UsageError("minibatches is more than there are groups a round", "minibatches", "prompts_per_round")
        if self.training.save_every != Training.save_every:
            raise UsageError("training.save_every counts steps of karl-fast train: save_every of Online counts rounds")

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change what is learned."""
        flat = {name: value for name, value in asdict(self).items() if name != "training"}
        flat |= {name: getattr(self.training, name) for name in SHARED}
        return {name: value for name, value in flat.items() if name not in UNSEEN}


COUNTS = (
    *("rounds", "prompts_per_round", "group_size", "max_tokens", "max_turns", "max_context", "draw_rows"),
    *("epochs", "minibatches", "micro_batch", "draws", "save_every"),
)
"""Settings that are whole numbers from 1 on."""

OWN = tuple(one.name for one in fields(Online) if one.name not in ("training", "alarms", "replay"))
"""Settings at the top of a file, beside those of `Training`."""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _real(name: str, value: Any, *, above: bool = False) -> None:
    """Raise where a number is not finite or negative; None is none."""
    if value is None or (_number(value) and math.isfinite(value) and (value > 0 if above else value >= 0)):
        return
    raise UsageError(f"{name} is {value!r}, wanted a number {'above 0' if above else 'from 0 on'}", name)


def _whole(name: str, value: Any, least: int) -> None:
    if not (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        raise UsageError(f"{name} is {value!r}, wanted a whole number from {least} on", name)
