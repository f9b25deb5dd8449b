"""A run, ready to go: everything is loaded and checked before the first rollout."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast.errors import UsageError
from karl_fast.functions import function
from karl_fast.rl import curriculum, place, progress, read, record
from karl_fast.rl.alarm import Watch
from karl_fast.rl.buffer import Buffer
from karl_fast.rl.collect import Collector, Sampling
from karl_fast.rl.forward import Forward
from karl_fast.rl.learn import Learner, Passes
from karl_fast.rl.partition import Partition
from karl_fast.rl.policy import LanguageModel
from karl_fast.rl.reward import ENVIRONMENT, Rewards, Weighted
from karl_fast.rl.talk import Budget
from karl_fast.train import model, optimizer, whole
from karl_fast.train.checkpoint import Checkpoints, State
from karl_fast.train.metrics import FILE, Elsewhere, JsonLines, Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.objective import Recipe
    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.environment import Environment
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.progress import Progress
    from karl_fast.rl.rollout import Prompt, Rollout
    from karl_fast.rl.settings import Online


class Viewer(Protocol):
    """Somebody who is told how a run goes."""

    def started(self, run: Run) -> None:
        """Everything is loaded, and the first round comes."""

    def said(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """A round is over: its line of metrics.jsonl, what it drew, and what failed in it."""


@dataclass(frozen=True)
class Asked:
    """What a policy is asked, and how it is judged.

    Attributes:
        prompts: those that fit.
        too_long: how many do not.
        rewards: what rollouts are worth.
        make: an environment for each rollout, or None.
    """

    prompts: list[Prompt]
    too_long: int
    rewards: Rewards
    make: Callable[[], Environment] | None


@dataclass
class Run:
    """A run between two rounds."""

    settings: Online
    recipe: Recipe
    policy: Policy
    asked: Asked
    collector: Collector
    learner: Learner
    optimizer: Any
    partition: Partition | None
    curriculum: Curriculum
    buffer: Buffer
    watch: Watch
    progress: Progress
    identity: dict[str, Any]
    checkpoints: Checkpoints
    trackers: list[Tracker]
    journal: record.Journal

    @property
    def steps(self) -> int:
        """How many updates the run makes where every round has something to learn from."""
        return self.settings.rounds * self.settings.epochs * self.settings.minibatches

    def rate(self, number: int) -> float:
        """The learning rate of a step of this round, by its number in it from 0."""
        return optimizer.learning_rate(self.settings.training, self.progress.step + number + 1, self.steps)

    def aim(self, number: int) -> None:
        """Set the optimizer up for a step of this round."""
        optimizer.aim(self.optimizer, self.settings.training, self.rate(number))

    def close(self) -> None:
        """Close what is written to, all of it where one refuses."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.journal.finish)
            for tracker in self.trackers:
                stack.callback(self._finish, tracker)

    def _finish(self, tracker: Tracker) -> None:
        with whole.refused(Path(self.settings.out) / FILE):
            tracker.finish()

    def save(self) -> None:
        """A checkpoint: what stands beside it first."""
        out, now = Path(self.settings.out), self.progress
        now.flat, now.skipped = self.watch.flat, self.watch.skipped
        now.metrics_bytes, now.rollouts_bytes = (out / FILE).stat().st_size, self.journal.size
        now.curriculum, now.replay = self.curriculum.state(), list(self.buffer.groups)
        progress.save(out, now, self.partition)
        self.checkpoints.save(self.policy.model, self.optimizer, State(step=now.round, settings=self.identity))
        progress.forget(out, {int(place.name) for place in self.checkpoints.found()})


def prepare(settings: Online, *, resume: bool = False, force: bool = False) -> Run:
    """Load and check all that a run needs.

    Raises:
        KarlError: whatever of it is not there or does not fit; nothing is written before all is known to.
    """
    import mlx.core as mx

    for name in ("model", "prompts", "out"):
        if not getattr(settings, name):
            raise UsageError(f"{name} is not set: a run needs one", name)
    recipe = read.chosen(settings.recipe)
    _learnable(recipe)
    lines, make = read.prompts(settings.prompts), _environment(settings)
    rewards = _rewards(settings)
    place.free(Path(settings.out), resume=resume, force=force)
    mx.set_cache_limit(int(settings.training.cache_limit * 1e9))
    policy, config = _policy(settings)
    kept = [one for one in lines if len(policy.encode(one.messages)) < settings.max_context]
    if not kept:
        raise UsageError(f"every prompt is longer than max_context, {settings.max_context} tokens", "max_context")
    asked = Asked(kept, len(lines) - len(kept), rewards, make)
    return _assembled(settings, recipe, policy, config, asked, resume=resume, force=force)


def _environment(settings: Online) -> Callable[[], Environment] | None:
    return None if settings.environment is None else function(settings.environment)


