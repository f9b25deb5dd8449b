"""LoRA training beside mlx-lm's own trainer: tokens a second, and peak memory, in one process on the same data.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 MLX_DISABLE_COMPILE=1 python benches/python/train.py

Both get the same model, the same rows, the same adapters, batches of 4 and Adam. Rows are of 24 to 200 tokens. Every
token of them is learned, so that nothing speaks for a mask; then the last third of each row alone, which mlx-lm calls
--mask-prompt. A round is one epoch, so that both see the same rows; rounds take turns, and the median of tokens over
seconds of processor time counts, as other processes share the cores. `--smoke` makes one small round.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import time
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text, qwen3
from mlx_lm.tuner import trainer
from mlx_lm.tuner.datasets import CacheDataset

from karl_fast.train import Training, optimizer
from karl_fast.train.examples import Example
from karl_fast.train.model import adapt
from karl_fast.train.order import Order, units_of
from karl_fast.train.recipe import Objective
from karl_fast.train.step import Learner, clipped
from karl_fast.train.template import Text

SMOKE = "--smoke" in sys.argv
STEPS, ROUNDS, ROWS = (4, 1, 16) if SMOKE else (24, 5, 96)

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

CASES = [("qwen3", None, 512), ("gemma3_text", None, 512), ("qwen3", 4, 512), ("qwen3", None, 65_536)]

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


def theirs(model: Any, texts: list[Text]) -> int:
    """Steps of mlx-lm; the tokens that it saw."""
    seen: list[int] = []

    def batches(**how: Any) -> Any:
        for tokens, lengths in trainer.iterate_batches(**how):
            seen.append(int(lengths[:, 1].sum().item()))
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
    return sum(seen[:STEPS])


def ours(model: Any, texts: list[Text]) -> int:
    """The same of karl-fast; each step is also judged to be finite."""
    examples = [Example(text, row) for row, text in enumerate(texts)]
    learner = Learner(model, examples, Objective(SETTINGS, examples))
    order = Order([len(one) for one in examples], units_of(None, len(examples)), 4, 0)
    adam, seen = optimizer.build(SETTINGS), 0
    for _ in range(STEPS):
        gradient = learner.gradient([next(order)])
        assert gradient.finite
        optimizer.aim(adam, SETTINGS, SETTINGS.learning_rate)
        adam.update(model, clipped(gradient, SETTINGS.max_grad_norm))
        mx.eval(model.trainable_parameters(), adam.state)
        seen += gradient.real
    return seen


def timed(train: Any, model: Any, texts: list[Text]) -> tuple[float, int]:
    """Tokens a second of processor time, and the peak of memory above what is there."""
    start = dict(tree_flatten(model.trainable_parameters()))
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    begun = time.process_time()
    tokens = train(model, texts)
    seconds = time.process_time() - begun
    peak = mx.get_peak_memory() - before
    model.load_weights(list(start.items()), strict=False)
    return tokens / seconds, peak


def compare(kind: str, bits: int | None, vocabulary: int, share: float) -> None:
    texts, model = rows_of(vocabulary, share), model_of(kind, bits, vocabulary)
    found: dict[str, list[tuple[float, int]]] = {"mlx-lm": [], "karl-fast": []}
    for train in (theirs, ours):
        timed(train, model, texts)
    for _ in range(ROUNDS):
        found["mlx-lm"].append(timed(theirs, model, texts))
        found["karl-fast"].append(timed(ours, model, texts))
    speed = {name: statistics.median(one for one, _ in rounds) for name, rounds in found.items()}
    peak = {name: max(one for _, one in rounds) for name, rounds in found.items()}
    what = f"{kind}, {'float32' if bits is None else f'{bits} bit'}, {vocabulary:,} tokens, {share:.0%} learned"
    print(
        f"{what:48} {speed['mlx-lm']:9,.0f} {speed['karl-fast']:9,.0f} {speed['karl-fast'] / speed['mlx-lm']:6.2f}x"
        f" {peak['mlx-lm'] / 1e6:9.1f} {peak['karl-fast'] / 1e6:9.1f} {peak['karl-fast'] / peak['mlx-lm']:6.2f}x"
    )


def main() -> None:
    print(f"{'':48} {'tokens a second':>26} {'peak, MB':>26}")
    print(f"{'':48} {'mlx-lm':>9} {'karl-fast':>9} {'':7} {'mlx-lm':>9} {'karl-fast':>9}")
    for kind, bits, vocabulary in CASES:
        for share in (1.0, 1 / 3):
            compare(kind, bits, vocabulary, share)


if __name__ == "__main__":
    main()
