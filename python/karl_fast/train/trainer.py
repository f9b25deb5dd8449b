"""The training loop of `karl-fast train`: batches, gradient, update, validation, checkpoint.

```text
for each step:   seed by (seed, step)
                 batches of the step --> gradient --> update, or skip where it is not finite
                 metrics; every steps_per_eval: held-out loss; every save_every: checkpoint
```

A run may stop after any step and resume with the same result: all that a step needs is in the state of the run.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from karl_fast._signals import Deferred, Stopped
from karl_fast.errors import DivergedError
from karl_fast.modeling.optimizer import MODEL, learning_rate, set_learning_rate
from karl_fast.train.batching import mix_seed

if TYPE_CHECKING:
    from karl_fast.modeling.optimizer import StepGradient
    from karl_fast.train.setup import OfflineRun, Viewer

MOST_SKIPPED = 10
"""Maximum consecutive steps with a gradient that is not finite, before a run gives up."""


def train(run: OfflineRun, viewer: Viewer) -> int:
    """Make the remaining steps of a run.

    A signal that ends the run saves a checkpoint of the last whole step.

    Returns:
        The step of the adapter's weights: the best one if the run ended early and kept it, else the last.
    """
    viewer.on_start(run)
    try:
        _make_steps(run, viewer)
    except (KeyboardInterrupt, Stopped):
        _save_interrupted(run, viewer)
        raise
    state = run.state
    if state.best and state.step < run.steps and run.checkpoints.copy_to_adapter(state.best[1]):
        return state.best[1]
    return state.step


def _make_steps(run: OfflineRun, viewer: Viewer) -> None:
    settings, state, learner = run.settings, run.state, run.learner
    run.whole_step = state.step
    # A signal may have ended the run between a step and its validation.
    interrupted = state.judged is not None and state.judged != state.step and _is_due(run)
    if state.step == 0 or interrupted:
        _evaluate(run, viewer)
    while state.step < run.steps and not run.stopped:
        start = time.perf_counter()
        state.step += 1
        mx.random.seed(mix_seed(settings.seed, state.step))
        remaining = run.batches - (state.step - 1) * settings.grad_accumulation_steps
        batches = [next(run.order) for _ in range(min(settings.grad_accumulation_steps, remaining))]
        gradient = learner.gradient(batches)
        learned, total = learner.count_tokens(batches)
        if remark := learner.scorer.sharing.remark():
            viewer.on_message(remark)
        rate = learning_rate(settings, state.step, run.steps)
        with Deferred():  # a signal waits until weights and state are of the same step
            _update(run, gradient, rate)
            state.epoch, state.batch = run.order.epoch, run.order.batch
            state.tokens += learned if gradient.finite else 0
            run.whole_step = state.step
        seconds = time.perf_counter() - start
        _report(run, viewer, _step_metrics(run, gradient, rate) | _speed_metrics(total, seconds))
        last = state.step == run.steps
        if _is_due(run):
            _evaluate(run, viewer)
        if last and not gradient.finite:
            raise _diverged(run, "the gradient of the last step is not finite")
        if last or run.stopped or state.step % settings.save_every == 0:
            viewer.on_checkpoint(run.checkpoints.save(learner.model, run.optimizer, state))


def _update(run: OfflineRun, gradient: StepGradient, rate: float) -> None:
    """Update the weights, or skip the step if its gradient is not finite."""
    model, settings = run.learner.model, run.settings
    run.state.skipped = 0 if gradient.finite else run.state.skipped + 1
    if gradient.finite:
        set_learning_rate(run.optimizer, settings, rate)
        run.optimizer.update(model, gradient.clip(settings.max_grad_norm)[MODEL])
        mx.eval(model.trainable_parameters(), run.optimizer.state)
    elif run.state.skipped >= MOST_SKIPPED:
        raise _diverged(run, f"the gradients of {MOST_SKIPPED} steps in a row are not finite")


def _is_due(run: OfflineRun) -> bool:
    """Return whether the weights of this step are to be validated."""
    return run.state.step == run.steps or run.state.step % run.settings.steps_per_eval == 0


def _evaluate(run: OfflineRun, viewer: Viewer) -> None:
    """Compute the held-out loss, and update the best one; nothing to report without a held-out row."""
    loss, state = run.held_out_loss(), run.state
    if loss is None:
        state.judged = state.step
        return
    if not math.isfinite(loss):
        _report(run, viewer, {"step": state.step, "val_loss": None})
        raise _diverged(run, "the held-out loss is not finite")
    with Deferred():
        state.judged = state.step
        if state.best is None or loss < state.best[0]:
            state.best, state.stale = (loss, state.step), 0
        else:
            state.stale += 1
    _report(run, viewer, {"step": state.step, "val_loss": loss} | run.held_out_statistics)


def _step_metrics(run: OfflineRun, gradient: StepGradient, rate: float) -> dict[str, Any]:
    return {
        "step": run.state.step,
        "loss": gradient.loss if gradient.finite else None,
        "learning_rate": rate,
        "grad_norm": gradient.norms[MODEL] if gradient.finite else None,
        "skipped": not gradient.finite,
        "learned_tokens": run.state.tokens,
        **run.learner.statistics,
    }


def _speed_metrics(tokens: int, seconds: float) -> dict[str, Any]:
    return {
        "tokens_per_second": tokens / seconds,
        "peak_bytes": mx.get_peak_memory(),
        "active_bytes": mx.get_active_memory(),
        "cache_bytes": mx.get_cache_memory(),
        "seconds": seconds,
    }


def _report(run: OfflineRun, viewer: Viewer, metrics: dict[str, Any]) -> None:
    for tracker in run.trackers:
        tracker.log(metrics)
    viewer.on_metrics(metrics)


def _save_interrupted(run: OfflineRun, viewer: Viewer) -> None:
    """Save the last whole step, if no checkpoint has it; another signal leaves the one before."""
    run.state.step = run.whole_step
    saved = run.checkpoints.folders()
    if run.state.step > (int(saved[-1].name) if saved else 0):
        viewer.on_checkpoint(run.checkpoints.save(run.learner.model, run.optimizer, run.state))


def _diverged(run: OfflineRun, why: str) -> DivergedError:
    saved = run.checkpoints.folders()
    result = f"the adapter is that of step {int(saved[-1].name)}" if saved else "nothing was saved"
    return DivergedError(f"step {run.state.step}: {why}; {result}")
