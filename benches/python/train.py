"""LoRA training beside mlx-lm's own trainer: tokens a second, and peak memory, in one process on the same data.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 python benches/python/train.py

Both get the same model, the same rows, the same adapters, batches of 4 and Adam, and both run their whole loop, with
what it reports and saves. Rows are of 24 to 200 tokens. Every token of them is learned, so that nothing speaks for a
mask; then the last third of each row alone, which mlx-lm calls --mask-prompt. Padding counts for nobody.

A round is one epoch of each, so that both see the same batches; they take turns in going first. Tokens are counted over
seconds of processor time, each step's the least of all rounds, as other processes share the cores and their caches.

Each runs twice a round: with `mx.compile` off, and with it on, which is mlx-lm's whole step and, in both, what a model
compiles of itself. On the CPU that calls a C++ compiler, once a kernel; a few steps before the rounds have it done.

`--smoke` makes one small round of one row; numbers choose rows of the table, from 0. Neither is kept: a run of the whole
table, in about ten minutes, makes benches/record/train.json anew.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text, qwen3
from mlx_lm.tuner import trainer
from mlx_lm.tuner.datasets import CacheDataset

import record
from karl_fast.cli.training import Quiet
from karl_fast.train import Training, loop, optimizer
from karl_fast.train.checkpoint import Checkpoints, State
from karl_fast.train.examples import Example
from karl_fast.train.memory import Need
from karl_fast.train.metrics import trackers
from karl_fast.train.model import adapt
from karl_fast.train.order import Order, units_of
from karl_fast.train.recipe import Objective
from karl_fast.train.run import Run
from karl_fast.train.step import Learner
from karl_fast.train.template import Text

SMOKE = "--smoke" in sys.argv
BATCH = 4
ROUNDS = 1 if SMOKE else 5
SECONDS = 40
"""Of processor time, after which two rounds are enough."""

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

MODELS = {
    ("qwen3", None, 512): 96,
    ("gemma3_text", None, 512): 96,
    ("qwen3", 4, 512): 24,
    ("gemma3_text", 4, 512): 24,
    ("qwen3", None, 65_536): 12,
}
"""Kinds, bits and vocabularies, and how many rows are an epoch: fewer where each takes longer."""

CASES = [(*model, share) for model in MODELS for share in (1.0, 1 / 3)]
RECORD = record.RECORD / "train.json"

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

    class Timed(Order):
        def __next__(self) -> list[int]:
            rows = super().__next__()
            clock.begins(tuple(sorted(self.lengths[row] for row in rows)))
            return rows

    with tempfile.TemporaryDirectory() as folder:
        adam = optimizer.build(SETTINGS)
        adam.init(model.trainable_parameters())
        run = Run(
            settings=SETTINGS,
            learner=Learner(model, examples, Objective(SETTINGS, examples)),
            optimizer=adam,
            order=Timed([len(one) for one in examples], units_of(None, len(examples)), BATCH, 0),
            batches=len(texts) // BATCH,
            state=State(),
            checkpoints=Checkpoints(Path(folder), {}, keep=1),
            trackers=trackers(SETTINGS, Path(folder), 0),
            judged=[],
            accounts={},
            need=Need(0, 0, 0, 0),
            limit=0,
        )
        loop.train(run, Quiet())


TRAINERS = {"mlx_lm": theirs, "karl_fast": ours}
CONTENDERS = [f"{name}{how}" for how in ("", "_compiled") for name in TRAINERS]


def timed(contender: str, model: Any, texts: list[Text]) -> tuple[dict[Any, float], int]:
    """Processor seconds of what an epoch is made of, and the peak of memory above what is there."""
    start = dict(tree_flatten(model.trainable_parameters()))
    name, compiled, _ = contender.partition("_compiled")
    (mx.enable_compile if compiled else mx.disable_compile)()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    clock = Clock()
    TRAINERS[name](model, texts, clock)
    clock.begins("behind")
    peak = mx.get_peak_memory() - before
    model.load_weights(list(start.items()), strict=False)
    return clock.seconds, peak


def compare(kind: str, bits: int | None, vocabulary: int, share: float) -> dict[str, Any]:
    """A row of the table."""
    count = 16 if SMOKE else MODELS[kind, bits, vocabulary]
    texts, model = rows_of(count, vocabulary, share), model_of(kind, bits, vocabulary)
    for contender in CONTENDERS[2:]:
        timed(contender, model, texts[:BATCH])
    rounds: dict[str, list[tuple[dict[Any, float], int]]] = {contender: [] for contender in CONTENDERS}
    begun = time.process_time()
    while (done := len(rounds["mlx_lm"])) < ROUNDS and (done < 2 or time.process_time() - begun < SECONDS):
        for contender in (CONTENDERS, CONTENDERS[::-1])[done % 2]:
            rounds[contender].append(timed(contender, model, texts))
    tokens = sum(len(text.tokens) for text in texts)
    speed = {one: tokens / _least([steps for steps, _ in found]) for one, found in rounds.items()}
    peak = {one: max(peak for _, peak in found) / 1e6 for one, found in rounds.items()}
    return {
        "model": f"{kind}, {'float32' if bits is None else f'{bits} bit'}, {vocabulary:,} tokens, {share:.0%} learned",
        "rounds": done,
        "rows": len(texts),
        **{f"{one}_tokens_per_second": value for one, value in speed.items()},
        "speed_ratio": speed["karl_fast"] / speed["mlx_lm"],
        "compiled_speed_ratio": speed["karl_fast_compiled"] / speed["mlx_lm_compiled"],
        **{f"{one}_peak_mb": value for one, value in peak.items()},
    }


def _least(rounds: list[dict[Any, float]]) -> float:
    """An epoch of steps that are each the quickest of their kind."""
    return sum(min(seconds[step] for seconds in rounds) for step in rounds[0])


def shown(row: dict[str, Any]) -> str:
    """A row as it is printed, and as it stands in the pages."""
    speed = [f"{row[f'{one}_tokens_per_second']:,.0f}" for one in CONTENDERS]
    peak = [row[f"{one}_peak_mb"] for one in CONTENDERS]
    cells = [*speed[:2], f"{row['speed_ratio']:.2f}x", *speed[2:], f"{row['compiled_speed_ratio']:.2f}x"]
    cells += [f"{peak[0]:.0f}", f"{peak[2]:.0f}", f"{peak[1]:.0f}", f"{peak[1] / min(peak[0], peak[2]):.2f}x"]
    return f"| {' | '.join([row['model'], *cells])} |"


HEAD = (
    "model",
    *("mlx-lm, tokens/s", "karl-fast, tokens/s", ""),
    *("mlx-lm, compiled", "karl-fast, compile on", ""),
    *("mlx-lm, peak MB", "compiled", "karl-fast", ""),
)


def main() -> None:
    facts = record.facts()  # of the tree that is measured, before the record in it is written
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    chosen = [int(one) for one in sys.argv[1:] if one.isdigit()]
    table = []
    for number in chosen or range(1 if SMOKE else len(CASES)):
        table.append(compare(*CASES[number]))
        print(shown(table[-1]), flush=True)
    if not (SMOKE or chosen):
        RECORD.write_text(json.dumps({"machine": facts, "table": table}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
