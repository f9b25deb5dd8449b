"""A run, ready to start: everything is loaded and checked before the first rollout.

`prepare` makes an `OnlineRun` of settings by the functions below it, one for each part: recipe, environment, reward
functions, policy, memory plan, decoder, learner, curriculum. Nothing is written before all of it is known to fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from karl_fast import _atomic, _seen_hashes
from karl_fast._safe_text import describe_exception
from karl_fast._user_code import load_function, return_to, working_folder
from karl_fast.diffusion.policy import DiffusionModel, is_diffusion_model, load_model
from karl_fast.errors import CheckpointError, IncoherentObjectiveError, KarlError, TemplateError, UsageError
from karl_fast.modeling import adapters, load, optimizer
from karl_fast.modeling.adapters import attach_adapter
from karl_fast.modeling.checkpoint import METRICS_FILE, Checkpoints, ExternalTracker, JsonLines, Tracker, TrainingState
from karl_fast.modeling.model_views import Snapshot
from karl_fast.objective import DrawnTokens, PolicyGradient, Preference, WeightedLikelihood
from karl_fast.objective.axes.advantage import ExpectedBaseline, Given, Raw, RemainingMean, TokenCentre, Whitened
from karl_fast.objective.axes.balance import BehaviourPolicy, Temperature, TokenSumLength
from karl_fast.objective.axes.clip import Delight
from karl_fast.objective.axes.correction import (
    GeometricMask,
    NoCorrection,
    SequenceMask,
    SequenceTruncate,
    TokenMask,
    TokenTruncate,
)
from karl_fast.objective.axes.labels import GatedLabels, SuffixLabels
from karl_fast.objective.axes.set_score import BestCandidate, SetScore
from karl_fast.reward.functions import Function
from karl_fast.reward.karl import overrides
from karl_fast.rl import curriculum, held_out, memory
from karl_fast.rl.curriculum import ReplayBuffer
from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import Decoder
from karl_fast.rl.held_out import HeldOut
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.learner import Passes, PolicyLearner, iterate_points
from karl_fast.rl.log_z import Partition, learns_log_z
from karl_fast.rl.logprobs import Forward, unshared_prompt_remark
from karl_fast.rl.metrics import AlarmMonitor
from karl_fast.rl.policy import is_step_policy
from karl_fast.rl.rewards import ENVIRONMENT, RewardFunctions, Weighted
from karl_fast.rl.rollout import (
    FINISHED_FILE,
    ROLLOUTS_FILE,
    FinishedRollouts,
    RolloutLog,
    read_groups,
)
from karl_fast.rl.run_folder import (
    Progress,
    adapter_weights,
    check_run_dir,
    hash_inputs,
    load_progress,
    remove_old_progress,
    remove_run,
    save_progress,
)
from karl_fast.rl.settings import FUNCTIONS, SELF_TEACHERS, Online, load_recipe, read_prompts
from karl_fast.rl.steps import BoundForward, StepDecoder, StepForward
from karl_fast.rl.student import Student, swap_prompts
from karl_fast.rl.task_functions import TaskFunctions
from karl_fast.rl.teacher import (
    Teacher,
    check_same_vocabulary,
    check_teacher_prompts,
    freeze,
    hides_prompts,
    teacher_support,
)
from karl_fast.train.settings import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective import Recipe
    from karl_fast.objective.base import Objective
    from karl_fast.reward.signals import Scorer
    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.environment import Environment
    from karl_fast.rl.memory import RoundNeed, Sizes
    from karl_fast.rl.policy import StepPolicy, TokenPolicy
    from karl_fast.rl.rollout import Prompt, Rollout


class OnlineViewer(Protocol):
    """Receiver of the progress of a run."""

    def on_start(self, run: OnlineRun) -> None:
        """Report that everything is loaded, before the first round."""

    def on_round(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Report a round: its line of metrics.jsonl, its rollouts, and its failures."""

    def on_evaluation(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Report an evaluation of held-out prompts: its line of held_out.jsonl, and its failures."""

    def on_message(self, remark: str) -> None:
        """Report a remark on how steps are computed."""


@dataclass(frozen=True)
class PromptSet:
    """Prompts of a policy.

    Attributes:
        prompts: prompts that fit.
        too_long: number of those that do not.
        longest: tokens of the longest prompt that fits.
    """

    prompts: list[Prompt]
    too_long: int
    longest: int


LONGEST_LOSS = 60.0
"""Seconds of work after which a round ends with a checkpoint."""

SAVE_SHARE = 0.05
"""Maximum share of the time that such checkpoints take; whole weights may take minutes to write."""


@dataclass
class OnlineRun:
    """A run between two rounds.

    ``out`` is the absolute folder of the run: user code may change the working directory.
    """

    settings: Online
    out: Path
    recipe: Recipe
    prompt_set: PromptSet
    collector: Collector
    learner: PolicyLearner
    curriculum: Curriculum
    buffer: ReplayBuffer
    monitor: AlarmMonitor
    checkpoints: Checkpoints
    need: RoundNeed
    student: Student | None = None
    identity: dict[str, Any] = field(default_factory=dict)
    seen_before: _seen_hashes.Seen = field(default_factory=_seen_hashes.Seen)
    held_out: held_out.HeldOut | None = None
    remarks: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    trackers: list[Tracker] = field(init=False)
    journal: RolloutLog = field(init=False)
    finished: FinishedRollouts = field(init=False)
    saved_at: float = field(default_factory=time.monotonic)
    save_seconds: float = 0.0

    @property
    def policy(self) -> TokenPolicy | StepPolicy:
        """Policy that is trained."""
        return self.collector.policy

    @property
    def steps(self) -> int:
        """Number of updates if every round has a gradient."""
        return self.settings.rounds * self.settings.epochs * self.settings.minibatches

    def rate(self, number: int) -> float:
        """Return the learning rate of a step of this round, by its number in it from 0."""
        return optimizer.learning_rate(self.settings.training, self.progress.step + number + 1, self.steps)

    def set_learning_rate(self, number: int) -> None:
        """Set the optimizer up for a step of this round."""
        optimizer.set_learning_rate(self.learner.optimizer, self.settings.training, self.rate(number))

    def set_rate_of(self, other: Any, number: int) -> None:
        """Set the optimizer of the student up for a step of this round."""
        optimizer.set_learning_rate(other, self.settings.training, self.rate(number))

    @property
    def stopped(self) -> bool:
        """True if held-out prompts ended the run early."""
        return self.held_out is not None and self.held_out.stopped

    @property
    def seen_hashes(self) -> _seen_hashes.Seen:
        """Hashes of the prompts that it learns from or chooses on, and of those of the adapter that it starts from."""
        prompts = [*self.prompt_set.prompts, *(self.held_out.prompts if self.held_out else [])]
        hashes = _seen_hashes.hash_prompts(
            (prompt.logged for prompt in prompts), (prompt.columns.get("group") for prompt in prompts)
        )
        return hashes | self.seen_before

    def keep_best(self) -> None:
        """Write the present weights as the best adapter by held-out prompts."""
        model, config = self.policy.model, self.checkpoints.config
        if self.student is not None:  # that attempted them
            model, config = self.student.policy.model, self.student.config
        held_out.keep_best(self.out / held_out.BEST, model, config)
        _seen_hashes.write_seen(self.out / held_out.BEST, self.seen_hashes)

    def close(self) -> None:
        """Close all files, even if one fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.journal.finish)
            stack.callback(self.finished.finish)
            for tracker in self.trackers:
                stack.callback(self._finish, tracker)

    def _finish(self, tracker: Tracker) -> None:
        with _atomic.name_file_errors(self.out / METRICS_FILE):
            tracker.finish()

    def is_save_due(self) -> bool:
        """Return whether a checkpoint is due: by `save_every`, or because a kill would lose minutes."""
        waited = time.monotonic() - self.saved_at
        return self.progress.round % self.settings.save_every == 0 or waited >= max(
            LONGEST_LOSS, self.save_seconds / SAVE_SHARE
        )

    def save(self) -> None:
        """Write the state of the run, then its checkpoint."""
        start = time.monotonic()
        out, now = self.out, self.progress
        now.flat, now.skipped, now.idle = self.monitor.flat, self.monitor.skipped, self.monitor.idle
        now.metrics_bytes, now.rollouts_bytes = (out / METRICS_FILE).stat().st_size, self.journal.size
        now.curriculum = self.curriculum.state()
        now.replay, now.replay_errors = list(self.buffer.groups), list(self.buffer.errors.values())
        now.held_out = {} if self.held_out is None else self.held_out.state()
        save_progress(out, now, self.learner.partition, self.student)
        self.checkpoints.save(
            self.policy.model, self.learner.optimizer, TrainingState(step=now.round, settings=self.identity)
        )
        if self.student is not None:
            self.student.write_adapter(out)
        self.finished.clear()
        remove_old_progress(out, {int(place.name) for place in self.checkpoints.folders()})
        self.saved_at = time.monotonic()
        self.save_seconds = self.saved_at - start


