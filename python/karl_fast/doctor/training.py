"""One step of LoRA at each of three lengths, with the planned memory beside the peak; and the same steps by mlx_lm.

Both train the same adapters of the same model on the same rows of random tokens, all of which are learned, with Adam.
Each step is made twice where the first took seconds, and the second counts: the first compiles kernels.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import in_gigabytes
from karl_fast.doctor.model import load_model
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.doctor import Job, Save
    from karl_fast.modeling.memory import TrainingMemory
    from karl_fast.train.examples import Example

GROWTH = 2
"""Power of the length that time grows with at most: that of attention."""

LENGTHS = "lengths.json"
"""File with the lengths of the steps of karl-fast."""

LOGITS = 3
"""Arrays of all logits in float32 that the loss of mlx_lm and its gradient hold."""

MARGIN = 10.0
"""Seconds that a check leaves of its time."""

LONGEST = 1 << 20
"""Tokens of a row that are allowed: the lengths are those of the run."""

REPEATED = 10.0
"""Seconds of a first step above which there is no second one."""


def check_training(job: Job, save: Save) -> dict[str, Any]:
    """Make the steps of karl-fast; return plan, peak and speed at each length."""
    clock, loaded = Clock(job), load_model(job)
    import mlx.core as mx

    from karl_fast.modeling.memory import choose_segments, limit_memory
    from karl_fast.modeling.optimizer import MODEL, build_optimizer
    from karl_fast.train.recipe import OfflineObjective
    from karl_fast.train.step import Learner

    memory = _adapt(loaded)
    settings, vocabulary = memory.settings, memory.shape.vocabulary
    optimizer = build_optimizer(settings)
    optimizer.init(loaded.model.trainable_parameters())
    rows: list[dict[str, Any]] = []
    for wanted in job.sizes.lengths:
        length = clock.shorten(wanted)
        plan = choose_segments(memory, [(1, length)], length, partial(_fits, length))  # if the whole row does not fit
        segment, need = plan.settings.segment_tokens, plan.need(1, length)
        row: dict[str, Any] = {"tokens": length, "planned_bytes": need.total}
        rows.append(row)
        row |= {"segment_tokens": segment} if segment is not None and segment < length else {}
        if reason := _excess(need.total, memory.limit) or clock.refusal(length):
            row["skipped"] = reason
        else:
            examples = [_example(length, vocabulary)]
            learner = Learner(loaded.model, examples, OfflineObjective(settings, examples), segment)
            with limit_memory(need.total - need.weights):
                for _ in clock.steps(length):
                    gradient = learner.gradient([[0]])
                    optimizer.update(loaded.model, gradient.clip(settings.max_grad_norm)[MODEL])
                    mx.eval(loaded.model.trainable_parameters(), optimizer.state)
                    clock.stop(float(gradient.loss))
            row |= clock.row()
        save({"steps": rows})
    Path(job.folder, LENGTHS).write_text(json.dumps([row["tokens"] for row in rows]), encoding="utf-8")
    return {"steps": rows, "limit_bytes": memory.limit, "rank": settings.lora_rank}


def check_mlx_lm(job: Job, save: Save) -> dict[str, Any]:
    """Make the same steps by the trainer of mlx_lm."""
    clock, loaded = Clock(job), load_model(job)
    memory = _adapt(loaded)
    file, vocabulary, rows = Path(job.folder, LENGTHS), memory.shape.vocabulary, list[dict[str, Any]]()
    for length in json.loads(file.read_text("utf-8")) if file.is_file() else job.sizes.lengths:
        row: dict[str, Any] = {"tokens": length}
        rows.append(row)
        # Where memory ends MLX ends the process, so a whole row and its logits have to fit by plan.
        logits = LOGITS * length * vocabulary * 4
        if reason := _excess(memory.need(1, length).total + logits, memory.limit) or clock.refusal(length):
            row["skipped"] = reason
        else:
            adapter = Path(job.folder, "mlx-lm.safetensors")
            _train_by_mlx_lm(loaded.model, _example(length, vocabulary), memory.settings.learning_rate, clock, adapter)
            row |= clock.row()
        save({"steps": rows})
    return {"steps": rows}


def _train_by_mlx_lm(model: Any, example: Any, learning_rate: float, clock: Clock, adapter: Path) -> None:
    """Make the steps of a check on one row."""
    import mlx.core as mx
    import mlx.optimizers as optim
    from mlx_lm.tuner import callbacks, trainer

    length = len(example.text.tokens)
    batch = mx.array(example.text.tokens)[None], mx.array([[1, length]])
    arguments = trainer.TrainingArgs(
        batch_size=1,
        iters=2,
        steps_per_report=1,
        steps_per_save=1 << 30,
        max_seq_length=length,
        adapter_file=str(adapter),
    )

    class Reports(callbacks.TrainingCallback):
        def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
            clock.stop(float(train_info["train_loss"]))

    def batches(**_: Any) -> Iterator[Any]:
        return (batch for _ in clock.steps(length))

    optimizer = optim.Adam(learning_rate)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train(model, optimizer, [0], None, arguments, iterate_batches=batches, training_callback=Reports())


class Clock:
    """Time and memory of the steps of a check, and what longer ones would take."""

    def __init__(self, job: Job) -> None:
        self._end = time.monotonic() + job.seconds - MARGIN
        self._length, self._losses = 0, list[float]()
        self._start = self._seconds = 0.0

    def shorten(self, length: int) -> int:
        """Return a length, halved while a step would take too long and it is longer than the last."""
        while length // 2 > self._length and self.refusal(length):
            length //= 2
        return length

    def refusal(self, length: int) -> str | None:
        """Return why a step is not made: it would take longer than is left; None to make it."""
        wanted = self._seconds * (length / self._length) ** GROWTH if self._length else 0.0
        left = self._end - time.monotonic()
        return None if wanted <= left else f"it would take {wanted:.0f} s"

    def steps(self, length: int) -> Iterator[None]:
        """Yield at the start of each step: two, or one where the first takes long."""
        import mlx.core as mx

        self._length, self._losses = length, []
        while not self._losses or (len(self._losses) == 1 and self._seconds <= REPEATED):
            mx.synchronize()
            mx.clear_cache()
            mx.reset_peak_memory()
            self._start = time.perf_counter()
            yield

    def stop(self, loss: float) -> None:
        """End a step.

        Raises:
            KarlError: its loss is not finite.
        """
        self._seconds = time.perf_counter() - self._start
        self._losses.append(loss)
        if not math.isfinite(loss):
            raise KarlError(f"the loss of a row of {self._length:,} tokens is {loss}")

    def row(self) -> dict[str, Any]:
        """Return speed and peak memory of the last step, and the loss before the first."""
        import mlx.core as mx

        return {
            "peak_bytes": mx.get_peak_memory(),
            "seconds": round(self._seconds, 3),
            "tokens_per_second": round(self._length / self._seconds, 1),
            "loss": round(self._losses[0], 4),
        }


def _fits(length: int, plan: TrainingMemory) -> bool:
    return plan.need(1, length).total <= plan.limit


def _excess(need: int, limit: int) -> str | None:
    """Return why memory does not suffice; None where it does."""
    return f"it needs {in_gigabytes(need)}, there are {in_gigabytes(limit)}" if need > limit else None


def _adapt(loaded: Any) -> TrainingMemory:
    """Add adapters to a model, the same for both trainers, and return the memory plan of its steps."""
    import mlx.core as mx

    from karl_fast.modeling.load import adapt
    from karl_fast.modeling.memory import estimate_training
    from karl_fast.train.model_logprobs import Scorer
    from karl_fast.train.settings import Training

    settings = Training(batch_size=1, max_seq_length=LONGEST)
    mx.random.seed(0)
    layers = adapt(loaded.model, settings)["num_layers"]
    loaded.model.train()
    mx.eval(loaded.model.parameters())
    scorer = Scorer(loaded.model)
    return estimate_training(loaded.model, scorer.body, scorer.vocabulary, settings, layers, lambda: scorer.carrier)


def _example(length: int, vocabulary: int) -> Example:
    """Return a row of random tokens, all of them learned."""
    import numpy as np

    from karl_fast.train.chat_template import Text
    from karl_fast.train.examples import Example

    tokens = np.random.default_rng(length).integers(4, min(vocabulary, 1 << 15), length).astype(np.int32)
    return Example(Text(tokens, np.ones(length, dtype=np.bool_)), 0)
