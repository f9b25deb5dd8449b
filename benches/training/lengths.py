"""Memory and time of a step against the length of a row: in segments, and by mlx-lm's trainer with checkpointing.

    python benches/training/lengths.py [--record]

One learned row; tiny random models in float32 (tests/unit/modeling/model_zoo.py) with a LoRA on every linear layer.
Each cell runs in a process of its own, because mlx-lm's checkpoints change a class for good. Peaks are above the
weights, seconds those of the processor. mlx-lm runs up to the length at which this machine has the memory. The table
goes to benches/record/lengths.json; lines that are there already are not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx_lm.tuner import trainer
from segments import planned, row_of, step
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted
from trainers import Cached, Rows

import record
from karl_fast.modeling.memory import limit_memory
from karl_fast.train.chat_template import Text

SEGMENT = 256
LENGTHS = {"qwen3": (1024, 2048, 4096, 8192, 16_384, 32_768), "qwen3_5": (1024, 4096, 16_384, 32_768, 65_536)}
MOST = {"qwen3": 8192, "qwen3_5": 4096}
"""Tokens up to which mlx-lm runs."""


def ours(kind: str, tokens: int) -> dict[str, Any]:
    """A gradient in segments, and its plan, which is the memory limit of MLX as in a run."""
    model = adapted(model_zoo.built(kind))
    plan = planned(model, tokens, SEGMENT)
    begun = time.process_time()
    with limit_memory(plan["planned"]):
        _, peak, _ = step(model, row_of(tokens), SEGMENT)
    found = {"segments_seconds": round(time.process_time() - begun, 2), "segments_peak": peak}
    return found | plan | {"scores": 4 * model_zoo.COMMON["num_attention_heads"] * SEGMENT * tokens}


def theirs(kind: str, tokens: int) -> dict[str, Any]:
    """A step of mlx-lm."""
    model = adapted(model_zoo.built(kind))
    text = Text(np.array(row_of(tokens).tokens)[0], np.arange(tokens + 1) > 0)
    arguments = trainer.TrainingArgs(
        batch_size=1,
        iters=1,
        steps_per_report=1000,
        steps_per_save=1000,
        max_seq_length=tokens + 64,
        adapter_file="/dev/null",
        grad_checkpoint=True,
    )
    before, begun = mx.get_active_memory(), time.process_time()
    mx.reset_peak_memory()
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train(model, optim.Adam(1e-4), Cached(Rows([text])), None, arguments)
    peak = mx.get_peak_memory() - before
    return {"mlx_lm_seconds": round(time.process_time() - begun, 2), "mlx_lm_peak": peak}


def cell(who: str, kind: str, tokens: int) -> dict[str, Any]:
    """A cell, in a process of its own."""
    command = [sys.executable, __file__, "--cell", who, kind, str(tokens)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    mx.disable_compile()
    if given.cell:
        who, kind, tokens = given.cell
        print(json.dumps({"ours": ours, "theirs": theirs}[who](kind, int(tokens))))
        return
    table: list[dict[str, Any]] = record.kept("lengths").get("table", []) if given.record else []
    known = {(line["model"], line["tokens"]) for line in table}
    for kind, lengths in LENGTHS.items():
        for tokens in lengths:
            if (kind, tokens) in known:
                continue
            line = {"model": kind, "tokens": tokens, "segment": SEGMENT} | cell("ours", kind, tokens)
            line |= cell("theirs", kind, tokens) if tokens <= MOST[kind] else {}
            table.append(line)
            print(line, flush=True)
            if given.record:
                found = json.dumps({"machine": record.facts(), "table": table}, indent=1)
                (record.RECORD / "lengths.json").write_text(f"{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