@dataclass(frozen=True)
class RunInputs:
    """Inputs of a run that are read before a model is loaded."""

    recipe: Recipe
    prompts: list[Prompt]
    unseen: list[Prompt]
    make: Callable[[], Environment] | None
    reward_functions: RewardFunctions
    task_functions: TaskFunctions | None


@dataclass(frozen=True)
class RunModels:
    """Models of a run, with the configuration of the adapter of the policy."""

    policy: TokenPolicy | StepPolicy
    config: dict[str, Any]
    teacher: Teacher | None
    start_remark: str | None
    student: tuple[TokenPolicy, dict[str, Any]] | None = None

    @property
    def learner(self) -> TokenPolicy | StepPolicy:
        """Policy that held-out prompts are attempted by: the student, if there is one."""
        return self.policy if self.student is None else self.student[0]


def prepare(settings: Online, *, resume: bool = False, force: bool = False) -> OnlineRun:
    """Load and check all that a run needs.

    Raises:
        KarlError: whatever of it is not there or does not fit; nothing is written before all is known to.
    """
    _refuse_missing_settings(settings)
    began = working_folder()
    inputs = _read_inputs(settings, began)
    with return_to(began):  # paths are relative to it, even if a user's file has changed the working directory
        check_run_dir(Path(settings.out), resume=resume, force=force, adapter=settings.adapter)
        models = _load_models(settings, inputs, resume=resume)
        settings = restore_settings(settings, models.config) if resume else settings
    prompt_set = _fit_prompts(settings, models.policy, inputs.prompts)
    held_out_set = _fit_prompts(settings, models.learner, inputs.unseen) if inputs.unseen else None
    longest = max(each.longest for each in (prompt_set, held_out_set) if each is not None)
    sizes = memory.Sizes.of_run(settings, longest, models.policy)
    remarks = _remarks(settings, inputs.recipe, models, sizes)
    settings, need = _plan_memory(settings, inputs.recipe, models, sizes, prompt_set.prompts)
    with return_to(began):
        identity, seen_before = run_identity(settings, inputs.recipe), read_seen_hashes(settings)
    run = _build_run(settings, began / settings.out, inputs, models, prompt_set, need)
    run.identity, run.seen_before, run.remarks = identity, seen_before, remarks
    if held_out_set is not None:
        run.held_out = build_held_out(settings, run.collector, held_out_set.prompts, models.learner)
    if resume and run.checkpoints.folders():
        _restore_checkpoint(run)
    _open_files(run, anew=not run.progress.round)
    return run


