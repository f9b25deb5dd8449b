"""Settings of an online run: the classes, their TOML file, and the file of prompts.

Settings are checked when they are made; those shared with `karl-fast train` are in `Training`.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast._suggest import ask_whether, nearest, suggest_path
from karl_fast.errors import FileError, UsageError
from karl_fast.settings import values
from karl_fast.settings.schema import (
    FROM_ONE,
    FROM_ZERO,
    POSITIVE,
    build,
    check_keys,
    document_settings,
    is_a,
    part,
    schema,
    setting,
    validate,
)
from karl_fast.settings.toml import name_file, own_table, parse_toml, read_config_text
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.settings import Training

# The options of the command line come from this module: it loads NumPy where a file is read, not before.
if TYPE_CHECKING:
    from karl_fast.objective import Recipe
    from karl_fast.rl.rollout import Prompt

RUN, REWARDS, ROLLOUTS, UPDATES, PROMPTS = "Run", "Rewards", "Rollouts", "Updates", "Order of prompts"
ALARMS, REPLAY, HELD_OUT = "Alarms", "Replay", "Held-out prompts"

Order = Literal["shuffle", "pass-rate", "paced", "stages"]

Reference = Literal["start", "base"]

Schedule = Literal["fixed", "overlap"]

KVCacheKind = Literal["full", "8-bit"]

Priority = Literal["age", "accuracy-error"]

StudentRecipe = Literal["surprisal-gate", "sft"]

StudentReward = Literal["learnability", "surprisal"]

Scoring = Literal["steps", "bound"]

Weighting = Literal[
    "auto", "off", "token-truncate", "token-mask", "sequence-truncate", "sequence-mask", "geometric-mask"
]

SHARED = (
    *("learning_rate", "optimizer", "weight_decay", "warmup", "lr_schedule", "max_grad_norm", "fine_tune_type"),
    *("num_layers", "lora_rank", "lora_scale", "lora_keys", "grad_checkpoint", "segment_length", "keep"),
    *("seed", "memory_limit", "cache_limit", "report_to", "project_name"),
)
"""The settings of `Training` that an online run has too."""

SELF_TEACHERS = ("policy", "start")
"""Teachers that are the policy itself: with its present weights, and with those that the run starts with."""

UNSEEN = (
    *("rounds", "out", "keep", "report_to", "project_name", "memory_limit", "cache_limit", "save_every", "show"),
    *("eval_prompts", "eval_every", "eval_attempts", "eval_temperature", "eval_steps", "patience"),
)
"""Settings that may change when a run is resumed, because the training data does not depend on them."""


@document_settings
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
    step_kl_ceiling: float = setting(
        0.5,
        ALARMS,
        "Maximum KL, in nats a token, of the policy that drew a round from that of its last step; 0 for none.",
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


@document_settings
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


@document_settings
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
        "File of JSON lines, each with prompt or messages, or file.py:function that returns such objects; reward "
        "functions get the other fields by name.",
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
    teacher: str = setting(
        "",
        RUN,
        "Teacher of a recipe that distils: a model, as --model names it; or policy, the policy itself, or start, it as "
        "the run starts, which see the teacher_prompt of a prompt in its place.",
    )
    teacher_adapter: str = setting("", RUN, "Adapter of the teacher: the folder of a run. [default: none]")
    student: str = setting(
        "",
        RUN,
        "Student that the policy teaches: a model, as --model names it. The policy then sees the teacher_prompt of a "
        "prompt in its place, and the student, which learns from its rollouts, the prompt.",
    )
    student_recipe: StudentRecipe = setting(
        "surprisal-gate",
        UPDATES,
        "What the student learns a rollout by: surprisal-gate, tokens that surprise it hardly count; sft, all alike.",
    )
    student_reward: StudentReward = setting(
        "learnability",
        REWARDS,
        "Reward of the policy with a student: learnability, the reward times exp(-p spike), with the spike of its "
        "surprise; surprisal, the reward less p times its mean surprisal.",
    )
    student_penalty: float = setting(0.5, REWARDS, "p of --student-reward, a nat.", bounds=FROM_ZERO)
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
    token_rewards: str = setting(
        "",
        REWARDS,
        "Function that rewards each token, file.py:function, for recipes that read such rewards: for each completion a "
        "list with a number or None for each of its tokens.",
    )
    labels: str = setting(
        "",
        REWARDS,
        "Function that knows the right token in the place of each, for recipes that learn from them: for each "
        "completion a list with the id of a token or None.",
    )
    baseline: str = setting(
        "",
        REWARDS,
        "Function of the policy and a prompt that returns the mean reward, for recipes whose advantage is the reward "
        "less that mean.",
    )
    recipe: str = setting("grpo", RUN, "Objective: a name, or a TOML file with a table for each axis.")
    rounds: int = setting(100, RUN, "Number of rounds.", bounds=FROM_ONE)
    prompts_per_round: int = setting(4, ROLLOUTS, "Groups a round.", bounds=FROM_ONE)
    group_size: int = setting(8, ROLLOUTS, "Rollouts a group.", bounds=FROM_ONE)
    temperature: float = setting(
        1.0, ROLLOUTS, "Temperature of generation, and of every log-probability.", bounds=POSITIVE
    )
    candidates: int = setting(
        1,
        ROLLOUTS,
        "Rollouts of a group that make a set, for recipes that learn from sets (vpo, multi-rlvr): --group-size 24 with "
        "3 is 8 sets of 3.",
        bounds=FROM_ONE,
    )
    max_tokens: int = setting(256, ROLLOUTS, "Maximum tokens the policy may generate in a rollout.", bounds=FROM_ONE)
    steps: int | None = setting(
        None,
        ROLLOUTS,
        "Steps of a rollout, of a model that draws in steps: discrete flow or masked diffusion. [default: the model's]",
        bounds=FROM_ONE,
    )
    scoring: Scoring = setting(
        "steps",
        UPDATES,
        "Score of a rollout of a model that draws in steps: steps, the exact log-probability of each; bound, an "
        "evidence bound of the whole answer over its width (ESPO), which is cheaper where there are many steps, and "
        "biased.",
    )
    max_turns: int = setting(1, ROLLOUTS, "Maximum turns of the policy in a rollout.", bounds=FROM_ONE)
    max_turn_tokens: int = setting(
        0, ROLLOUTS, "Maximum tokens of one turn; 0 for as many as in the rollout.", bounds=FROM_ZERO
    )
    max_depth: int = setting(
        0,
        ROLLOUTS,
        "Depth of sub-rollouts, where an environment calls the policy: 1 for those that a rollout calls, 2 if they may "
        "call others; 0 for no calls.",
        bounds=FROM_ZERO,
    )
    max_children: int = setting(8, ROLLOUTS, "Maximum sub-rollouts that one rollout may call.", bounds=FROM_ONE)
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
    correction: Weighting = setting(
        "auto",
        UPDATES,
        "Weights of tokens that another arithmetic drew than the one that learns: truncated or masked, by token, "
        "rollout or geometric mean. With auto, those of the recipe; where it has none, token-truncate if generation "
        "has 8-bit caches or 16-bit numbers.",
    )
    correction_low: float | None = setting(
        None,
        UPDATES,
        "Lower bound of the weight in a mask, a ratio up to 1. [default: that of the point]",
        bounds=FROM_ZERO,
    )
    correction_high: float | None = setting(
        None,
        UPDATES,
        "Upper bound or cap of the weight, a ratio from 1. [default: that of the point]",
        bounds=FROM_ONE,
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
    eval_steps: int | None = setting(
        None,
        HELD_OUT,
        "Steps of the attempts, of a model that draws in steps. [default: the model's]",
        bounds=FROM_ONE,
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
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.overlong_tokens > self.max_tokens:
            raise UsageError("overlong_tokens is more than max_tokens", "overlong_tokens", "max_tokens")
        if self.group_size % self.candidates:
            problem = f"group_size is {self.group_size}, wanted a multiple of candidates, {self.candidates}"
            raise UsageError(problem, "group_size", "candidates")
        if self.max_turns > 1 and self.environment is None:
            raise UsageError("max_turns is above 1, and no environment answers a turn", "max_turns", "environment")
        self._check_trees()
        if self.patience is not None and not self.eval_prompts:
            raise UsageError("patience is set, and there are no eval_prompts to judge by", "patience", "eval_prompts")
        if self.minibatches > self.prompts_per_round + self.replay.groups:
            raise UsageError("minibatches is more than there are groups a round", "minibatches", "prompts_per_round")
        if self.replay.priority == "accuracy-error" and self.curriculum not in ("paced", "pass-rate"):
            wanted = "wanted paced or pass-rate, which estimate the outcome of a prompt"
            problem = f"replay.priority is accuracy-error, and curriculum is {self.curriculum}, {wanted}"
            raise UsageError(problem, "curriculum", "replay.priority")
        if self.correction_low is not None and not self.correction.endswith("mask"):
            wanted = "wanted a mask, which alone has a lower bound"
            raise UsageError(
                f"correction_low is set, and correction is {self.correction}, {wanted}", "correction_low", "correction"
            )
        if self.correction_low is not None and self.correction_low > 1:
            raise UsageError(f"correction_low is {self.correction_low}, wanted a ratio up to 1", "correction_low")
        if self.correction_high is not None and self.correction in ("auto", "off"):
            raise UsageError(
                f"correction_high is set, and correction is {self.correction}, wanted one by its name",
                "correction_high",
                "correction",
            )
        if self.teacher_adapter and self.teacher in ("", *SELF_TEACHERS):
            own = f"teacher is {self.teacher}, the policy itself" if self.teacher else "there is no teacher"
            raise UsageError(f"teacher_adapter is set, and {own}", "teacher_adapter", "teacher")
        if self.student and self.replay.groups:
            raise UsageError("student is set, and rollouts of the replay are of another teacher", "student", "replay")
        if self.training.save_every != Training.save_every:
            raise UsageError("training.save_every counts steps of karl-fast train: save_every of Online counts rounds")

    def _check_trees(self) -> None:
        """Raise where a setting is for rollouts that call no others."""
        if not self.max_depth:
            return
        if self.environment is None:
            raise UsageError("max_depth is set, and no environment calls the policy", "max_depth", "environment")
        for name in ("student", "teacher", "token_rewards", "labels"):
            if getattr(self, name):
                raise UsageError(f"{name} is set, and max_depth: it is not for sub-rollouts", name, "max_depth")
        if self.candidates > 1:
            raise UsageError("candidates is above 1, and sub-rollouts are not for sets", "candidates", "max_depth")

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change what is learned."""
        flat = {name: value for name, value in asdict(self).items() if name != "training"}
        flat |= {name: getattr(self.training, name) for name in SHARED}
        return {name: value for name, value in flat.items() if name not in UNSEEN}


