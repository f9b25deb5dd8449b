"""The loop."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast._signals import Deferred, Stopped
from karl_fast.errors import DivergedError
from karl_fast.modeling.chunked_logp import clip_norm
from karl_fast.modeling.optimizer import aim, learning_rate
from karl_fast.train.batching import mix_seed

if TYPE_CHECKING:
    from karl_fast.train.setup import OfflineRun, Viewer
    from karl_fast.train.step import Gradient

MOST_SKIPPED = 10
"""Maximum consecutive steps with a gradient that is not finite, before a run gives up."""


def train(run: OfflineRun, viewer: Viewer) -> int:
    """Make the remaining steps of a run; it may stop after any of them and resume with the same result.

    A signal that ends the run saves a checkpoint of the last whole step.

    Returns:
        The step of the adapter's weights: the best one if the run ended early and kept it, else the last.
    """
    viewer.started(run)
    try:
        _make_steps(run, viewer)
    except (KeyboardInterrupt, Stopped):
        _save_interrupted(run, viewer)
        raise
    state = run.state
    if state.best and state.step < run.steps and run.checkpoints.put(state.best[1]):
        return state.best[1]
    return state.step


def _save_interrupted(run: OfflineRun, viewer: Viewer) -> None:
    """Save the last whole step, if no checkpoint has it; another signal leaves the one before."""
    run.state.step = run.whole_step
    found = run.checkpoints.found()
    if run.state.step > (int(found[-1].name) if found else 0):
        viewer.saved(run.checkpoints.save(run.learner.model, run.optimizer, run.state))


def _make_steps(run: OfflineRun, viewer: Viewer) -> None:
    settings, state = run.settings, run.state
    run.whole_step = state.step
    if state.step == 0:
        _judge(run, viewer)
    elif state.judged is not None and state.judged != state.step and _is_due(run):
        _judge(run, viewer)  # a signal came before
    while state.step < run.steps and not run.stopped:
        begun = time.perf_counter()
        state.step += 1
        mx.random.seed(mix_seed(settings.seed, state.step))
        left = run.batches - (state.step - 1) * settings.grad_accumulation_steps
        batches = [next(run.order) for _ in range(min(settings.grad_accumulation_steps, left))]
        gradient = run.learner.gradient(batches)
        if remark := run.learner.scorer.sharing.remark():
            viewer.noted(remark)
        with Deferred():
            rate = _update(run, gradient)
            state.epoch, state.batch = run.order.epoch, run.order.batch
            state.tokens += gradient.learned if gradient.finite else 0
            run.whole_step = state.step
        _say(run, viewer, _values(run, gradient, rate, time.perf_counter() - begun))
        last = state.step == run.steps
        if _is_due(run):
            _judge(run, viewer)
        if last and not gradient.finite:
            raise _diverged(run, "the gradient of the last step is not finite")
        if last or run.stopped or state.step % settings.save_every == 0:
            viewer.saved(run.checkpoints.save(run.learner.model, run.optimizer, state))


def _is_due(run: OfflineRun) -> bool:
    """Return whether the weights of this step are to be validated."""
    return run.state.step == run.steps or run.state.step % run.settings.steps_per_eval == 0


def _update(run: OfflineRun, gradient: Gradient) -> float:
    """Change the weights, unless that would spoil them; the learning rate."""
    rate = learning_rate(run.settings, run.state.step, run.steps)
    run.state.skipped = 0 if gradient.finite else run.state.skipped + 1
    if gradient.finite:
        aim(run.optimizer, run.settings, rate)
        run.optimizer.update(run.learner.model, clip_norm(gradient.values, gradient.norm, run.settings.max_grad_norm))
        mx.eval(run.learner.model.trainable_parameters(), run.optimizer.state)
    elif run.state.skipped >= MOST_SKIPPED:
        raise _diverged(run, f"the gradients of {MOST_SKIPPED} steps in a row are not finite")
    return rate


def _diverged(run: OfflineRun, said: str) -> DivergedError:
    found = run.checkpoints.found()
    left = f"the adapter is that of step {int(found[-1].name)}" if found else "nothing was saved"
    return DivergedError(f"step {run.state.step}: {said}; {left}")


def _values(run: OfflineRun, gradient: Gradient, rate: float, seconds: float) -> dict[str, Any]:
    return {
        "step": run.state.step,
        "loss": gradient.loss if gradient.finite else None,
        "learning_rate": rate,
        "grad_norm": gradient.norm if gradient.finite else None,
        "skipped": not gradient.finite,
        "learned_tokens": run.state.tokens,
        "tokens_per_second": gradient.real / seconds,
        "peak_bytes": mx.get_peak_memory(),
        "active_bytes": mx.get_active_memory(),
        "cache_bytes": mx.get_cache_memory(),
        "seconds": seconds,
    }


def _judge(run: OfflineRun, viewer: Viewer) -> None:
    loss, state = run.judge(), run.state
    if loss is None:
        state.judged = state.step
        return
    if not math.isfinite(loss):
        _say(run, viewer, {"step": state.step, "val_loss": None})
        raise _diverged(run, "the held-out loss is not finite")
    better = state.best is None or loss < state.best[0]
    with Deferred():
        state.judged = state.step
        state.best, state.stale = (
            ((loss, state.step), 0) if better or state.best is None else (state.best, state.stale + 1)
        )
    _say(run, viewer, {"step": state.step, "val_loss": loss})


def _say(run: OfflineRun, viewer: Viewer, values: dict[str, Any]) -> None:
    for tracker in run.trackers:
        tracker.log(values)
    viewer.said(values)