def _build_run(
    settings: Online, out: Path, inputs: RunInputs, models: RunModels, prompt_set: PromptSet, need: RoundNeed
) -> OnlineRun:
    """Return a run before its first round."""
    recipe, policy = inputs.recipe, models.policy
    learner = build_learner(settings, recipe, policy, correct_objective(settings, recipe, policy), models.teacher)
    collector = Collector(
        build_decoder(settings, policy, prompt_set.prompts),
        inputs.reward_functions,
        build_sampling(settings),
        inputs.make,
        inputs.task_functions,
    )
    return OnlineRun(
        settings=settings,
        out=out,
        recipe=recipe,
        prompt_set=prompt_set,
        collector=collector,
        learner=learner,
        curriculum=curriculum.build_curriculum(settings, prompt_set.prompts, estimate_log_z(settings, learner)),
        buffer=ReplayBuffer(settings.replay),
        monitor=AlarmMonitor(settings.alarms, rewards=recipe.objective.reads_rewards),
        checkpoints=Checkpoints(out, models.config, settings.training.keep),
        need=need,
        student=None if models.student is None else build_student(settings, *models.student),
    )


def _read_inputs(settings: Online, began: Path) -> RunInputs:
    """Read what a run needs besides models: the recipe, prompts, and functions of the user."""
    recipe, prompts = build_recipe(settings), read_prompts(settings.prompts)
    unseen = read_prompts(settings.eval_prompts) if settings.eval_prompts else []
    make = build_environment(settings, began)
    reward_functions = build_reward_functions(settings, began, needed=recipe.objective.reads_rewards)
    if settings.teacher:
        check_teacher_prompts(prompts, settings.teacher)
    if settings.student:
        prompts = swap_prompts(prompts)
    return RunInputs(recipe, prompts, unseen, make, reward_functions, build_task_functions(settings, began))


def _load_models(settings: Online, inputs: RunInputs, *, resume: bool) -> RunModels:
    """Load the policy, and its teacher or student."""
    policy, config = load_policy(settings)
    check_kind(settings, inputs.recipe, policy)
    teacher = build_teacher(settings, inputs.recipe, policy, inputs.prompts)
    remark = describe_start(settings, config)
    if resume and remark is None and "base" in config:
        remark = adapters.other_base_remark(Path(settings.out), config["base"])
    return RunModels(policy, config, teacher, remark, _load_student(settings, policy))


def _load_student(settings: Online, policy: TokenPolicy | StepPolicy) -> tuple[TokenPolicy, dict[str, Any]] | None:
    """Load the student with the configuration of its adapter; None where there is none.

    Raises:
        UsageError: it does not read the tokens of the policy.
    """
    if not settings.student:
        return None
    student, config = load_policy(replace(settings, model=settings.student, adapter=""))
    if is_step_policy(student) or is_step_policy(policy):
        raise UsageError("student is set, and a model that draws in steps has no next token", "student", "model")
    check_same_vocabulary(policy, student, settings.student)
    return student, config


def _remarks(settings: Online, recipe: Recipe, models: RunModels, sizes: Sizes) -> list[str]:
    """Return remarks on what a run assumes."""
    remarks = [
        positions_remark(models.policy, settings, sizes),
        unshared_prompt_remark(settings.micro_batch, sizes.prompt, settings.group_size),
        models.start_remark,
        unadapted_experts(models.policy, settings, models.config),
        uncorrected_remark(settings, recipe, models.policy),
    ]
    return [remark for remark in remarks if remark is not None]


def _refuse_missing_settings(settings: Online) -> None:
    for name in ("model", "prompts", "out"):
        if not getattr(settings, name):
            raise UsageError(f"{name} is not set: a run needs one", name)


def _plan_memory(
    settings: Online, recipe: Recipe, models: RunModels, sizes: memory.Sizes, prompts: Sequence[Prompt]
) -> tuple[Online, RoundNeed]:
    """Return the settings with those that were left to the plan of memory, and what a round needs.

    Raises:
        UsageError: it does not fit, or rollouts with labels would have to pass in segments.
    """
    policy, teacher = models.policy, models.teacher
    divergence = recipe.objective.reads_divergence is not None
    if is_step_policy(policy):
        forward = build_step_forward(settings, policy, recipe.objective.reads_divergence)
        return settings, memory.estimate_steps(forward, settings, models.config).check(sizes, settings)
    other = None
    if teacher is not None:
        own = teacher.policy is policy
        longest = max(len(teacher.prompt_tokens(prompt)) for prompt in prompts)
        other = memory.estimate_teacher(teacher.policy, longest - sizes.prompt, own=own)
    elif models.student is not None:
        other = memory.estimate_student(*models.student, settings)
    plan = memory.estimate_round(
        policy, settings, models.config, divergence=divergence, log_z=learns_log_z(recipe), teacher=other
    ).settle_segments(sizes)
    settings = replace(settings, training=plan.memory.settings)
    if settings.labels and (settings.training.segment_tokens or sizes.tokens) < sizes.tokens:
        problem = f"rollouts of {sizes.tokens:,} tokens pass in segments of {settings.training.segment_tokens:,}"
        raise UsageError(f"{problem}, and those with labels have to pass whole", "segment_length", "labels")
    return settings, plan.check(sizes, settings)


