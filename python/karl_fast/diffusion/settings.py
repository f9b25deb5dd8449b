"""Settings of `karl-fast pretrain`, and their TOML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from karl_fast.errors import UsageError
from karl_fast.settings.schema import (
    FROM_ONE,
    POSITIVE,
    SEED,
    Range,
    check_keys,
    document_settings,
    setting,
    validate,
)
from karl_fast.settings.toml import name_file, parse_toml, read_config_text
from karl_fast.settings.validation import refuse_empty

MODEL, LEARNING = "Model", "Learning"

Kind = Literal["discrete-flow", "masked-diffusion"]


@document_settings
@dataclass(frozen=True)
class Pretraining:
    """Settings of the pre-training of a small diffusion model.

    Raises:
        UsageError: a value outside its range.
    """

    data: str = setting(
        "", MODEL, "File of JSON lines with prompt and answer, or file.py:function that returns such objects."
    )
    out: str = setting("", MODEL, "Folder of the model to write.")
    kind: Kind = setting("masked-diffusion", MODEL, "Kind of model: discrete-flow or masked-diffusion.")
    size: int = setting(64, MODEL, "Size of hidden states.", bounds=FROM_ONE)
    layers: int = setting(2, MODEL, "Layers.", bounds=FROM_ONE)
    heads: int = setting(4, MODEL, "Heads of attention; the size is a multiple of them.", bounds=FROM_ONE)
    steps: int = setting(16, MODEL, "Steps of an answer in use; rl may train with fewer.", bounds=FROM_ONE)
    choice_temperature: float = setting(
        0.1,
        MODEL,
        "Temperature of the choice of positions, of masked-diffusion: near 0 the most confident are unmasked first.",
        bounds=POSITIVE,
    )
    remask: float = setting(
        0.0,
        MODEL,
        "Chance that a step masks a position again, of masked-diffusion.",
        bounds=Range(low=0, below=1),
    )
    iters: int = setting(2000, LEARNING, "Batches to train on.", bounds=FROM_ONE)
    batch_size: int = setting(64, LEARNING, "Rows a batch.", bounds=FROM_ONE)
    learning_rate: float = setting(2e-3, LEARNING, "Learning rate, which falls to 0 by a cosine.", bounds=POSITIVE)
    seed: int = setting(0, LEARNING, "Seed of the weights, the order of rows and the noise.", bounds=SEED)

    _command = "pretrain"

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class PretrainConfig:
    """Settings from a file.

    Attributes:
        path: the file.
        settings: by their names in the schema of `Pretraining`.
    """

    path: str
    settings: dict[str, Any]


def read_config(path: str, _command: str = "pretrain") -> PretrainConfig:
    """Read the settings in a TOML file; its paths are relative to its folder.

    Raises:
        FileError: it cannot be read.
        UsageError: it is not TOML, or holds a key or a value that means nothing.
    """
    file = Path(path)
    text = read_config_text(file)
    try:
        settings = check_keys(Pretraining, parse_toml(text))
        refuse_empty(**{name: settings[name] for name in ("data", "out") if name in settings})
    except UsageError as error:
        raise name_file(file, error) from error
    paths = {name: str(file.parent / settings[name]) for name in ("data", "out") if name in settings}
    return PretrainConfig(str(file), settings | paths)
