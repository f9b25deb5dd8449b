"""An online run from settings to adapter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online
    from karl_fast.rl.setup import OnlineRun, Viewer


@dataclass(frozen=True)
class Finished:
    """What a run left.

    Attributes:
        out: the folder: an adapter that mlx-lm loads, ``metrics.jsonl``, and ``rollouts.jsonl`` for `karl-fast sample`.
        rounds: how many were made.
        steps: updates of the weights.
        metrics: the last line of ``metrics.jsonl``.
    """

    out: Path
    rounds: int
    steps: int
    metrics: dict[str, Any]


class Nobody:
    """Does not look, but at the last line."""

    def __init__(self, viewer: Viewer | None = None) -> None:
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


def rl(settings: Online, *, resume: bool = False, force: bool = False, viewer: Viewer | None = None) -> Finished:
    """Train a policy on what its rollouts are worth.

    The bytes of its weights and of ``rollouts.jsonl`` are a function of the settings, the prompts, the reward functions
    and the machine's arithmetic: a run that is killed anywhere and resumed ends with those of one that was not.

    Args:
        settings: every choice.
        resume: go on from the last checkpoint there; from the start where there is no run.
        force: begin anew where a run is there already; with ``resume``, where it has no checkpoint. One that was killed
            in its first round is begun anew unasked.
        viewer: told how it goes.

    Returns:
        What the run left.

    Raises:
        UsageError: settings that do not go together, a recipe that this loop has no use for, a group size of 1 where it
            compares the rollouts of a group, or fewer rounds than the run to resume has made.
        OutputForeignError: a file in the place of the folder, or a folder with something in it that no run writes, and
            neither `resume` nor `force`.
        ModelError: no model there, one that cannot be trained, or one whose caches do not work over a group.
        OutputExistsError: a run is there already.
        CheckpointError: a run to resume without a checkpoint, or whose checkpoint is damaged or of another run: of
            other settings, prompts, or files of functions.
        AlarmError: a run that was stopped because going on is no use; its last checkpoint is there.
        DivergedError: weights that are spoiled; an earlier checkpoint may be whole.
        FileError: a file that cannot be read or written; the last checkpoint stays whole.

    Reference: none.
    """
    from karl_fast.modeling.load import require
    from karl_fast.modeling.views import checkpointed
    from karl_fast.rl.setup import prepare
    from karl_fast.rl.trainer import rounds

    require()
    run, watch = prepare(settings, resume=resume, force=force), Nobody(viewer)
    try:
        with checkpointed(run.policy.model, settings.training.grad_checkpoint):
            rounds(run, watch)
    finally:
        run.close()
    return Finished(Path(settings.out), run.progress.round, run.progress.step, watch.last)