def _fit_prompts(settings: Online, policy: TokenPolicy | StepPolicy, prompts: list[Prompt]) -> PromptSet:
    lengths = [prompt_length(policy, prompt) for prompt in prompts]
    fitting = [prompt for prompt, length in zip(prompts, lengths, strict=True) if length < settings.max_context]
    if not fitting:
        shortest = f"the shortest prompt has {min(lengths)} tokens: no room for an answer"
        raise UsageError(f"max_context is {settings.max_context}, and {shortest}", "max_context")
    longest = max(length for length in lengths if length < settings.max_context)
    return PromptSet(fitting, len(prompts) - len(fitting), longest)


def _restore_checkpoint(run: OnlineRun) -> None:
    """Restore a run from its last checkpoint."""
    out, learner = run.out, run.learner
    state = run.checkpoints.resume(run.policy.model, learner.optimizer, run.identity)
    if run.settings.rounds < state.step:
        raise UsageError(f"rounds is {run.settings.rounds}, and the run has made {state.step}", "rounds")
    now = run.progress = load_progress(out, state.step, learner.partition, run.student)
    run.monitor.flat, run.monitor.skipped, run.monitor.idle = now.flat, now.skipped, now.idle
    run.curriculum.restore(now.curriculum)
    if run.held_out is not None:
        run.held_out.restore(now.held_out)
    run.buffer.groups = read_groups(
        out / ROLLOUTS_FILE, now.replay, {prompt.id: prompt for prompt in run.prompt_set.prompts}
    )
    run.buffer.errors = dict(zip(now.replay, now.replay_errors, strict=True))


def _open_files(run: OnlineRun, *, anew: bool) -> None:
    """Open the files of a run, cut back to where the checkpoint left them."""
    settings, out, now = run.settings, run.out, run.progress
    external = [ExternalTracker(library, settings.training, out) for library in settings.training.report_to or ()]
    if anew:
        remove_run(out)  # last, after every check of the new run
    with _atomic.name_file_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    # The journal locks the folder: a second run is refused here.
    run.journal = RolloutLog(out / ROLLOUTS_FILE, now.rollouts_bytes)
    _seen_hashes.write_seen(out, run.seen_hashes)
    with _atomic.name_file_errors(out / METRICS_FILE), (out / METRICS_FILE).open("ab") as file:
        if file.tell() < now.metrics_bytes:
            run.journal.finish()
            raise CheckpointError(f"{out / METRICS_FILE} is shorter than when the checkpoint was made")
        file.truncate(now.metrics_bytes)
    run.finished = FinishedRollouts(
        out / FINISHED_FILE, run.identity, {prompt.id: prompt for prompt in run.prompt_set.prompts}
    )
    run.trackers = [JsonLines(out / METRICS_FILE, run.steps), *external]


def build_recipe(settings: Online) -> Recipe:
    """Return the recipe, if rollouts suffice for it."""
    recipe = load_recipe(settings.recipe)
    for why, hint in _unavailable_inputs(recipe.objective):
        raise UsageError(f"{recipe.name} {why}", "recipe", hint=hint)
    _check_task_functions(settings, recipe)
    if settings.max_depth:
        _check_trees(recipe)
    sets = any(isinstance(point, SetScore | BestCandidate) for point in recipe.objective.axes().values())
    if sets != (settings.candidates > 1):
        how = "learns from sets of candidates" if sets else "does not learn from sets of candidates"
        raise UsageError(
            f"{recipe.name} {how}, and candidates is {settings.candidates}",
            "candidates",
            "recipe",
            hint="set candidates to 2 or more; grpo learns from the weighted sum of rewards" if sets else "set it to 1",
        )
    compares = any(point.of_groups for point in recipe.objective.axes().values())
    if settings.group_size == settings.candidates and compares and not recipe.objective.reads_candidates:
        why = f"group_size is {settings.group_size}, and {recipe.name} compares the rollouts of a group"
        raise UsageError(
            why, "group_size", "recipe", hint="with 2 or more a rollout has others to be better than; 8 is the default"
        )
    return recipe


def _check_trees(recipe: Recipe) -> None:
    """Raise where a recipe cannot learn from rollouts that call others.

    Raises:
        UsageError: it is of a family without trees, or has points that are not for them.
    """
    hint = "grpo, dr-grpo, dapo, gspo and cispo learn from trees; rlm-grpo with the weights of its source"
    if not isinstance(recipe.objective, PolicyGradient):
        problem = f"max_depth is set, and {recipe.name} is a {type(recipe.objective).__name__}, wanted a PolicyGradient"
        raise UsageError(problem, "recipe", "max_depth", hint=hint)
    try:
        recipe.objective.check_trees()
    except IncoherentObjectiveError as error:
        raise UsageError(f"max_depth is set, and in {recipe.name} {error}", "recipe", "max_depth", hint=hint) from error


def build_teacher(
    settings: Online, recipe: Recipe, policy: TokenPolicy | StepPolicy, prompts: Sequence[Prompt]
) -> Teacher | None:
    """Return the teacher of a recipe that distils; None for another.

    Raises:
        UsageError: there is none and the recipe needs one, or the other way round, or it has another vocabulary.
        ModelError: it cannot be loaded.
    """
    name, objective = settings.teacher, recipe.objective
    if not objective.reads_teacher:
        if not name:
            return None
        others = "opd, opd-reverse-kl, opd-top-k"
        raise UsageError(
            f"teacher is {name}, and {recipe.name} does not learn from one",
            "teacher",
            "recipe",
            hint=f"recipes that do are {others}; opd-grpo learns from a reward as well",
        )
    if not name:
        raise UsageError(
            f"{recipe.name} learns from a teacher, and there is none",
            "teacher",
            "recipe",
            hint="name a better model than the policy; or policy, with a teacher_prompt in each line of prompts",
        )
    if is_step_policy(policy):
        raise UsageError(f"{recipe.name} learns from a teacher token by token, and the model draws in steps", "recipe")
    own = policy if name in SELF_TEACHERS else _load_teacher(settings)
    if own is not policy:
        check_same_vocabulary(policy, own, name)
    return Teacher(
        own,
        settings.temperature,
        direction=objective.reads_divergence,
        support=teacher_support(objective),
        reference=name == "start",
        hides_prompts=hides_prompts(prompts),
    )