def list_settings(settings: Online) -> dict[str, Any]:
    """Return every setting by its name in the schema; those of a part are looked up in it."""
    values = {}
    for name, declared in schema(Online).items():
        holder = getattr(settings, declared.part) if declared.part else settings
        values[name] = getattr(holder, name.rpartition(".")[2])
    return values


FUNCTIONS = ("token_rewards", "labels", "baseline")
"""Settings that name a function of a file."""

PATHS = (
    *(
        "model",
        "prompts",
        "eval_prompts",
        "out",
        "adapter",
        "teacher",
        "teacher_adapter",
        "student",
        "environment",
        "recipe",
    ),
    *FUNCTIONS,
)
"""Settings that may name a file, relative to the folder of the configuration."""

TABLES = ("alarms", "replay")
"""Tables of a file."""


def load(path: str | Path, **over: Any) -> Online:
    """Load the settings of an online run from a TOML file.

    Args:
        path: the file. Its settings are in the table ``[rl]``, or at its top; ``[rewards]`` maps functions to weights,
            ``[alarms]`` and ``[replay]`` are tables. Paths in it are relative to its folder.
        over: settings that count over those of the file.

    Returns:
        The settings.

    Raises:
        FileError: it cannot be read.
        UsageError: it is no TOML, has a setting that there is not, or no name.
    """
    refuse_empty(config=path, **{name: over[name] for name in PATHS if name in over})
    parts: dict[str, Any] = {
        name: value for name, value in over.items() if isinstance(value, Alarms | Replay | Training)
    }
    settings = check_keys(Online, {name: value for name, value in over.items() if name not in parts})
    file = read_config(path)
    try:
        return replace(build(Online, file.settings | settings), **parts)
    except UsageError as error:
        if error.settings and over.keys() >= {*error.settings}:
            raise  # the file does not say it
        raise name_file(Path(path), error, *(name for name in error.settings if name in over)) from error


