"""The table of docs/reference/models.md: which model types of mlx-lm train, evaluate, roll out, and pass in segments.

    python benches/training/model_table.py [TYPE ...]   # prints rows
    python benches/training/model_table.py --check      # fails where a row of the page is another one

Models are tiny and random (tests/unit/modeling/model_zoo.py). A cell is `yes`, or `no` with the reason beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from tests.external_gradients import pulled
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted, examples

from karl_fast.errors import KarlError, ModelError
from karl_fast.modeling.memory import estimate_training
from karl_fast.modeling.segments import SegmentPass, carry_states
from karl_fast.rl.generate import generate_turns
from karl_fast.rl.language_model import LanguageModel
from karl_fast.train.batching import pad_rows
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import Training

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "models.md"

CLOSE = 1e-3
"""Relative difference of a gradient by segments from that of whole rows; a wrong one differs by tenths."""


def made(kind: str, bits: int | None = None) -> Any:
    """An adapted model, with layers of four bits where their width allows it."""
    model = model_zoo.built(kind)
    if bits is not None:
        try:
            nn.quantize(model, group_size=32, bits=bits, class_predicate=_fits)
        except TypeError as error:  # of mlx-lm's own layers, which cannot be quantized by its own code either
            raise ModelError(f"mlx-lm cannot quantize a model of type {kind}: {error}") from error
    return adapted(model)


def _fits(_: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0


def trains(kind: str, bits: int | None = None) -> bool:
    """True if a plan and a finite gradient that is not zero come of it."""
    model = made(kind, bits)
    scorer, batch = Scorer(model), pad_rows(examples(2, longest=40))
    estimate_training(model, scorer.body, scorer.vocabulary, Training(), len(model.layers)).need(2, 32)
    _, gradient = pulled(scorer.trace(batch), lambda logp: -logp.sum())
    sizes = [float(mx.abs(one).max()) for one in gradient.values()]
    return bool(np.isfinite(sizes).all()) and max(sizes) > 0


def evaluates(kind: str) -> bool:
    """True if the losses of rows are finite."""
    rows = examples(2, longest=40)
    nats, _ = Scorer(made(kind)).losses(rows, [[0, 1]])
    return bool(np.isfinite(nats).all())


def rolls_out(kind: str) -> bool:
    """True if tokens are drawn."""
    ends: Any = frozenset([model_zoo.VOCABULARY + 1])
    loaded: Any = SimpleNamespace(model=made(kind).eval(), tokenizer=None, ends=ends, config=model_zoo.config(kind))
    turns = generate_turns(LanguageModel(loaded), [[5, 6, 7], [5, 6]], [8] * 2, temperature=1.0, rows=2, seed=1)
    return all(len(turn.tokens) == 8 for turn in turns)


def in_segments(kind: str) -> bool:
    """True if the gradient by segments is that of whole rows."""
    model = made(kind)
    scorer, batch = Scorer(model), pad_rows(examples(2, longest=40))
    sweep = SegmentPass(
        carry_states(model, scorer.body, scorer.head),
        *(scorer.head, scorer.rows, np.array(batch.tokens), batch.mask),
        length=16,
    )
    slopes = {"logp": np.ones(batch.places.size, dtype=np.float32)}
    found = sweep.pull(slopes)
    _, whole = pulled(scorer.trace(batch), lambda logp: logp.sum())
    size = sum(float(mx.square(one).sum()) for one in whole.values()) ** 0.5
    far = sum(float(mx.square(found[name] - one).sum()) for name, one in whole.items()) ** 0.5
    return far < CLOSE * size


def cell(check: Callable[..., bool], *arguments: Any) -> tuple[str, str]:
    """A cell, and the reason of a `no`."""
    try:
        return ("yes", "") if check(*arguments) else ("no", "differs")
    except KarlError as error:
        return "no", str(error)
    except Exception as error:
        return "no", f"an error without a sentence: {type(error).__name__}"


def row(kind: str) -> str:
    """A row of the table."""
    cells = [cell(trains, kind), cell(trains, kind, 4), cell(evaluates, kind), cell(rolls_out, kind)]
    cells.append(cell(in_segments, kind))
    why = "; ".join(dict.fromkeys(reason for _, reason in cells if reason)).replace("|", "/")
    return f"| {' | '.join([kind, *(word for word, _ in cells), why])} |"


def committed() -> dict[str, str]:
    """The rows of the page, by their type."""
    lines = PAGE.read_text("utf-8").splitlines()
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}


def main() -> int:
    """Print the rows, or those that differ from the page."""
    mx.disable_compile()
    arguments = sys.argv[1:]
    if arguments != ["--check"]:
        for kind in arguments or model_zoo.types():
            print(row(kind), flush=True)
        return 0
    wrong = [found for kind, line in committed().items() if kind in model_zoo.types() and (found := row(kind)) != line]
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