def _load_teacher(settings: Online) -> TokenPolicy:
    other = replace(settings, model=settings.teacher, adapter="", teacher_adapter="")
    teacher = load_evaluated_policy(other, settings.teacher_adapter or None)
    if is_step_policy(teacher):
        raise UsageError(f"teacher is {settings.teacher}, which draws in steps and has no next token", "teacher")
    return freeze(teacher)


def _unavailable_inputs(objective: Objective) -> Iterator[tuple[str, str]]:
    """Yield inputs of an objective that this loop does not provide, each with an alternative."""
    kinds = {type(point) for point in objective.axes().values()}
    if isinstance(objective, WeightedLikelihood | Preference):
        yield "learns from logged rows", "it is a recipe of karl-fast train"
    if Given in kinds:
        yield (
            "takes the advantages of a critic, which this loop does not train",
            "reinforce-plus-plus has the same ratio, clip and mean, and advantages of rewards alone; grpo those of a "
            "group",
        )


READ_BY = {
    "token_rewards": (RemainingMean, TokenCentre, Whitened),
    "labels": (GatedLabels, SuffixLabels, DrawnTokens),
    "baseline": (ExpectedBaseline,),
}
"""Points that read what a function of the task knows."""


def _check_task_functions(settings: Online, recipe: Recipe) -> None:
    """Raise where a recipe misses a function of the task, or has no use for one.

    Raises:
        UsageError: either.
    """
    points = list(iterate_points(recipe.objective))
    for name, kinds in READ_BY.items():
        readers = [point for point in points if isinstance(point, kinds)]
        needed = [point for point in readers if not isinstance(point, Whitened)]
        if needed and not getattr(settings, name):
            problem = f"{recipe.name} has the point {type(needed[0]).__name__}, and {name} names no function for it"
            raise UsageError(problem, name, "recipe", hint="docs/guides/rl.md says what such a function returns")
        if getattr(settings, name) and not readers:
            raise UsageError(f"{name} names a function, and {recipe.name} has no use for it", name, "recipe")


def build_task_functions(settings: Online, began: Path) -> TaskFunctions | None:
    """Return the functions of the task besides its rewards; None where there are none."""
    with return_to(began):
        functions = {name: load_function(place) for name in FUNCTIONS if (place := getattr(settings, name))}
    return TaskFunctions(functions, settings.timeout_seconds) if functions else None


def build_environment(settings: Online, began: Path) -> Callable[[], Environment] | None:
    """Return a function that makes an environment for each rollout."""
    if settings.environment is None:
        return None
    with return_to(began):  # the name is relative to it, even if user code has changed the folder
        environment: Callable[[], Environment] = load_function(settings.environment)
    return environment


def build_reward_functions(settings: Online, began: Path, *, needed: bool = True) -> RewardFunctions:
    """Return the reward functions with their weights, and the environment's reward; none where they are not needed."""
    functions = [
        Weighted(name.rpartition(":")[2], _load_scorer(name, began), weight)
        for name, weight in settings.rewards.items()
    ]
    if needed and not functions and settings.environment is None:
        raise UsageError("rewards names no function, and there is no environment", "rewards", "environment")
    names = [each.name for each in functions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"rewards names two functions {twice}: a component needs a name of its own", "rewards")
    components = [*names, *([ENVIRONMENT] if settings.environment is not None else [])]
    if settings.outcome is not None and settings.outcome not in components:
        raise UsageError(f"outcome is {settings.outcome!r}, wanted one of {', '.join(components)}", "outcome")
    return RewardFunctions(
        functions,
        timeout_seconds=settings.timeout_seconds,
        environment=None if settings.environment is None else settings.environment_weight,
        outcome=settings.outcome,
    )


def reward_weights(settings: Online) -> dict[str, float]:
    """Return the weight of each reward function by the name of its component, and of the environment."""
    own = {name.rpartition(":")[2]: weight for name, weight in settings.rewards.items()}
    return own if settings.environment is None else {ENVIRONMENT: settings.environment_weight} | own


def _load_scorer(name: str, began: Path) -> Scorer:
    """Return a reward function by its name, or a built-in signal.

    Raises:
        UsageError: it names neither.
    """
    try:
        with return_to(began):
            return Function.of(name).call
    except UsageError as error:
        raise UsageError(f"rewards: {error}", "rewards", hint=error.hint) from error


def load_policy(settings: Online) -> tuple[TokenPolicy | StepPolicy, dict[str, Any]]:
    """Return the policy, and the configuration of its adapter."""
    mx.set_cache_limit(int(settings.training.cache_limit * 1e9))
    mx.random.seed(settings.training.seed)
    if is_diffusion_model(settings.model):
        return _load_diffusion(settings)
    if ".py:" in settings.model:
        if settings.adapter:
            raise UsageError(f"{settings.model} makes its own weights: adapter needs a model of mlx-lm", "adapter")
        if settings.kv_cache != "full":
            raise UsageError(f"{settings.model} makes its own caches: kv_cache needs a model of mlx-lm", "kv_cache")
        own = load_function(settings.model)(seed=settings.training.seed)
        own.model.eval()
        mx.eval(own.model.parameters())
        return own, {"fine_tune_type": "full", "model": settings.model}
    loaded = load.load(settings.model)
    config = load.adapt(loaded.model, settings.training)
    reference = _load_start_adapter(loaded.model, settings, config)
    loaded.model.eval()  # for the whole run: dropout would make every ratio random
    mx.eval(loaded.model.parameters())
    policy = LanguageModel(loaded, reference, eight_bits=settings.kv_cache == "8-bit", longest=settings.max_context)
    return policy, config | {"model": settings.model, "base": loaded.base}


