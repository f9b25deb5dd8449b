"""LoRA training beside mlx-lm's own trainer: tokens a second, and peak memory, in one process on the same data.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 MLX_DISABLE_COMPILE=1 python benches/python/train.py

Both get the same model, the same rows, the same adapters, batches of 4 and Adam, and both run their whole loop, with
what it reports and saves. Rows are of 24 to 200 tokens. Every token of them is learned, so that nothing speaks for a
mask; then the last third of each row alone, which mlx-lm calls --mask-prompt. Padding counts for nobody.

A round is one epoch of each, so that both see the same batches; they take turns in going first. Tokens are counted over
seconds of processor time, each step's the least of all rounds, as other processes share the cores and their caches.

`--smoke` makes one small round of one row. Numbers choose rows of the table, from 0; without `--smoke` their record in
benches/record/train.json is made anew.
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
STEPS, ROUNDS, ROWS = (4, 1, 16) if SMOKE else (24, 5, 96)
SECONDS = 45
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

MODELS = [("qwen3", None, 512), ("gemma3_text", None, 512), ("qwen3", 4, 512), ("qwen3", None, 65_536)]
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


def rows_of(vocabulary: int, share: float) -> list[Text]:
    """Rows of which the last share is learned."""
    random = np.random.default_rng(0)
    lengths = random.integers(24, 200, ROWS)
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
        batch_size=4,
        iters=STEPS,
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
            order=Timed([len(one) for one in examples], units_of(None, len(examples)), 4, 0),
            batches=STEPS,
            state=State(),
            checkpoints=Checkpoints(Path(folder), {}, keep=1),
            trackers=trackers(SETTINGS, Path(folder), 0),
            judged=[],
            accounts={},
            need=Need(0, 0, 0, 0),
            limit=0,
        )
        loop.train(run, Quiet())


def timed(train: Any, model: Any, texts: list[Text]) -> tuple[dict[Any, float], int]:
    """Processor seconds of what an epoch is made of, and the peak of memory above what is there."""
    start = dict(tree_flatten(model.trainable_parameters()))
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    clock = Clock()
    train(model, texts, clock)
    clock.begins("behind")
    peak = mx.get_peak_memory() - before
    model.load_weights(list(start.items()), strict=False)
    return clock.seconds, peak


def compare(kind: str, bits: int | None, vocabulary: int, share: float) -> dict[str, Any]:
    """A row of the table."""
    texts, model = rows_of(vocabulary, share), model_of(kind, bits, vocabulary)
    rounds: dict[Any, list[tuple[dict[Any, float], int]]] = {theirs: [], ours: []}
    begun = time.process_time()
    while len(rounds[ours]) < ROUNDS and (len(rounds[ours]) < 2 or time.process_time() - begun < SECONDS):
        for train in ((theirs, ours), (ours, theirs))[len(rounds[ours]) % 2]:
            rounds[train].append(timed(train, model, texts))
    seconds = {train: _least([steps for steps, _ in found]) for train, found in rounds.items()}
    peak = {train: max(peak for _, peak in found) / 1e6 for train, found in rounds.items()}
    tokens = sum(len(text.tokens) for text in texts)
    return {
        "model": f"{kind}, {'float32' if bits is None else f'{bits} bit'}, {vocabulary:,} tokens, {share:.0%} learned",
        "rounds": len(rounds[ours]),
        "rows": len(texts),
        "mlx_lm_tokens_per_second": tokens / seconds[theirs],
        "karl_fast_tokens_per_second": tokens / seconds[ours],
        "speed_ratio": seconds[theirs] / seconds[ours],
        "mlx_lm_peak_mb": peak[theirs],
        "karl_fast_peak_mb": peak[ours],
    }


def _least(rounds: list[dict[Any, float]]) -> float:
    """An epoch of steps that are each the quickest of their kind."""
    return sum(min(seconds[step] for seconds in rounds) for step in rounds[0])


def shown(row: dict[str, Any]) -> str:
    tokens = f"{row['mlx_lm_tokens_per_second']:9,.0f} {row['karl_fast_tokens_per_second']:9,.0f}"
    peaks = row["mlx_lm_peak_mb"], row["karl_fast_peak_mb"]
    memory = f"{peaks[0]:9.1f} {peaks[1]:9.1f} {peaks[1] / peaks[0]:6.2f}x"
    return f"{row['model']:48} {tokens} {row['speed_ratio']:6.2f}x {memory}"


def keep(rows: list[dict[str, Any]]) -> None:
    """Put rows into the record, each in the place of the one before it."""
    before = json.loads(RECORD.read_text("utf-8"))["table"] if RECORD.exists() else []
    known = {row["model"]: row for row in before} | {row["model"]: row for row in rows}
    whole = {"machine": record.facts(), "table": list(known.values())}
    RECORD.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    print(f"{'':48} {'tokens a second':>26} {'peak, MB':>26}")
    print(f"{'':48} {'mlx-lm':>9} {'karl-fast':>9} {'':7} {'mlx-lm':>9} {'karl-fast':>9}")
    chosen = [int(one) for one in sys.argv[1:] if one.isdigit()] or range(1 if SMOKE else len(CASES))
    for number in chosen:
        row = compare(*CASES[number])
        print(shown(row), flush=True)
        if not SMOKE:
            keep([row])


if __name__ == "__main__":
    main()
