"""The table ``[train]`` of a configuration: data, model and output of a run, and the settings of `Training`.

Keys above the table are those of drawing a data set, and do not apply to training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karl_fast.errors import UsageError
from karl_fast.settings.schema import check_keys, schema
from karl_fast.settings.toml import name_file, own_table, parse_toml, read_config_text
from karl_fast.settings.toml_text import TRAIN_FILE
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.settings import Training

PLACES = ("data", "model", "adapter_path", "resume_adapter_file")


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run from a file.

    Attributes:
        path: the file.
        settings: by their names in `Training`.
        data, model, adapter_path, resume_adapter_file: None if not given.
    """

    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    data: str | None = None
    model: str | None = None
    adapter_path: str | None = None
    resume_adapter_file: str | None = None


def load(path: str | Path, _command: str = "train") -> TrainConfig:
    """Read the table ``[train]`` of a TOML file, or the settings file in the folder of an adapter.

    Raises:
        FileError: the file cannot be read.
        UsageError: it is no TOML, has no such table, or holds a key or a value that means nothing.
    """
    file = Path(path, TRAIN_FILE) if Path(path).is_dir() else Path(path)
    text = read_config_text(file)
    try:
        table = own_table(parse_toml(text), "train", {*schema(Training), *PLACES})
        settings = check_keys(Training, table, PLACES, "[train] ")
        places = {name: _place(file.parent, name, settings.pop(name)) for name in PLACES if name in settings}
    except UsageError as error:
        raise name_file(file, error) from error
    return TrainConfig(str(file), settings, **places)


def _place(folder: Path, name: str, value: Any) -> str:
    """Return a path relative to the working directory; that of a model only if it is a folder, not a name."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}, wanted a text")
    refuse_empty(**{name: value})
    path = folder / value
    return value if name == "model" and not path.is_dir() else str(path)