def _load_diffusion(settings: Online) -> tuple[TokenPolicy | StepPolicy, dict[str, Any]]:
    """Return a diffusion model of a folder as the policy, and the configuration of its adapter."""
    model, sizes = load_model(settings.model)
    base = adapters.describe_base(model, {})
    config = load.adapt(model, settings.training)
    reference = _load_start_adapter(model, settings, config)
    model.eval()
    mx.eval(model.parameters())
    return DiffusionModel(model, sizes, reference), config | {"model": settings.model, "base": base}


STEPS_REFUSE = {
    "teacher": "",
    "token_rewards": "",
    "labels": "",
    "baseline": "",
    "compile": False,
    "kv_cache": "full",
    "max_turns": 1,
    "max_turn_tokens": 0,
    "max_depth": 0,
    "overlong_tokens": 0,
    "schedule": "fixed",
}
"""Settings that mean nothing for a policy that draws in steps, with the value that asks for nothing."""


def check_kind(settings: Online, recipe: Recipe, policy: TokenPolicy | StepPolicy) -> None:
    """Check that settings and recipe are for a policy of this kind, which draws tokens, or in steps.

    Raises:
        UsageError: they are for the other kind.
    """
    if not is_step_policy(policy):
        if given := [name for name in ("steps", "eval_steps") if getattr(settings, name) is not None]:
            raise UsageError(f"{given[0]} is set, and the model draws one token after the other", given[0])
        if settings.scoring != "steps":
            raise UsageError("scoring is bound, and the model draws one token after the other", "scoring")
        return
    if settings.scoring == "bound":
        _check_bound(recipe, policy)
    for name, nothing in STEPS_REFUSE.items():
        if (value := getattr(settings, name)) != nothing:
            raise UsageError(f"{name} is {value}, and the model draws in steps, which has no use for it", name)
    for name in ("grad_checkpoint", "segment_length"):
        if (value := getattr(settings.training, name)) not in (False, None, AUTO):
            raise UsageError(f"{name} is {value}, and steps of a rollout are computed whole", name)
    if learns_log_z(recipe):
        problem = f"{recipe.name} learns log Z from hidden states of the prompt, and the model draws in steps"
        raise UsageError(problem, "recipe", hint="grpo, dr-grpo, rloo and dapo read log-probabilities alone")


def _check_bound(recipe: Recipe, policy: StepPolicy) -> None:
    """Check that a policy has an evidence bound, and that a recipe reads nothing else.

    Raises:
        UsageError: it has none, or the recipe reads the distribution of each step.
    """
    if not hasattr(policy, "bound"):
        raise UsageError("scoring is bound, and the model has no evidence bound", "scoring")
    if recipe.objective.reads_divergence is not None or recipe.objective.reads_entropy:
        problem = f"scoring is bound, and {recipe.name} reads the distribution of each step"
        raise UsageError(problem, "scoring", "recipe", hint="k2 and k3 compare the bounds alone")


def unadapted_experts(policy: Any, settings: Online, config: dict[str, Any]) -> str | None:
    """Return a remark on routed experts without an adapter; None where there are none."""
    if settings.training.lora_keys is not None:
        return None  # with lora_keys the user has chosen the layers
    return adapters.unadapted_experts(policy.model, config)


def _load_start_adapter(model: Any, settings: Online, config: dict[str, Any]) -> Snapshot | None:
    """Load the adapter that a run starts from; return the reference, None for the model without adapters."""
    base = Snapshot(model) if config["fine_tune_type"] == "full" else None
    if not settings.adapter:
        return base
    adapters.load_start_weights(model, adapter_weights(settings.adapter), config)
    return base if settings.reference == "base" else Snapshot(model)


def describe_start(settings: Online, config: dict[str, Any]) -> str | None:
    """Return the assumptions about the adapter that a run starts from, and how its base differs from the model."""
    if not settings.adapter:
        return None
    weights = adapter_weights(settings.adapter)
    return adapters.unrecorded_remark(weights, config) or adapters.other_base_remark(weights.parent, config["base"])


def read_seen_hashes(settings: Online) -> _seen_hashes.Seen:
    """Return the hashes of what the adapter that a run starts from was trained on."""
    return (_seen_hashes.read_seen(Path(settings.adapter)) if settings.adapter else None) or _seen_hashes.Seen()


def load_evaluated_policy(
    settings: Online, adapter: str | None, on_remark: Callable[[str], object] | None = None
) -> TokenPolicy | StepPolicy:
    """Return the policy of a run with the weights of an adapter, or with those that it begins with, to be evaluated."""
    mx.set_cache_limit(int(settings.training.cache_limit * 1e9))
    if is_diffusion_model(settings.model):
        network, sizes = load_model(settings.model)
        if chosen := adapter or settings.adapter:
            attach_adapter(network, Path(chosen))
        network.eval()
        mx.eval(network.parameters())
        return DiffusionModel(network, sizes)
    if ".py:" not in settings.model:
        loaded = load.load(settings.model, adapter or settings.adapter or None)
        if loaded.remark is not None and on_remark is not None:
            on_remark(loaded.remark)
        loaded.model.eval()
        return LanguageModel(loaded)
    mx.random.seed(settings.training.seed)
    own: TokenPolicy | StepPolicy = load_function(settings.model)(seed=settings.training.seed)
    if adapter is not None:
        attach_adapter(own.model, Path(adapter))
    own.model.eval()
    mx.eval(own.model.parameters())
    return own


