"""Common prefixes of rows, which are computed once: the tokens that this saves in real logs, and the time of a step.

    python benches/training/prefixes.py [--data FOLDER] [--record]

Tokens: the sessions of Claude Code and the trials of tau-bench in a folder of logs, each as one row, rendered by the
template of a tiny model (examples/make_tiny_model.py), in batches of 8 as `train` draws them and with all rows of a
group together; and the groups of a run of `rl` on the prompts of those trials. Time: the gradient of 8 rollouts behind
one prompt, on tiny models with a LoRA on every linear layer (tests/unit/modeling/model_zoo.py), with and without
sharing in turn, the best of three. The table goes to benches/record/prefixes.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import numpy as np
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

import record
from karl_fast.modeling.load import load
from karl_fast.modeling.optimizer import global_norm
from karl_fast.modeling.segments import cut_segments
from karl_fast.rl import Online, rl
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.logprobs import Forward
from karl_fast.train.batching import BatchOrder, row_units
from karl_fast.train.chat_template import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

MAKER = Path(__file__).parents[2] / "examples" / "make_tiny_model.py"

LOGS = {"claude-code": "claude-code", "tau-bench": "tau-bench-gpt4o-airline"}
"""Folders of logs, by the name in the table."""

GROUP = 8
ANSWERS = (64, 129)
"""Rollouts of a group, and the bounds of their own tokens."""

PROMPTS = (128, 512, 1024)
"""Tokens of a prompt."""

SEGMENT = 256


def saved(batches: Iterable[Sequence[NDArray[np.int32]]]) -> dict[str, float]:
    """The tokens of rows, padding included, and the share of them that sharing saves."""
    tokens = computed = 0
    for rows in batches:
        width = max(map(len, rows)) - 1
        padded = np.zeros((len(rows), width + 1), dtype=np.int32)
        for row, one in enumerate(rows):
            padded[row, : len(one)] = one
        mask = np.arange(width) < np.array([len(one) - 1 for one in rows])[:, None]
        tokens += sum(len(one.members) * (one.stop - one.start) for one in cut_segments(mask, width)[1])
        computed += sum(len(one.rows) * (one.stop - one.start) for one in cut_segments(mask, width, padded)[1])
    return {"tokens": tokens, "saved": round(1 - computed / tokens, 4)}


def trajectories(folder: Path, out: Path) -> list[dict[str, Any]]:
    """The trajectories that convert makes of logs."""
    command = [sys.executable, "-m", "karl_fast", "convert", str(folder), "-o", str(out), "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def of_logs(sessions: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """The share saved in batches as drawn, and in batches of whole groups."""
    loaded = load(model)
    renderer = Renderer(loaded.tokenizer, loaded.ends, "all")
    texts = [(one["group"], text.tokens) for one in sessions for text in renderer.texts({"messages": one["messages"]})]
    names = {name: number for number, name in enumerate(dict.fromkeys(group for group, _ in texts if group))}
    groups = np.array([names.get(group, -1) for group, _ in texts])
    rows = [tokens for _, tokens in texts]
    found: dict[str, Any] = {"rows": len(rows)}
    for name, units in (("drawn", row_units(None, len(rows))), ("groups", row_units(groups, len(rows)))):
        order = BatchOrder([len(one) for one in rows], units, GROUP, seed=0)
        found[name] = saved([rows[row] for row in batch] for batch in order.batches(0))
    return found


class Kept:
    """A viewer that keeps the rollouts of a run."""

    def __init__(self) -> None:
        self.rollouts: list[Any] = []

    def on_start(self, run: Any) -> None: ...

    def on_evaluation(self, line: Any, failures: Any) -> None: ...

    def on_round(self, metrics: Any, rollouts: Any, failures: Any) -> None:
        self.rollouts += rollouts


def of_run(sessions: list[dict[str, Any]], model: str, folder: Path) -> dict[str, Any]:
    """The share saved in the groups of a run of two rounds, on the policy and the first request of each trial."""
    asked = {
        one["group"]: [{"role": m["role"], "content": m["content"]} for m in one["messages"][:2]] for one in sessions
    }
    lines = [json.dumps({"prompt": messages, "answer": ""}) for messages in list(asked.values())[:4]]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    kept = Kept()
    settings = Online(
        model=model,
        prompts=str(folder / "prompts.jsonl"),
        out=str(folder / "out"),
        rewards={"length": 1.0},
        recipe="grpo",
        rounds=2,
        prompts_per_round=2,
        group_size=GROUP,
        max_tokens=ANSWERS[1],
        max_context=16_384,
        micro_batch=GROUP,
    )
    rl(settings, viewer=kept)
    by_group: dict[int, list[Any]] = {}
    for one in kept.rollouts:
        by_group.setdefault(one.group, []).append(one.tokens)
    own = np.mean([one.length for one in kept.rollouts])
    return {"groups": len(by_group), "own_tokens": float(own), **saved(by_group.values())}


def group(prompt: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Rollouts behind one prompt."""
    random = np.random.default_rng(prompt)
    lengths = prompt + random.integers(*ANSWERS, GROUP)
    tokens = random.integers(4, model_zoo.VOCABULARY, (GROUP, int(lengths.max()) + 1)).astype(np.int32)
    tokens[:, :prompt] = tokens[0, :prompt]
    place = np.arange(tokens.shape[1] - 1)
    return tokens, (place >= prompt - 1) & (place < lengths[:, None])


