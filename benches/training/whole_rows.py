"""Held-out loss of whole rows: trained on whole rows, beside trained on the tails of the same rows.

    python benches/training/whole_rows.py [--data FOLDER] [--epochs 40] [--record]

Demonstrations of SWE-agent of at most 6,144 tokens, by a tokenizer of 512 tokens that is trained on them; a random
qwen3 of two layers, which are trained whole. Each seed holds out the rows of other tasks, draws other weights, and
makes the same number of steps both ways: a step learns from a whole row in segments of 512 tokens, or from as many
tails of 512 tokens as have the tokens of that row. The loss is that of all learned tokens of the held-out rows, whole.
The interval is that of Student's t over the differences of five seeds. It goes to benches/record/whole_rows.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

import record
from karl_fast.modeling import optimizer
from karl_fast.modeling.load import adapt, load
from karl_fast.modeling.optimizer import set_learning_rate
from karl_fast.train.chat_template import Renderer
from karl_fast.train.examples import Example, fit_text
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import Training
from karl_fast.train.step import Learner

if TYPE_CHECKING:
    from karl_fast.train.chat_template import Text

MAKER = Path(__file__).parents[2] / "examples" / "make_tiny_model.py"

TAIL = 512
LONGEST = 6144
SEEDS = 5
STUDENT = 2.776
"""The 97.5 % quantile of Student's t with four degrees of freedom."""

SETTINGS = Training(fine_tune_type="full", num_layers=-1, learning_rate=3e-3, batch_size=1)


def made(texts: list[str], folder: Path) -> str:
    """A tiny model with a tokenizer of these texts."""
    spec = importlib.util.spec_from_file_location("make_tiny_model", MAKER)
    assert spec is not None
    assert spec.loader is not None
    maker: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    maker.CORPUS = texts
    maker.tokenizer(folder)
    shape = {"model_type": "qwen3", "vocab_size": 512, "num_attention_heads": 2, "num_key_value_heads": 1}
    maker.weights(folder, maker.SHAPE | maker.KINDS["qwen3"] | shape | {"max_position_embeddings": 8192}, None)
    return str(folder)


def rows_of(data: Path, folder: Path) -> tuple[str, list[tuple[str, Text]]]:
    """A model, and the rendered rows with their tasks."""
    out = folder / "trajectories.jsonl"
    command = [sys.executable, "-m", "karl_fast", "convert", str(data / "swe-agent-demos"), "-o", str(out), "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    sessions = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    texts = [str(message.get("content") or "") for one in sessions for message in one["messages"]]
    model = made(texts, folder)
    loaded = load(model)
    renderer = Renderer(loaded.tokenizer, loaded.ends, SETTINGS.train_on)
    found = [
        (str(one["group"] or one["id"]), text)
        for one in sessions
        for text in renderer.texts({"messages": one["messages"]})
        if len(text.tokens) <= LONGEST
    ]
    return model, found


def trained(model: str, steps: list[list[Text]], held: list[Text], length: int | None, seed: int) -> float:
    """The held-out loss behind steps, each on some rows."""
    loaded = load(model)
    random = np.random.default_rng(seed)
    adapt(loaded.model, SETTINGS)
    weights = loaded.model.trainable_parameters()
    loaded.model.update(tree_map(lambda one: mx.array(_drawn(random, one.shape)) if one.ndim > 1 else one, weights))
    loaded.model.train()
    rows = [Example(text, number) for number, text in enumerate(text for step in steps for text in step)]
    learner, adam = (
        Learner(loaded.model, rows, OfflineObjective(SETTINGS, rows), length),
        optimizer.build_optimizer(SETTINGS),
    )
    adam.init(loaded.model.trainable_parameters())
    at = 0
    for step in steps:
        numbers = range(at, at := at + len(step))
        gradient = learner.gradient([[number] for number in numbers])
        set_learning_rate(adam, SETTINGS, SETTINGS.learning_rate)
        scale = min(1.0, 1.0 / gradient.norms["model"])
        adam.update(loaded.model, {name: one * scale for name, one in gradient.parts["model"].items()})
    judged = [Example(text, number) for number, text in enumerate(held)]
    judge = Learner(loaded.model, judged, learner.objective, TAIL).scorer
    nats, counts = judge.losses(judged, [[number] for number in range(len(judged))])
    return float(nats.sum() / counts.sum())


def _drawn(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (random.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def compared(model: str, rows: list[tuple[str, Text]], epochs: int, seed: int) -> dict[str, Any]:
    """The losses of a seed."""
    random = np.random.default_rng(seed)
    tasks = random.permutation(sorted({task for task, _ in rows})).tolist()
    out = set(tasks[: max(1, len(tasks) // 4)])
    held = [text for task, text in rows if task in out]
    learned = [text for task, text in rows if task not in out]
    order = [learned[row] for _ in range(epochs) for row in random.permutation(len(learned))]
    tails = cycle([part for text in learned for part in fit_text(text, TAIL, "tail").parts])
    counts = [-(-len(text.tokens) // TAIL) for text in order]
    whole = trained(model, [[text] for text in order], held, TAIL, seed)
    tail = trained(model, [list(islice(tails, count)) for count in counts], held, None, seed)
    tokens = sum(len(text.tokens) for text in order)
    facts = {"seed": seed, "rows": len(learned), "held_out": len(held), "tokens": tokens, "tails": sum(counts)}
    return facts | {"whole": round(whole, 4), "tail": round(tail, 4)}


def in_a_process(data: Path, epochs: int, seed: int) -> dict[str, Any]:
    """The losses of a seed, in a process of its own."""
    command = [sys.executable, __file__, "--data", str(data), "--epochs", str(epochs), "--seed", str(seed)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("KARL_FAST_TEST_DATA", "")) / "data"
    parser.add_argument("--data", type=Path, default=data, help="Folder of logs, as KARL_FAST_TEST_DATA has it.")
    parser.add_argument("--epochs", type=int, default=40, help="Passes over the rows; of one, little is learned.")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    mx.disable_compile()
    if given.seed is not None:
        with tempfile.TemporaryDirectory() as place:
            print(json.dumps(compared(*rows_of(given.data, Path(place)), given.epochs, given.seed)))
        return
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(partial(in_a_process, given.data, given.epochs), range(SEEDS)))
    differences = np.array([one["whole"] - one["tail"] for one in found])
    middle, half = differences.mean(), STUDENT * differences.std(ddof=1) / np.sqrt(SEEDS)
    result = {
        name: round(float(one), 4)
        for name, one in (("difference", middle), ("low", middle - half), ("high", middle + half))
    }
    print(result)
    if given.record:
        whole = json.dumps({"machine": record.facts(), "epochs": given.epochs, "seeds": found, **result}, indent=1)
        (record.RECORD / "whole_rows.json").write_text(f"{whole}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
