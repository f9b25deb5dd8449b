"""Pre-training of a small diffusion model on prompts with answers.

```text
masked-diffusion   l ~ uniform on 1..L, l positions masked:   loss = 1/l sum over masked i of -ln p_i(x_i)
discrete-flow      t ~ uniform on [0, 1), a = t^2: each position is x_i with probability a, else a uniform token
                   loss = 1/L sum over i of -ln p_i(x_i)
```

The first is a bound on the negative log-likelihood, per position (LLaDA, arXiv 2502.09992). Random numbers are a
function of the seed and the step: the same settings and data give the same bytes on one machine.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

from karl_fast._safe_text import counted
from karl_fast._user_code import describe_user_error, load_function
from karl_fast.diffusion.policy import (
    CONFIG,
    MASK,
    PAD,
    WEIGHTS,
    DiffusionConfig,
    DiffusionModel,
    build_model,
    is_diffusion_model,
    save_model,
)
from karl_fast.errors import DivergedError, FileError, OutputExistsError, OutputForeignError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from karl_fast.diffusion.settings import Pretraining

REPORT = 100
"""Steps from one report of the loss to the next."""


class Row(NamedTuple):
    """Text of a prompt and of its answer."""

    prompt: str
    answer: str


class PretrainResult(NamedTuple):
    """Result of a pre-training.

    Attributes:
        out: folder of the model.
        rows: number of rows learned from.
        words: size of the vocabulary.
        parameters: number of weights.
        loss: mean of the last `REPORT` steps, in nats a position.
    """

    out: str
    rows: int
    words: int
    parameters: int
    loss: float


def pretrain(
    settings: Pretraining, *, force: bool = False, on_steps: Callable[[int, float], None] = lambda step, loss: None
) -> PretrainResult:
    """Pre-train a small diffusion model, and write it into a folder.

    Args:
        settings: of the model and of learning; `data` and `out` have to be set.
        force: replace a model that is there.
        on_steps: called with the number of steps made, every `REPORT` steps, and their mean loss.

    Returns:
        The result.

    Raises:
        UsageError: no data or output, or a row that is not a prompt with an answer.
        FileError: the data cannot be read.
        OutputExistsError: the folder has a model, and `force` is False.
        OutputForeignError: it has a model, or weights, that pretrain did not write.
        DivergedError: the loss is not finite.
    """
    for name in ("data", "out"):
        if not getattr(settings, name):
            raise UsageError(f"{name} is not set: pretrain needs it", name)
    _refuse_existing(settings.out, force=force)
    rows = read_rows(settings.data)
    config = size_model(settings, rows)
    mx.random.seed(settings.seed)
    model: Any = build_model(config)
    policy = DiffusionModel(model, config)
    prompts = np.array([policy.encode([{"content": row.prompt}]) for row in rows], dtype=np.int32)
    answers = np.array([policy.encode_answer(row.answer) for row in rows], dtype=np.int32)
    loss = _learn(settings, policy, prompts, answers, on_steps)
    save_model(Path(settings.out), model, config)
    parameters = sum(array.size for array in dict(nn.utils.tree_flatten(model.parameters())).values())
    return PretrainResult(settings.out, len(rows), len(config.words), parameters, loss)


def _refuse_existing(out: str, *, force: bool) -> None:
    """Refuse a folder with a model; with one that was not written here also where `force` is set."""
    existing = [name for name in (CONFIG, WEIGHTS) if os.path.lexists(Path(out, name))]
    if not existing:
        return
    if not is_diffusion_model(out):
        raise OutputForeignError(f"{out}: it holds {existing[0]}, which is not of a model that pretrain wrote")
    if not force:
        raise OutputExistsError(f"{out} has a model already", hint="--force writes another in its place")


def size_model(settings: Pretraining, rows: Sequence[Row]) -> DiffusionConfig:
    """Return the configuration of a model for some rows: their words in order of the alphabet, their longest texts."""
    words = sorted({word for row in rows for text in row for word in text.split()})
    if reserved := next((word for word in words if word in (PAD, MASK)), None):
        raise UsageError(f"the data has the word {reserved}, which stands for something else in a model", "data")
    masked = settings.kind == "masked-diffusion"
    return DiffusionConfig(
        settings.kind,
        (PAD, *([MASK] if masked else []), *words),
        prompt_width=max(1, *(len(row.prompt.split()) for row in rows)),
        width=max(len(row.answer.split()) for row in rows),
        size=settings.size,
        layers=settings.layers,
        heads=settings.heads,
        steps=settings.steps,
        choice_temperature=settings.choice_temperature,
        remask=settings.remask,
    )


def _learn(
    settings: Pretraining,
    policy: DiffusionModel,
    prompts: NDArray[np.int32],
    answers: NDArray[np.int32],
    on_steps: Callable[[int, float], None],
) -> float:
    """Take all steps, and return the mean loss of the last ones."""
    model, masked = policy.model, policy.config.kind == "masked-diffusion"
    optimizer = optim.Adam(optim.cosine_decay(settings.learning_rate, settings.iters), bias_correction=True)

    def loss(prompts: mx.array, noisy: mx.array, answers: mx.array, times: mx.array, weights: mx.array) -> mx.array:
        logits = model(mx.concatenate([prompts, noisy], axis=1), times)[:, policy.prompt_width :]
        if masked:  # the law gives the mask no probability
            logits = mx.where(mx.arange(logits.shape[-1]) == 1, -1e30, logits)
        return (nn.losses.cross_entropy(logits, answers) * weights).sum() / len(answers)

    gradient = nn.value_and_grad(model, loss)
    losses: list[float] = []

    for step in range(settings.iters):
        draw = np.random.default_rng([settings.seed, step])
        chosen = draw.integers(len(answers), size=settings.batch_size)
        batch = (prompts[chosen], *corrupt(policy, answers[chosen], draw))
        loss_now, gradients = gradient(*map(mx.array, batch))
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(float(loss_now.item()))
        if not math.isfinite(losses[-1]):
            raise DivergedError(f"the loss is {losses[-1]} at step {step + 1}: lower learning_rate")
        if (step + 1) % REPORT == 0:
            on_steps(step + 1, fmean(losses[-REPORT:]))
    return fmean(losses[-REPORT:])


def corrupt(
    policy: DiffusionModel, answers: NDArray[np.int32], draw: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return noisy states of answers, the answers, times, and the weight of each position in the loss."""
    rows, width = answers.shape
    if policy.config.kind == "masked-diffusion":
        count = draw.integers(1, width + 1, size=rows)
        hidden = draw.random((rows, width)).argsort(axis=1).argsort(axis=1) < count[:, None]
        weights = hidden / count[:, None]
        times = np.zeros(rows)
        noisy = np.where(hidden, 1, answers)
    else:
        times = draw.random((rows,))
        stays = draw.random((rows, width)) < np.square(times)[:, None]
        noisy = np.where(stays, answers, draw.integers(len(policy.config.words), size=(rows, width)))
        weights = np.full((rows, width), 1 / width)
    return noisy.astype(np.int32), answers, times.astype(np.float32), weights.astype(np.float32)


