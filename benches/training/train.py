"""LoRA training beside mlx-lm's own trainer: tokens a second, and peak memory, in one process on the same data.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 python benches/training/train.py

Both get the same model, the same rows, the same adapters, batches of 4 and Adam, and both run their whole loop, with
what it reports and saves. Rows are of 24 to 200 tokens. Every token of them is learned, so that nothing speaks for a
mask; then the last third of each row alone, which mlx-lm calls --mask-prompt. Padding counts for nobody.

A round is one epoch of each, so that both see the same batches; they take turns in going first. Tokens are counted over
seconds of processor time, each step's the least of all rounds, as other processes share the cores and their caches.

Each runs twice a round: with `mx.compile` off, and with it on, which is mlx-lm's whole step and, in both, what a model
compiles of itself. On the CPU that calls a C++ compiler, once a kernel; a few steps before the rounds have it done.

`--memory` has a table of its own: peaks of two steps at large vocabularies, where all logits at once are most of it.

`--smoke` makes one small round of a row of each; numbers choose rows of a table, from 0. Neither is kept: a run of a
whole table, in about ten minutes and in about four, makes it anew in benches/record/train.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten
from trainers import BATCH, Clock, model_of, ours, rows_of, theirs

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

if TYPE_CHECKING:
    from karl_fast.train.chat_template import Text

SMOKE = "--smoke" in sys.argv
ROUNDS = 1 if SMOKE else 5
SECONDS = 40
"""Of processor time, after which two rounds are enough."""

MODELS = {
    ("qwen3", None, 512): 96,
    ("gemma3_text", None, 512): 96,
    ("qwen3", 4, 512): 24,
    ("gemma3_text", 4, 512): 24,
    ("qwen3", None, 65_536): 12,
}
"""Kinds, bits and vocabularies, and how many rows are an epoch: fewer where each takes longer."""

CASES = [(*model, share) for model in MODELS for share in (1.0, 1 / 3)]
LARGE = [
    ("gemma3_text", None, 65_536),
    ("qwen3", 4, 65_536),
    ("gemma3_text", 4, 65_536),
    ("gemma3_text", None, 262_144),
]
"""Models of the table of memory; the last vocabulary is gemma3's own."""

RECORD = record.RECORD / "train.json"

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
        "model": f"{named(kind, bits, vocabulary)}, {share:.0%} learned",
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


def named(kind: str, bits: int | None, vocabulary: int) -> str:
    return f"{kind}, {'float32' if bits is None else f'{bits} bit'}, {vocabulary:,} tokens"


def peaks(kind: str, bits: int | None, vocabulary: int) -> dict[str, Any]:
    """A row of the table of memory."""
    texts, model = rows_of(2 * BATCH, vocabulary, 1.0), model_of(kind, bits, vocabulary)
    found = {f"{contender}_peak_mb": timed(contender, model, texts)[1] / 1e6 for contender in CONTENDERS}
    return {"model": named(kind, bits, vocabulary), **found}


def shown(row: dict[str, Any]) -> str:
    """A row as it is printed, and as it stands in the pages."""
    peak = [row[f"{one}_peak_mb"] for one in CONTENDERS]
    cells = speeds(row) if "rounds" in row else []
    cells += [f"{peak[0]:,.0f}", f"{peak[2]:,.0f}", f"{peak[1]:,.0f}", f"{peak[1] / min(peak[0], peak[2]):.2f}x"]
    return f"| {' | '.join([row['model'], *cells])} |"


def speeds(row: dict[str, Any]) -> list[str]:
    speed = [f"{row[f'{one}_tokens_per_second']:,.0f}" for one in CONTENDERS]
    return [*speed[:2], f"{row['speed_ratio']:.2f}x", *speed[2:], f"{row['compiled_speed_ratio']:.2f}x"]


SPEED = (
    *("mlx-lm, tokens/s", "karl-fast, tokens/s", ""),
    *("mlx-lm, compiled", "karl-fast, compile on", ""),
)
PEAKS = ("mlx-lm, peak MB", "compiled", "karl-fast", "")

TABLES: dict[str, tuple[Any, list[Any], tuple[str, ...]]] = {
    "speed": (compare, CASES, ("model", *SPEED, *PEAKS)),
    "memory": (peaks, LARGE, ("model", *PEAKS)),
}


def table(name: str, chosen: list[int]) -> list[dict[str, Any]]:
    """All rows of a table, or those that were chosen, each printed when it is there."""
    row_of, cases, head = TABLES[name]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    rows = []
    for number in chosen or range(1 if SMOKE else len(cases)):
        rows.append(row_of(*cases[number]))
        print(shown(rows[-1]), flush=True)
    return rows


def main() -> None:
    facts = record.facts()  # of the tree that is measured, before the record in it is written
    chosen = [int(one) for one in sys.argv[1:] if one.isdigit()]
    if SMOKE:
        table("speed", chosen)
        print(shown(peaks("gemma3_text", 4, 512)))
        return
    name = "memory" if "--memory" in sys.argv else "speed"
    rows = table(name, chosen)
    if not chosen:
        made = json.loads(RECORD.read_text("utf-8")) | {name: {"machine": facts, "table": rows}}
        RECORD.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