def prompt_length(policy: TokenPolicy | StepPolicy, prompt: Prompt) -> int:
    """Return how many tokens a prompt has.

    Raises:
        TemplateError: the chat template does not take it.
    """
    try:
        return len(policy.encode(prompt.messages))
    except KarlError:  # of a diffusion model, whose vocabulary is small
        raise
    except Exception as error:  # of a template
        raise TemplateError(
            f"the chat template does not take the prompt {prompt.id}: {describe_exception(error)}"
        ) from error


CORRECTIONS = {
    "token-truncate": TokenTruncate,
    "token-mask": TokenMask,
    "sequence-truncate": SequenceTruncate,
    "sequence-mask": SequenceMask,
    "geometric-mask": GeometricMask,
}
"""Points of the axis of corrections by the word of the setting."""


def correct_objective(settings: Online, recipe: Recipe, policy: TokenPolicy | StepPolicy) -> Objective:
    """Return the objective of the recipe, with a weight of tokens if another arithmetic draws them.

    By default tokens are truncated one by one: the product over a rollout, TRL's default, goes to 0 or to its cap with
    the length.

    Raises:
        UsageError: a correction by name for a family without this axis.
    """
    objective, word = recipe.objective, settings.correction
    if not isinstance(objective, PolicyGradient):
        if word in CORRECTIONS:
            problem = (
                f"correction is {word}, and {recipe.name} is a {type(objective).__name__}, wanted a PolicyGradient"
            )
            raise UsageError(problem, "correction", "recipe")
        return objective
    if word == "off":
        return replace(objective, correction=NoCorrection())
    if word == "auto":
        mine = objective.correction != NoCorrection() or isinstance(objective.clip, Delight)
        due = not mine and rounds_generation(settings, policy)
        return replace(objective, correction=TokenTruncate()) if due else objective
    high, low = settings.correction_high, settings.correction_low
    point = CORRECTIONS[word]
    if word.endswith("truncate"):
        return replace(objective, correction=point() if high is None else point(high))
    bounds = {name: value for name, value in (("low", low), ("high", high)) if value is not None}
    return replace(objective, correction=point(**bounds))


def uncorrected_remark(settings: Online, recipe: Recipe, policy: TokenPolicy | StepPolicy) -> str | None:
    """Return a remark if another arithmetic draws the rollouts of a recipe that cannot weight them by it."""
    if isinstance(recipe.objective, PolicyGradient) or not rounds_generation(settings, policy):
        return None
    cause = "8-bit caches draw" if settings.kv_cache != "full" else "a policy in 16 bits draws"
    return (
        f"{cause} the rollouts in another arithmetic than the steps, and {recipe.name} has no weights for the "
        "difference: `mismatch` in the metrics measures it"
    )


def rounds_generation(settings: Online, policy: TokenPolicy | StepPolicy) -> bool:
    """Return whether generation rounds otherwise than training: 8-bit caches, or numbers of 16 bits.

    In 16 bits the passes differ in the order of their sums, by some thousandths of a nat; in 32 bits by 1e-6. The codes
    of a quantised base are the same in both, and its scales have a type too.
    """
    leaves: Any = tree_flatten(policy.model.parameters())
    kinds = {array.dtype for _, array in leaves}
    return settings.kv_cache != "full" or not kinds.isdisjoint((mx.bfloat16, mx.float16))


def build_learner(
    settings: Online,
    recipe: Recipe,
    policy: TokenPolicy | StepPolicy,
    objective: Objective | None = None,
    teacher: Teacher | None = None,
) -> PolicyLearner:
    """Return the learner that takes the steps; of the recipe's objective without another."""
    adam = optimizer.build_optimizer(settings.training, fixed=policy.model if settings.compile else None)
    direction = recipe.objective.reads_divergence if teacher is None else None
    forward: Any = build_forward(settings, policy, divergence=direction, teacher=teacher)
    adam.init(policy.model.trainable_parameters())
    passes = Passes(
        settings.epochs,
        settings.minibatches,
        settings.micro_batch,
        settings.training.max_grad_norm,
        reference=settings.alarms.kl_ceiling is not None,
        candidates=settings.candidates,
        weights=reward_weights(settings),
    )
    partition = None if is_step_policy(policy) else _build_partition(settings, recipe, policy)
    return PolicyLearner(forward, objective or recipe.objective, adam, passes, partition)


def build_forward(
    settings: Online, policy: TokenPolicy | StepPolicy, *, divergence: str | None, teacher: Teacher | None = None
) -> Forward | StepForward:
    """Return what computes the log-probabilities of a policy's tokens, or of its steps, and their gradients."""
    if is_step_policy(policy):
        return build_step_forward(settings, policy, divergence)
    how: Any = {"divergence": divergence, "segment_length": settings.training.segment_tokens, "teacher": teacher}
    return Forward(policy, settings.temperature, compile=settings.compile, **how)


def build_step_forward(settings: Online, policy: StepPolicy, divergence: str | None = None) -> StepForward:
    """Return what computes the log-probabilities of the steps of a policy, and their gradients."""
    kind = BoundForward if settings.scoring == "bound" else StepForward
    return kind(policy, settings.temperature, settings.steps or policy.steps, divergence)


def build_student(settings: Online, policy: TokenPolicy, config: dict[str, Any]) -> Student:
    """Return the student that learns from the rollouts of the policy."""
    learner = build_learner(replace(settings, candidates=1), load_recipe(settings.student_recipe), policy)
    return Student(
        learner,
        config,
        reward=settings.student_reward,
        penalty=settings.student_penalty,
        micro_batch=settings.micro_batch,
    )


