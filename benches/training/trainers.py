"""Two trainers on the same rows, for train.py: the loop of mlx-lm and that of karl-fast, each step on a clock."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx_lm.models import gemma3_text, qwen3
from mlx_lm.tuner import trainer
from mlx_lm.tuner.datasets import CacheDataset

from karl_fast.cli.reports.train import Silent
from karl_fast.modeling import optimizer
from karl_fast.modeling.checkpoint import Checkpoints, TrainingState, open_trackers
from karl_fast.modeling.load import adapt
from karl_fast.modeling.memory import Need
from karl_fast.train import Training
from karl_fast.train import trainer as loop
from karl_fast.train.batching import BatchOrder, row_units
from karl_fast.train.chat_template import Text
from karl_fast.train.examples import Example
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.setup import OfflineRun
from karl_fast.train.step import Learner

BATCH = 4

SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "sliding_window": 64,
    "sliding_window_pattern": 2,
    "query_pre_attn_scalar": 32,
}

SETTINGS = Training(learning_rate=1e-4, max_grad_norm=0.0, max_seq_length=256)


def model_of(kind: str, bits: int | None, vocabulary: int) -> Any:
    module = {"qwen3": qwen3, "gemma3_text": gemma3_text}[kind]
    mx.random.seed(0)
    model = module.Model(module.ModelArgs.from_dict(SHAPE | {"model_type": kind, "vocab_size": vocabulary}))
    model.sanitize({})
    if bits is not None:
        import mlx.nn as nn

        nn.quantize(model, group_size=32, bits=bits)
    adapt(model, SETTINGS)
    model.train()
    mx.eval(model.parameters())
    return model


def rows_of(count: int, vocabulary: int, share: float) -> list[Text]:
    """Rows of which the last share is learned."""
    random = np.random.default_rng(0)
    lengths = random.integers(24, 200, count)
    return [
        Text(random.integers(4, vocabulary, length).astype(np.int32), np.arange(length) >= max(1, (1 - share) * length))
        for length in lengths
    ]


class Rows:
    """What mlx-lm takes for a data set: tokens, and where the learned part begins."""

    def __init__(self, texts: list[Text]) -> None:
        self.texts = texts

    def process(self, row: int) -> tuple[list[int], int]:
        text = self.texts[row]
        return text.tokens.tolist(), int(np.flatnonzero(text.learned)[0])

    def __getitem__(self, row: int) -> Any:
        return row

    def __len__(self) -> int:
        return len(self.texts)


class Cached(CacheDataset):
    """With the real length of a row, which its own gives wrong (it is of no use to time its padding)."""

    def itemlen(self, idx: int) -> int:
        return len(self[idx][0])


class Clock:
    """Processor seconds of each step, by the lengths of its rows; of what is before and behind the steps, by a word."""

    def __init__(self) -> None:
        self.seconds: dict[Any, float] = {}
        self._now, self._begun = "before", time.process_time()

    def begins(self, what: Any) -> None:
        """What was measured until now is over."""
        now = time.process_time()
        self.seconds[self._now] = self.seconds.get(self._now, 0.0) + now - self._begun
        self._now, self._begun = what, time.process_time()


def theirs(model: Any, texts: list[Text], clock: Clock) -> None:
    """Steps of mlx-lm."""

    def batches(**how: Any) -> Any:
        for tokens, lengths in trainer.iterate_batches(**how):
            clock.begins(tuple(sorted(lengths[:, 1].tolist())))
            yield tokens, lengths

    arguments = trainer.TrainingArgs(
        batch_size=BATCH,
        iters=len(texts) // BATCH,
        steps_per_report=1000,
        steps_per_save=1000,
        max_seq_length=256,
        adapter_file="/dev/null",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train(model, optim.Adam(1e-4), Cached(Rows(texts)), None, arguments, iterate_batches=batches)


def ours(model: Any, texts: list[Text], clock: Clock) -> None:
    """The same of karl-fast: its loop, which also judges each step to be finite, and writes a line and a checkpoint."""
    examples = [Example(text, row) for row, text in enumerate(texts)]

    class Timed(BatchOrder):
        def __next__(self) -> list[int]:
            rows = super().__next__()
            clock.begins(tuple(sorted(self.lengths[row] for row in rows)))
            return rows

    with tempfile.TemporaryDirectory() as folder:
        adam = optimizer.build_optimizer(SETTINGS)
        adam.init(model.trainable_parameters())
        run = OfflineRun(
            settings=SETTINGS,
            learner=Learner(model, examples, OfflineObjective(SETTINGS, examples)),
            optimizer=adam,
            order=Timed([len(one) for one in examples], row_units(None, len(examples)), BATCH, 0),
            batches=len(texts) // BATCH,
            state=TrainingState(),
            checkpoints=Checkpoints(Path(folder), {}, keep=1),
            trackers=open_trackers(SETTINGS, Path(folder), 0),
            held_out=[],
            accounts={},
            need=Need(0, 0, 0, 0),
            limit_bytes=0,
        )
        loop.train(run, Silent())