@dataclass(frozen=True)
class OnlineConfig:
    """Settings of an online run from a file.

    Attributes:
        path: the file.
        settings: by their names in the schema of `Online`.
    """

    path: str
    settings: dict[str, Any]


def read_config(path: str | Path, _command: str = "rl") -> OnlineConfig:
    """Read the settings in a file, with paths relative to the working directory.

    Raises:
        FileError: it cannot be read.
        UsageError: it is no TOML, or holds a key or a value that means nothing.
    """
    file = Path(path)
    text = read_config_text(file)
    try:
        top = parse_toml(text)
        table = own_table(top, "rl", {*schema(Online), *TABLES}) if "rl" in top else top
        return OnlineConfig(
            str(file), resolve_paths(check_keys(Online, table, where="[rl] " * ("rl" in top)), file.parent)
        )
    except UsageError as error:
        raise name_file(file, error) from error


def resolve_paths(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with paths relative to the working directory; names of models and recipes stay."""
    resolved = {
        name: _resolve_path(value, folder, name) if name in PATHS and isinstance(value, str) else value
        for name, value in table.items()
    }
    if isinstance(table.get("rewards"), dict):
        resolved["rewards"] = {_resolve_function(name, folder): weight for name, weight in table["rewards"].items()}
    return resolved


def _resolve_function(value: str, folder: Path) -> str:
    """Return `file.py:name` with the path of the file; other names stay."""
    file, colon, name = value.partition(".py:")
    return f"{folder / (file + '.py')}:{name}" if colon else value


def _resolve_path(value: str, folder: Path, setting: str) -> str:
    if ".py:" in value:
        return _resolve_function(value, folder)
    path = folder / value
    if setting == "teacher" and value in SELF_TEACHERS:
        return value
    if setting == "out" and value:
        return _shorten_path(path)
    always = ("prompts", "eval_prompts", "adapter", "teacher_adapter")
    file_named = value.endswith(".toml") if setting == "recipe" else setting in always or path.exists()
    return str(path) if file_named and value else value


def _shorten_path(path: Path) -> str:
    """Return a path without `..`, unless a symbolic link makes that another place."""
    short = os.path.normpath(path)
    return short if os.path.realpath(short) == os.path.realpath(path) else str(path)


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: this is not text: it is not UTF-8") from error
    except OSError as error:
        raise FileError(
            f"cannot open {file}: {error.strerror}",
            error.errno,
            str(file),
            hint=(None if file.exists() else suggest_path(file)),
        ) from error


def load_recipe(name: str) -> Recipe:
    """Return a recipe by its name, or from a TOML file.

    Raises:
        FileError: the file cannot be read.
        UsageError: there is no recipe of that name, or the file holds none.
    """
    from karl_fast.objective import from_toml, recipe
    from karl_fast.objective.recipes import names

    if name.endswith(".toml"):
        return from_toml(_read_text(Path(name)))
    try:
        return recipe(name)
    except UsageError as error:
        available = [each.lower().replace("_", "-") for each in names()]
        raise UsageError(
            f"recipe is {name!r}, wanted a .toml file or one of {', '.join(available)}",
            "recipe",
            hint=ask_whether(nearest(name.lower().replace("_", "-"), available)),
        ) from error


def read_prompts(path: str | Path) -> list[Prompt]:
    """Read prompts, with text or messages as ``prompt``, or ``messages``.

    Args:
        path: a file of JSON lines, or ``file.py:function``: a function without arguments that returns such objects.

    Raises:
        FileError: it cannot be read.
        UsageError: a line that is not a prompt, the same id twice, or no line at all.
    """
    prompts: list[Prompt] = []
    lines = _call_prompts(str(path)) if ".py:" in str(path) else _read_text(Path(path)).split("\n")
    for number, line in enumerate(lines):
        if line.strip():
            prompts.append(_parse_prompt(line, len(prompts), f"{path}, line {number + 1}"))
    if not prompts:
        raise UsageError(f"{path} has no prompt")
    ids: set[str] = set()
    for prompt in prompts:
        if prompt.id in ids:
            raise UsageError(f"{path}: the id {prompt.id!r} is there twice")
        ids.add(prompt.id)
    return prompts


def _call_prompts(place: str) -> list[str]:
    """Return what a function makes as lines of JSON.

    Raises:
        UsageError: it fails, or returns something else.
    """
    from karl_fast._user_code import describe_user_error, load_function

    function = load_function(place)
    try:
        return [json.dumps(line) for line in function()]
    except Exception as error:
        raise UsageError(f"prompts: {place} failed: {describe_user_error(error)}", "prompts") from error


def _parse_prompt(line: str, number: int, where: str) -> Prompt:
    from karl_fast.rl.rollout import Prompt, is_message, no_text

    try:
        line_fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: this is not JSON") from error
    if not isinstance(line_fields, dict):
        raise UsageError(f"{where}: this is not an object")
    content = line_fields.pop("prompt", None)
    content = line_fields.pop("messages", None) if content is None else content
    messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
    if not (isinstance(messages, list) and messages and all(map(is_message, messages))):
        raise UsageError(f"{where}: prompt is neither a text nor messages with a role and a content")
    if wrong := no_text([messages, line_fields]):
        raise UsageError(f"{where}: {wrong}")
    return Prompt(_id(line_fields.get("id"), number, where), number, tuple(messages), line_fields)


def _id(value: Any, number: int, where: str) -> str:
    """Return the id of a prompt: its own, or the number of its line."""
    if not isinstance(value, str | int | float | None):
        raise UsageError(f"{where}: id is {json.dumps(value)[:60]}, wanted a text or a number")
    return str(number if value is None else value)
