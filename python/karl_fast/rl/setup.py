"""A run, ready to go: everything is loaded and checked before the first rollout."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast import _atomic, _seen_hashes
from karl_fast._user_code import here, within
from karl_fast.errors import CheckpointError, UsageError
from karl_fast.modeling import optimizer
from karl_fast.modeling.checkpoint import Checkpoints, TrainingState
from karl_fast.modeling.trackers import METRICS_FILE, ExternalTracker, JsonLines, Tracker
from karl_fast.rl import curriculum, held_out, memory
from karl_fast.rl.run_state import Progress, load_progress, remove_old_progress, save_progress
from karl_fast.rl.run_dir import check_run_dir, remove_run
from karl_fast.rl.rollout_log import ROLLOUTS_FILE, RolloutLog, read_groups
from karl_fast.rl.log_z_estimate import estimate_log_z
from karl_fast.rl.finished_rollouts import FINISHED_FILE
from karl_fast.rl.factory import build_decoder, build_environment, build_held_out, build_learner, build_recipe, build_reward_functions, build_sampling, describe_start, load_policy, positions_remark, prompt_length, read_seen_hashes, restore_settings, run_identity, unadapted_experts
from karl_fast.rl.alarms import AlarmMonitor
from karl_fast.rl.collect_rollouts import Collector
from karl_fast.rl.config import read_prompts
from karl_fast.rl.finished_rollouts import FinishedRollouts
from karl_fast.rl.log_z_trainer import learns_log_z
from karl_fast.rl.logprobs import unshared
from karl_fast.rl.replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.objective import Recipe
    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.learner import PolicyLearner
    from karl_fast.rl.memory import RoundNeed
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rollout import Prompt, Rollout
    from karl_fast.rl.settings import Online


class OnlineViewer(Protocol):
    """Receiver of the progress of a run."""

    def started(self, run: OnlineRun) -> None:
        """Report that everything is loaded, before the first round."""

    def said(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Report a round: its line of metrics.jsonl, its rollouts, and its failures."""

    def judged(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Report an evaluation of held-out prompts: its line of held_out.jsonl, and its failures."""

    def noted(self, remark: str) -> None:
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


@dataclass
class OnlineRun:
    """A run between two rounds.

    ``out`` is the folder of the run, wherever the process goes.
    """

    settings: Online
    out: Path
    recipe: Recipe
    asked: PromptSet
    collector: Collector
    learner: PolicyLearner
    curriculum: Curriculum
    buffer: ReplayBuffer
    monitor: AlarmMonitor
    identity: dict[str, Any]
    checkpoints: Checkpoints
    need: RoundNeed
    seen_before: _seen_hashes.Seen
    held_out: held_out.HeldOut | None = None
    remarks: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    trackers: list[Tracker] = field(init=False)
    journal: RolloutLog = field(init=False)
    finished: FinishedRollouts = field(init=False)

    @property
    def policy(self) -> Policy:
        """Policy that is trained."""
        return self.collector.policy

    @property
    def steps(self) -> int:
        """Number of updates if every round has a gradient."""
        return self.settings.rounds * self.settings.epochs * self.settings.minibatches

    def rate(self, number: int) -> float:
        """Return the learning rate of a step of this round, by its number in it from 0."""
        return optimizer.learning_rate(self.settings.training, self.progress.step + number + 1, self.steps)

    def aim(self, number: int) -> None:
        """Set the optimizer up for a step of this round."""
        optimizer.aim(self.learner.optimizer, self.settings.training, self.rate(number))

    @property
    def stopped(self) -> bool:
        """True if held-out prompts ended the run early."""
        return self.held_out is not None and self.held_out.stopped

    @property
    def seen(self) -> _seen_hashes.Seen:
        """Hashes of the prompts that it learns from or chooses on, and of those of the adapter that it starts from."""
        prompts = [*self.asked.prompts, *(self.held_out.prompts if self.held_out else [])]
        found = _seen_hashes.of((one.messages for one in prompts), (one.columns.get("group") for one in prompts))
        return found | self.seen_before

    def keep_best(self) -> None:
        """Write the present weights as the best adapter by held-out prompts."""
        held_out.keep_best(self.out / held_out.BEST, self.policy.model, self.checkpoints.config)
        _seen_hashes.write(self.out / held_out.BEST, self.seen)

    def close(self) -> None:
        """Close all files, even if one fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.journal.finish)
            stack.callback(self.finished.finish)
            for tracker in self.trackers:
                stack.callback(self._finish, tracker)

    def _finish(self, tracker: Tracker) -> None:
        with _atomic.refused(self.out / METRICS_FILE):
            tracker.finish()

    def save(self) -> None:
        """Write a checkpoint, after the state beside it."""
        out, now = self.out, self.progress
        now.flat, now.skipped, now.idle = self.monitor.flat, self.monitor.skipped, self.monitor.idle
        now.metrics_bytes, now.rollouts_bytes = (out / METRICS_FILE).stat().st_size, self.journal.size
        now.curriculum = self.curriculum.state()
        now.replay, now.replay_errors = list(self.buffer.groups), list(self.buffer.errors.values())
        now.held_out = {} if self.held_out is None else self.held_out.state()
        save_progress(out, now, self.learner.partition)
        self.checkpoints.save(
            self.policy.model, self.learner.optimizer, TrainingState(step=now.round, settings=self.identity)
        )
        self.finished.clear()
        remove_old_progress(out, {int(place.name) for place in self.checkpoints.found()})