def _build_partition(settings: Online, recipe: Recipe, policy: TokenPolicy) -> Partition | None:
    if not learns_log_z(recipe):
        return None
    size = int(policy.body(mx.array([[0]])).shape[-1])
    return Partition(size, learning_rate=settings.log_z_learning_rate, seed=settings.training.seed)


def positions_remark(policy: TokenPolicy | StepPolicy, settings: Online, sizes: Sizes) -> str | None:
    """Return a remark if rollouts may be longer than the model's positions, or `max_context` is.

    Raises:
        UsageError: the positions are learned, and rollouts may go beyond them.
    """
    positions = getattr(policy, "positions", None)
    if positions is None:
        return None
    # MLX gathers past the end of an embedding without an error.
    remark: str | None = positions.remark("max_context", settings.max_context, Online.max_context, sizes.tokens)
    return remark


SHORT_TOKENS = 32
"""Maximum turn length for compiled positions: twice as many traces are kept, for full draws and remainders."""


def build_decoder(
    settings: Online, policy: TokenPolicy | StepPolicy, prompts: Sequence[Prompt]
) -> Decoder | StepDecoder:
    """Return the decoder; compile whole positions if few occur each round: short answers to prompts of one length."""
    if is_step_policy(policy):
        steps = settings.steps or policy.steps
        return StepDecoder(policy, settings.temperature, steps, bound=settings.scoring == "bound")
    short = settings.compile and settings.max_tokens <= SHORT_TOKENS and settings.environment is None
    one_length = short and len({len(policy.encode(prompt.messages)) for prompt in prompts}) == 1
    return Decoder(policy, settings.temperature, compile=settings.compile, places=one_length)


def build_sampling(settings: Online) -> Sampling:
    """Return the settings of the generation of rollouts."""
    turn = settings.max_turn_tokens or settings.max_tokens
    budget = RolloutBudget(
        settings.max_tokens, settings.max_turns, settings.max_context, turn, settings.max_depth, settings.max_children
    )
    return Sampling(
        settings.group_size,
        budget,
        settings.rollouts_in_flight,
        settings.timeout_seconds,
        settings.schedule == "overlap",
    )


def build_attempt_decoder(
    settings: Online, policy: TokenPolicy | StepPolicy, temperature: float
) -> Decoder | StepDecoder:
    """Return the decoder of attempts at held-out prompts, from which nothing is learned."""
    if is_step_policy(policy):
        return StepDecoder(policy, temperature, settings.eval_steps or policy.steps)
    return Decoder(policy, temperature, entropy=False)


def build_held_out(
    settings: Online, collector: Collector, prompts: list[Prompt], policy: TokenPolicy | StepPolicy
) -> HeldOut:
    """Return the evaluation of held-out prompts by a policy of a run."""
    temperature = settings.temperature if settings.eval_temperature is None else settings.eval_temperature
    attempts = replace(collector.sampling, group_size=settings.eval_attempts)
    own = replace(
        collector,
        decoder=build_attempt_decoder(settings, policy, temperature),
        sampling=attempts,
        task_functions=None,  # nothing is learned from an attempt
    )
    prompt_text = json.dumps(
        [[prompt.messages, dict(prompt.columns)] for prompt in prompts], default=str, sort_keys=True
    )
    steps = f" {settings.eval_steps}" if settings.eval_steps else ""
    identity = hashlib.sha256(f"{settings.eval_attempts} {temperature}{steps} {prompt_text}".encode()).hexdigest()[:16]
    return HeldOut(own, prompts, settings.eval_every, settings.patience, settings.training.seed, identity)


def restore_settings(settings: Online, config: dict[str, Any]) -> Online:
    """Return the settings of a resumed run, with the length of segments that it found before in place of ``auto``."""
    length = Checkpoints(Path(settings.out), config, settings.training.keep).settings().get("segment_length")
    if settings.training.segment_length != AUTO or length is None:
        return settings
    return replace(settings, training=replace(settings.training, segment_length=length))


def run_identity(settings: Online, recipe: Recipe) -> dict[str, Any]:
    """Return the settings that a resumed run must share with the run before."""
    same = settings.to_dict() | {"axes": str(recipe)} | hash_inputs(settings)
    same |= overrides() if "karl-v1" in settings.rewards else {}
    return json.loads(json.dumps(same, default=str))  # type: ignore[no-any-return]


INTERCEPT = {"reward": Raw, "anchor": BehaviourPolicy, "length": TokenSumLength, "scale": Temperature}
"""Axes of the regression whose intercept is log Z."""


def estimate_log_z(
    settings: Online, learner: PolicyLearner
) -> Callable[[Sequence[Prompt]], NDArray[np.float64]] | None:
    """Return the estimate t log Z of the mean outcome of prompts; None where log Z does not estimate it.

    It is one where log Z is regressed on r / t - (logp - logp_old) of whole rollouts, with the outcome itself as r: its
    optimum is then the mean outcome over t, plus a divergence from the policy that drew, which is small (PACED-RL,
    proposition 4.1). A log Z of scores within groups, as FlowRL has, does not depend on how hard a prompt is.
    """
    partition, policy, axes = learner.partition, learner.forward.policy, dict[str, Any](learner.objective.axes())
    shaped = settings.outcome is not None or settings.overlong_tokens
    is_intercept = all(isinstance(axes.get(axis), kind) for axis, kind in INTERCEPT.items())
    if partition is None or settings.curriculum != "paced" or shaped or not is_intercept:
        return None

    def estimate(prompts: Sequence[Prompt]) -> NDArray[np.float64]:
        log_z = partition.log_z(policy, (policy.encode(prompt.messages) for prompt in prompts))
        return np.asarray(axes["scale"].value * log_z)

    return estimate
