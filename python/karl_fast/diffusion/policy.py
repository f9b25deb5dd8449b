"""A small diffusion model over a vocabulary of words: its folder, its text, and what draws and scores its steps.

```text
FOLDER/config.json          model_type, words, sizes, steps
FOLDER/model.safetensors    the weights
```

A row of the network is a prompt, padded to `prompt_width`, and an answer, padded to `width`. Words of a text
are separated by blanks. A word that the vocabulary does not have is refused: a placeholder would be learned from.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import mlx.core as mx

from karl_fast import _atomic
from karl_fast._suggest import ask_whether, nearest
from karl_fast.diffusion.bound import Noisy, copy_with_noise, evidence_bound
from karl_fast.diffusion.flow import DiscreteFlow
from karl_fast.diffusion.masked import MaskedDiffusion
from karl_fast.diffusion.network import Network
from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.model_views import Snapshot, adapters_off
from karl_fast.modeling.parameters import flatten_tree, read_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

CONFIG, WEIGHTS = "config.json", "model.safetensors"

Kind = Literal["discrete-flow", "masked-diffusion"]

MODEL_TYPES = {"karl-discrete-flow": "discrete-flow", "karl-masked-diffusion": "masked-diffusion"}
"""Kinds of models by the `model_type` of their configuration."""

PAD, MASK = "<pad>", "<mask>"


@dataclass(frozen=True)
class DiffusionConfig:
    """Configuration of a model.

    Attributes:
        kind: discrete-flow or masked-diffusion.
        words: the vocabulary; `PAD` first, then, for masked diffusion, `MASK`.
        prompt_width, width: words of the longest prompt, and of the longest answer.
        size, layers, heads: of the network.
        steps: of an answer in use; a run of `rl` may train with fewer.
        choice_temperature, remask: of masked diffusion, as in `MaskedDiffusion`.
    """

    kind: Kind
    words: tuple[str, ...]
    prompt_width: int
    width: int
    size: int = 64
    layers: int = 2
    heads: int = 4
    steps: int = 16
    choice_temperature: float = 0.1
    remask: float = 0.0

    def __post_init__(self) -> None:
        special = (PAD,) if self.kind == "discrete-flow" else (PAD, MASK)
        if tuple(self.words[: len(special)]) != special or len({*self.words}) != len(self.words):
            raise UsageError(f"words of a {self.kind} model begin with {' and '.join(special)}, and are all different")
        for name in ("prompt_width", "width", "size", "layers", "heads", "steps"):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise UsageError(f"{name} is {value!r}, wanted a whole number from 1 on", name)
        if self.size % self.heads:
            raise UsageError(f"size is {self.size}, wanted a multiple of heads, {self.heads}", "size", "heads")
        if not self.choice_temperature > 0:
            raise UsageError(f"choice_temperature is {self.choice_temperature}, wanted more than 0")
        if not 0 <= self.remask < 1:
            raise UsageError(f"remask is {self.remask}, wanted a number from 0 to below 1")


class DiffusionModel:
    """A diffusion model as a policy of `karl-fast rl`: `karl_fast.rl.StepPolicy`.

    Attributes:
        model: the network, with all that is frozen frozen.
        config: its configuration.
        law: of its steps.
        kept: the reference; None for the model without its adapters.
    """

    def __init__(self, model: Any, config: DiffusionConfig, kept: Snapshot | None = None) -> None:
        self.model, self.config, self.kept = model, config, kept
        self.law: DiscreteFlow | MaskedDiffusion = (
            DiscreteFlow(len(config.words))
            if config.kind == "discrete-flow"
            else MaskedDiffusion(1, config.choice_temperature, config.remask)
        )
        self.prompt_width, self.width, self.steps = config.prompt_width, config.width, config.steps
        self._numbers = {word: number for number, word in enumerate(config.words)}

    def logits(self, prompts: mx.array, states: mx.array, numbers: mx.array, total: int) -> mx.array:
        """Return the logits of the answer's positions at steps of so many. [N, P], [N, L], [N] -> [N, L, V]"""
        tokens = mx.concatenate([prompts, states], axis=1)
        logits: mx.array = self.model(tokens, self.law.times(numbers, total))
        return logits[:, self.prompt_width :]

    def copy_with_noise(self, prompts: NDArray[np.int32], answers: NDArray[np.int32]) -> Noisy:
        """Return noisy copies of answers, the same for the same prompt and answer: `karl_fast.diffusion.bound`."""
        return copy_with_noise(self.law, prompts, answers)

    def bound(self, noisy: Noisy, temperature: float) -> mx.array:
        """Compute the evidence bound of answers by their noisy copies, over their width. -> [N]"""
        tokens = mx.concatenate([noisy.prompts, noisy.states], axis=1)
        logits = self.model(tokens, noisy.times)[:, self.prompt_width :]
        return evidence_bound(self.law, logits.astype(mx.float32) / temperature, noisy)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the words of all messages, padded to the width of a prompt.

        Raises:
            UsageError: a word that the vocabulary does not have, or too many of them.
        """
        return self._encode(" ".join(str(message["content"]) for message in messages), self.prompt_width, "prompt")

    def encode_answer(self, text: str) -> list[int]:
        """Return the words of an answer, padded to its width.

        Raises:
            UsageError: as `encode`.
        """
        return self._encode(text, self.width, "answer")

    def _encode(self, text: str, width: int, what: str) -> list[int]:
        words = text.split()
        if unknown := next((word for word in words if word not in self._numbers or word in (PAD, MASK)), None):
            problem = f"the {what} has the word {unknown!r}, which is not one of the {len(self._numbers)} of the model"
            raise UsageError(problem, hint=ask_whether(nearest(unknown, list(self._numbers))))
        if len(words) > width:
            raise UsageError(f"the {what} has {len(words)} words, and the model takes up to {width}")
        return [self._numbers[word] for word in words] + [0] * (width - len(words))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer: of the last state in a trajectory."""
        words = (self.config.words[token] for token in list(tokens)[-self.width :])
        return " ".join(word for word in words if word != PAD)

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        """Take the kept weights; without any, disable adapters, which gives the base model bit for bit."""
        with adapters_off(self.model) if self.kept is None else self.kept.held():
            yield