def prepare(settings: Online, *, resume: bool = False, force: bool = False) -> OnlineRun:
    """Load and check all that a run needs.

    Raises:
        KarlError: whatever of it is not there or does not fit; nothing is written before all is known to.
    """
    _refuse_missing_settings(settings)
    began, recipe, prompts = here(), build_recipe(settings), read_prompts(settings.prompts)
    unseen = read_prompts(settings.eval_prompts) if settings.eval_prompts else []
    make, reward_functions = build_environment(settings, began), build_reward_functions(settings, began)
    with within(began):  # where paths are relative to, wherever a user's file has gone
        check_run_dir(Path(settings.out), resume=resume, force=force, adapter=settings.adapter)
        policy, config = load_policy(settings)
        start_remark = describe_start(settings, config)
        settings = restore_settings(settings, config) if resume else settings
    asked = _largest_segment(settings, policy, prompts)
    judged = _largest_segment(settings, policy, unseen) if unseen else None
    sizes = memory.sizes_of(settings, longest := max(asked.longest, judged.longest if judged else 0))
    remarks = [positions_remark(policy, settings, sizes), unshared(settings.micro_batch, longest), start_remark]
    remarks.append(unadapted_experts(policy, settings, config))
    settings, need = _plan_memory(settings, recipe, policy, config, sizes)
    decoder, sampling = build_decoder(settings, policy, asked.prompts), build_sampling(settings)
    collector = Collector(decoder, reward_functions, sampling, make)
    with within(began):
        identity, seen_before = run_identity(settings, recipe), read_seen_hashes(settings)
    learner = build_learner(settings, recipe, policy)
    run = OnlineRun(
        settings=settings,
        out=began / settings.out,
        recipe=recipe,
        asked=asked,
        collector=collector,
        learner=learner,
        curriculum=curriculum.build_curriculum(settings, asked.prompts, estimate_log_z(settings, learner)),
        buffer=ReplayBuffer(settings.replay),
        monitor=AlarmMonitor(settings.alarms),
        identity=identity,
        checkpoints=Checkpoints(began / settings.out, config, settings.training.keep),
        need=need,
        seen_before=seen_before,
        held_out=None if judged is None else build_held_out(settings, collector, judged.prompts),
        remarks=[remark for remark in remarks if remark is not None],
    )
    if resume and run.checkpoints.found():
        _restore_checkpoint(run)
    _open_files(run, anew=not run.progress.round)
    return run


def _refuse_missing_settings(settings: Online) -> None:
    for name in ("model", "prompts", "out"):
        if not getattr(settings, name):
            raise UsageError(f"{name} is not set: a run needs one", name)


def _plan_memory(
    settings: Online, recipe: Recipe, policy: Policy, config: Any, sizes: memory.Sizes
) -> tuple[Online, RoundNeed]:
    """Return the settings with those that were left to the plan of memory, and what a round needs.

    Raises:
        UsageError: it does not fit.
    """
    divergence = recipe.objective.reads_divergence is not None
    plan = memory.of_policy(policy, settings, config, divergence=divergence, log_z=learns_log_z(recipe)).settled(sizes)
    settings = replace(settings, training=plan.memory.settings)
    return settings, plan.check(sizes, settings)


def _largest_segment(settings: Online, policy: Policy, prompts: list[Prompt]) -> PromptSet:
    lengths = [prompt_length(policy, one) for one in prompts]
    kept = [one for one, length in zip(prompts, lengths, strict=True) if length < settings.max_context]
    if not kept:
        shortest = f"the shortest prompt has {min(lengths)} tokens: no room for an answer"
        raise UsageError(f"max_context is {settings.max_context}, and {shortest}", "max_context")
    longest = max(length for length in lengths if length < settings.max_context)
    return PromptSet(kept, len(prompts) - len(kept), longest)


def _restore_checkpoint(run: OnlineRun) -> None:
    """Restore a run from its last checkpoint."""
    out, learner = run.out, run.learner
    state = run.checkpoints.resume(run.policy.model, learner.optimizer, run.identity)
    if run.settings.rounds < state.step:
        raise UsageError(f"rounds is {run.settings.rounds}, and the run has made {state.step}", "rounds")
    now = run.progress = load_progress(out, state.step, learner.partition)
    run.monitor.flat, run.monitor.skipped, run.monitor.idle = now.flat, now.skipped, now.idle
    run.curriculum.restore(now.curriculum)
    if run.held_out is not None:
        run.held_out.restore(now.held_out)
    run.buffer.groups = read_groups(
        out / ROLLOUTS_FILE, now.replay, {one.id: one for one in run.asked.prompts}
    )
    run.buffer.errors = dict(zip(now.replay, now.replay_errors, strict=True))


def _open_files(run: OnlineRun, *, anew: bool) -> None:
    """Open the files of a run, cut back to where the checkpoint left them."""
    settings, out, now = run.settings, run.out, run.progress
    elsewhere = [ExternalTracker(library, settings.training, out) for library in settings.training.report_to or ()]
    if anew:
        remove_run(out)  # the last thing: what can be wrong with the new run has been found
    with _atomic.refused(out):
        out.mkdir(parents=True, exist_ok=True)
    # The journal locks the folder: a second run is refused here.
    run.journal = RolloutLog(out / ROLLOUTS_FILE, now.rollouts_bytes)
    _seen_hashes.write(out, run.seen)
    with _atomic.refused(out / METRICS_FILE), (out / METRICS_FILE).open("ab") as file:
        if file.tell() < now.metrics_bytes:
            run.journal.finish()
            raise CheckpointError(f"{out / METRICS_FILE} is shorter than when the checkpoint was made")
        file.truncate(now.metrics_bytes)
    run.finished = FinishedRollouts(
        out / FINISHED_FILE, run.identity, {one.id: one for one in run.asked.prompts}
    )
    run.trackers = [JsonLines(out / METRICS_FILE, run.steps), *elsewhere]