def stepped(forward: Forward, tokens: Any, mask: Any) -> tuple[float, int, Any]:
    """Processor seconds and peak bytes of a gradient, and the gradient."""
    mx.clear_cache()
    before, begun = mx.get_active_memory(), time.process_time()
    mx.reset_peak_memory()
    trace = forward.trace(tokens, mask)
    trace.outputs()
    gradient = trace.pull({"logp": np.ones(int(mask.sum()), dtype=np.float32)})
    mx.eval(gradient)
    return time.process_time() - begun, mx.get_peak_memory() - before, gradient


def timed(kind: str, prompt: int, length: int | None) -> dict[str, Any]:
    """A line of the table: with sharing, and without."""
    loaded: Any = SimpleNamespace(
        model=adapted(model_zoo.built(kind)).eval(), tokenizer=None, ends=frozenset(), config={}
    )
    policy, (tokens, mask) = LanguageModel(loaded), group(prompt)
    both = {name: Forward(policy, 1.0, segment_length=length) for name in ("shared", "alone")}
    both["alone"].__dict__["_carry_obstacle"] = "a reason"
    _ = both["shared"].carrier
    best: dict[str, tuple[float, int, Any]] = {}
    for _ in range(3):
        for name, forward in both.items():
            best[name] = min(best.get(name, (np.inf, 0, None)), stepped(forward, tokens, mask), key=lambda one: one[0])
    far: Any = global_norm({key: best["shared"][2][key] - one for key, one in best["alone"][2].items()})
    size: Any = global_norm(best["alone"][2])
    rows = [row[: int(end) + 1] for row, end in zip(tokens, mask.shape[1] - mask[:, ::-1].argmax(1), strict=True)]
    return {
        "model": kind,
        "prompt": prompt,
        "segment": length,
        **saved([rows]),
        **{f"{name}_seconds": round(one[0], 3) for name, one in best.items()},
        **{f"{name}_peak": one[1] for name, one in best.items()},
        "difference": float((far / size).item()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("KARL_FAST_TEST_DATA", "")) / "data"
    parser.add_argument("--data", type=Path, default=data, help="Folder of logs, as KARL_FAST_TEST_DATA has it.")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    mx.disable_compile()
    found: dict[str, Any] = {"machine": record.facts(), "tokens": {}, "time": []}
    with tempfile.TemporaryDirectory() as place:
        model, folder = str(Path(place) / "model"), Path(place)
        subprocess.run([sys.executable, str(MAKER), model], check=True)
        for name, log in LOGS.items():
            sessions = trajectories(given.data / log, folder / f"{name}.jsonl")
            found["tokens"][name] = of_logs(sessions, model)
            print(name, found["tokens"][name], flush=True)
        found["tokens"]["rl"] = of_run(sessions, model, folder)
        print("rl", found["tokens"]["rl"], flush=True)
    for kind in ("qwen3", "qwen3_5"):
        for prompt in PROMPTS:
            for length in (None, SEGMENT):
                found["time"].append(timed(kind, prompt, length))
                print(found["time"][-1], flush=True)
    if given.record:
        (record.RECORD / "prefixes.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
