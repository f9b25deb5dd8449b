"""An online run from settings to adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online
    from karl_fast.rl.setup import OnlineRun, OnlineViewer


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Attributes:
        out: the folder: an adapter that mlx-lm loads, ``metrics.jsonl``, and ``rollouts.jsonl`` for `karl-fast sample`.
        rounds: number of rounds made.
        steps: updates of the weights.
        metrics: the last line of ``metrics.jsonl``.
        best: the best line of ``held_out.jsonl``, whose weights are in the folder ``best``; None without held-out
            prompts.
        rollouts: rollouts of all rounds.
        missing: missing rewards of all rounds by why, as in ``metrics.jsonl``.
        idle_rounds: rounds in which no step was made.
        dropped: number of rollouts that each filter of the recipe dropped in those rounds.
    """

    out: Path
    rounds: int
    steps: int
    metrics: dict[str, Any]
    best: dict[str, Any] | None = None
    rollouts: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    idle_rounds: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


class LastMetrics:
    """Does not look, but at the last line."""

    def __init__(self, viewer: OnlineViewer | None = None) -> None:
        self.viewer, self.last = viewer, dict[str, Any]()

    def started(self, run: OnlineRun) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.started(run)

    def said(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Keep the line, and pass it on."""
        self.last = metrics
        if self.viewer is not None:
            self.viewer.said(metrics, rollouts, failures)

    def judged(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.judged(line, failures)

    def noted(self, remark: str) -> None:
        """Pass it on."""
        if self.viewer is not None:
            self.viewer.noted(remark)


def rl(settings: Online, *, resume: bool = False, force: bool = False, viewer: OnlineViewer | None = None) -> RunResult:
    """Train a policy on the rewards of its rollouts.

    The bytes of its weights and of ``rollouts.jsonl`` are a function of the settings, the prompts, the reward functions
    and the machine's arithmetic: a run that is killed at any point and resumed gives the same bytes as one that was
    not.

    Args:
        settings: all settings.
        resume: continue from the last checkpoint; start anew if there is no run.
        force: start anew over an existing run; with ``resume``, only if it has no checkpoint. A run that was killed in
            its first round is always started anew.
        viewer: called with the progress of the run.

    Returns:
        The result of the run.

    Raises:
        UsageError: conflicting settings, a recipe that this loop cannot train, a group size of 1 for a recipe that
            compares the rollouts of a group, or fewer rounds than the resumed run has made.
        OutputForeignError: the path is a file, or a folder with other content than a run, without `resume` or `force`.
        ModelError: the model is missing, cannot be trained, or has caches that do not work over a group.
        OutputExistsError: the folder already has a run.
        CheckpointError: the run to resume has no checkpoint, or a damaged one, or one of another run: of other
            settings, prompts, or files of functions.
        AlarmError: an alarm stopped the run; its last checkpoint is kept.
        DivergedError: the weights are not finite; an earlier checkpoint may be intact.
        FileError: a file cannot be read or written; the last checkpoint is kept.

    Reference: none.
    """
    from karl_fast.modeling.load import require

    require()
    from karl_fast.modeling.memory_limit import limit_memory
    from karl_fast.modeling.model_views import checkpointed
    from karl_fast.rl.setup import prepare
    from karl_fast.rl.trainer import run_rounds

    run, watch = prepare(settings, resume=resume, force=force), LastMetrics(viewer)
    try:
        room = run.need.total - run.need.weights
        with checkpointed(run.policy.model, settings.training.grad_checkpoint), limit_memory(room):
            run_rounds(run, watch)
    finally:
        run.close()
    best = None if run.held_out is None else run.held_out.best
    now = run.progress
    counts = (now.round, now.step, watch.last, best, now.rollouts, now.missing, now.idle_rounds, now.dropped)
    return RunResult(Path(settings.out), *counts)