def build_model(config: DiffusionConfig) -> Network:
    """Return a network with random weights, from MLX's random state."""
    return Network(
        tokens=len(config.words),
        width=config.prompt_width + config.width,
        size=config.size,
        layers=config.layers,
        heads=config.heads,
    )


def is_diffusion_model(path: str) -> bool:
    """Return whether a path is the folder of a model of this kind."""
    try:
        config = json.loads(Path(path, CONFIG).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") in MODEL_TYPES


def load_model(path: str) -> tuple[Any, DiffusionConfig]:
    """Load a model from its folder.

    Raises:
        ModelError: a file is missing or damaged, or the weights are not those of the configuration.
    """
    config = read_config(Path(path, CONFIG))
    model: Any = build_model(config)
    expected = {name: array.shape for name, array in flatten_tree(model.parameters()).items()}
    try:
        weights = read_tensors(Path(path, WEIGHTS))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"cannot load the weights of {path}: {error}") from error
    shapes = {name: array.shape for name, array in weights.items()}
    if shapes != expected:
        name = sorted(name for name in {*shapes, *expected} if shapes.get(name) != expected.get(name))[0]
        there, wanted = (str(each.get(name, "no such array")) for each in (shapes, expected))
        raise ModelError(f"{Path(path, WEIGHTS)}: {name} is {there}, wanted {wanted}, by {CONFIG}")
    model.load_weights(list(weights.items()))
    return model, config


def read_config(file: Path) -> DiffusionConfig:
    """Read a configuration.

    Raises:
        ModelError: it is damaged, or a field is missing, unknown or out of range.
    """
    try:
        table = json.loads(file.read_text("utf-8"))
        kind: Any = MODEL_TYPES[table.pop("model_type")]
        names = {each.name for each in fields(DiffusionConfig)} - {"kind"}
        if unknown := sorted(table.keys() - names):
            raise ModelError(f"{file} has the field {unknown[0]!r}, which no diffusion model has")
        return DiffusionConfig(kind, tuple(table.pop("words")), **table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{file} is not the configuration of a diffusion model: {error}") from error


def save_model(folder: Path, model: Any, config: DiffusionConfig) -> None:
    """Write a model into a folder; each file is complete or absent, the configuration last.

    A configuration that is there is removed first: weights never stand beside that of another model.
    """
    with _atomic.name_file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).unlink(missing_ok=True)
    _atomic.write_file(folder / WEIGHTS, lambda file: write_tensors(flatten_tree(model.parameters()), file))
    table = asdict(config)
    kind = table.pop("kind")
    model_type = next(name for name, each in MODEL_TYPES.items() if each == kind)
    text = json.dumps({"model_type": model_type} | table, indent=1, ensure_ascii=False) + "\n"
    _atomic.write_file(folder / CONFIG, lambda file: file.write(text.encode()))