def _rewards(settings: Online) -> Rewards:
    functions = [Weighted(_short(name), function(name), weight) for name, weight in settings.rewards.items()]
    if not functions and settings.environment is None:
        raise UsageError("rewards names no function, and there is no environment", "rewards", "environment")
    names = [one.name for one in functions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"rewards names two functions {twice}: a component needs a name of its own", "rewards")
    there = [*names, *([ENVIRONMENT] if settings.environment is not None else [])]
    if settings.outcome is not None and settings.outcome not in there:
        raise UsageError(f"outcome is {settings.outcome!r}, wanted one of {', '.join(there)}", "outcome")
    return Rewards(
        functions,
        timeout_seconds=settings.timeout_seconds,
        environment=None if settings.environment is None else settings.environment_weight,
        outcome=settings.outcome,
    )


def _assembled(
    settings: Online,
    recipe: Recipe,
    policy: Policy,
    config: dict[str, Any],
    asked: Asked,
    *,
    resume: bool,
    force: bool,
) -> Run:
    out, forward = Path(settings.out), Forward(policy, settings.temperature)
    adam = optimizer.build(settings.training)
    adam.init(policy.model.trainable_parameters())
    partition = _partition(settings, recipe, forward)
    checkpoints = Checkpoints(out, config | {"model": settings.model}, settings.training.keep)
    identity = _identity(settings, recipe)
    now = progress.Progress()
    if resume and checkpoints.found():
        now = progress.load(out, checkpoints.resume(policy.model, adam, identity).step, partition)
    order, buffer = curriculum.of(settings, asked.prompts), Buffer(settings.replay)
    if now.round:
        order.restore(now.curriculum)
        buffer.groups = record.groups(out / record.FILE, now.replay, {one.id: one for one in asked.prompts})
    elsewhere = [Elsewhere(library, settings.training, out) for library in settings.training.report_to or ()]
    if force and not now.round:
        place.clear(out)  # the last thing: what can be wrong with the new run has been found
    with whole.refused(out):
        out.mkdir(parents=True, exist_ok=True)
    return Run(
        settings=settings,
        recipe=recipe,
        policy=policy,
        asked=asked,
        collector=Collector(policy, asked.rewards, _sampling(settings), asked.make),
        learner=Learner(forward, recipe.objective, adam, _passes(settings), partition),
        optimizer=adam,
        partition=partition,
        curriculum=order,
        buffer=buffer,
        watch=Watch(settings.alarms, now.flat, now.skipped),
        progress=now,
        identity=identity,
        checkpoints=checkpoints,
        trackers=[_metrics(settings, now), *elsewhere],
        journal=record.Journal(out / record.FILE, now.rollouts_bytes),
    )


def _identity(settings: Online, recipe: Recipe) -> dict[str, Any]:
    """What a run that goes on has to have in common with the one before."""
    same = settings.to_dict() | {"axes": str(recipe)} | place.contents(settings)
    return json.loads(json.dumps(same, default=str))  # type: ignore[no-any-return]


def _passes(settings: Online) -> Passes:
    return Passes(settings.epochs, settings.minibatches, settings.micro_batch, settings.training.max_grad_norm)


def _learnable(recipe: Recipe) -> None:
    from karl_fast.objective import WeightedLikelihood
    from karl_fast.objective.advantage import Given
    from karl_fast.objective.candidates import SetScore

    points = recipe.objective.axes().values()
    if isinstance(recipe.objective, WeightedLikelihood):
        raise UsageError(f"{recipe.name} learns from logged rows: it is a recipe of karl-fast train", "recipe")
    if any(isinstance(point, Given | SetScore) for point in points):
        raise UsageError(f"{recipe.name} needs what this loop does not make: a critic, or sets of candidates", "recipe")


def _short(place: str) -> str:
    """The name of a component: the function's, without its file."""
    return place.rpartition(":")[2]


def _policy(settings: Online) -> tuple[Policy, dict[str, Any]]:
    import mlx.core as mx

    mx.random.seed(settings.training.seed)
    if ".py:" in settings.model:
        policy = function(settings.model)(seed=settings.training.seed)
        policy.model.eval()
        mx.eval(policy.model.parameters())
        return policy, {"fine_tune_type": "full"}
    loaded = model.load(settings.model)
    config = model.adapt(loaded.model, settings.training)
    loaded.model.eval()  # for good: dropout would make every ratio a matter of chance
    mx.eval(loaded.model.parameters())
    return LanguageModel(loaded), config


def _partition(settings: Online, recipe: Recipe, forward: Forward) -> Partition | None:
    import mlx.core as mx

    if not getattr(getattr(recipe.objective, "log_z", None), "learned", False):
        return None
    size = int(forward.policy.body(mx.array([[0]])).shape[-1])
    return Partition(size, learning_rate=settings.log_z_learning_rate, seed=settings.training.seed)


def _sampling(settings: Online) -> Sampling:
    turn = settings.max_turn_tokens or settings.max_tokens
    budget = Budget(settings.max_tokens, settings.max_turns, settings.max_context, turn)
    return Sampling(settings.group_size, settings.temperature, budget, settings.draw_rows, settings.timeout_seconds)


def _metrics(settings: Online, now: Progress) -> JsonLines:
    """The file of metrics, cut back to where the checkpoint left it."""
    out = Path(settings.out)
    if (out / FILE).is_file():
        with (out / FILE).open("ab") as file:
            file.truncate(now.metrics_bytes)
    return JsonLines(out / FILE, settings.rounds * settings.epochs * settings.minibatches)