def read_rows(place: str) -> list[Row]:
    """Read prompts with answers, from a file of JSON lines or a function.

    Raises:
        FileError: the file cannot be read.
        UsageError: a line that is not an object with the texts prompt and answer, or none at all.
    """
    rows = [_parse_row(line, f"{place}, line {number + 1}") for number, line in enumerate(_lines(place))]
    if not rows:
        raise UsageError(f"{place} has no row", "data")
    return rows


def _lines(place: str) -> Iterable[Any]:
    if ".py:" in place:
        function = load_function(place)
        try:
            return list(function())
        except Exception as error:
            raise UsageError(f"data: {place} failed: {describe_user_error(error)}", "data") from error
    try:
        text = Path(place).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: this is not text: it is not UTF-8", "data") from error
    except OSError as error:
        raise FileError(f"cannot open {place}: {error.strerror}", error.errno, place) from error
    return [_parse_json(line, f"{place}, line {number + 1}") for number, line in enumerate(text.splitlines()) if line]


def _parse_json(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: this is not JSON", "data") from error


def _parse_row(line: Any, where: str) -> Row:
    texts = [line.get(name) for name in Row._fields] if isinstance(line, dict) else []
    if len(words := [text for text in texts if isinstance(text, str)]) < len(Row._fields) or not words[-1].split():
        raise UsageError(f"{where}: wanted an object with the texts prompt and answer, of one word or more", "data")
    return Row(*words)


def describe(result: PretrainResult) -> str:
    """Return a result in a sentence."""
    sizes = f"{counted(result.parameters, 'weight')}, {counted(result.words, 'word')}"
    return f"{result.out}: {sizes}, from {counted(result.rows, 'row')}; loss {result.loss:.3f} nats a position"
