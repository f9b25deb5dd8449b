"""Settings as the text of a configuration.

A value takes the ten lines of `dump_value`: JSON is TOML here, but for one character. A package for them would write
the tables of a reward in another form, and be one more to install.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from karl_fast.settings.schema import Signal
from karl_fast.settings.validation import FILES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from karl_fast.settings.sample_fields import SampleFields
    from karl_fast.train.settings import Training

TRAIN_FILE = "train.toml"
"""File with the settings of a training run, in the folder of its adapter."""


def dump_sample(
    settings: SampleFields,
    folder: str | Path | None = None,
    logs: Iterable[str | Path] = (),
    out: str | Path | None = None,
) -> str:
    """Return the settings that differ from the defaults as TOML; paths are relative to ``folder``, or absolute."""
    changed = {name: getattr(settings, name) for name in settings.chosen()}
    reward = changed.pop("reward", None) or {}
    if shaping := changed.get("shaping"):
        changed["shaping"] = asdict(shaping)
    if per := changed.get("per"):
        changed["per"] = ",".join(f"{field}={how}" for field, how in per.items())
    reward = {name: _relative_component(folder, component) for name, component in reward.items()}
    for name in FILES & changed.keys():
        changed[name] = relative_path(folder, changed[name])
    places: dict[str, Any] = {
        "logs": [relative_path(folder, log) for log in logs],
        "out": out and relative_path(folder, out),
    }
    changed = {name: value for name, value in places.items() if value} | changed
    plain = [f"{name} = {dump_value(value)}" for name, value in changed.items()]
    table = (
        ["[reward]", *(f"{dump_value(path)} = {dump_value(weight)}" for path, weight in reward.items())]
        if reward
        else []
    )
    return "".join(f"{line}\n" for line in [*plain, *([""] if plain and table else []), *table])


def dump_training(settings: Training, data: str | Path, model: str, folder: Path, began: str | None = None) -> str:
    """Return all settings of a training run as the table ``[train]``, with paths relative to a folder.

    Args:
        settings: of the run.
        data, model: as they are from here.
        folder: folder of the file with the text.
        began: weights that the run began with, as they are from the folder.
    """
    is_folder = os.path.isdir(model)  # noqa: PTH112
    places = {"data": relative_path(folder, data), "model": relative_path(folder, model) if is_folder else model}
    places |= {} if began is None else {"resume_adapter_file": began}
    values = {name: value for name, value in (places | asdict(settings)).items() if value is not None}
    return "".join(
        f"{line}\n" for line in ["[train]", *(f"{name} = {dump_value(value)}" for name, value in values.items())]
    )


def _relative_component(folder: str | Path | None, component: float | Signal) -> float | Signal:
    """Return a component of the reward, with the file of its function relative to the folder."""
    if not isinstance(component, dict) or ":" not in component["fn"]:
        return component
    return component | Signal(fn=relative_path(folder, component["fn"]))


def relative_path(folder: str | Path | None, path: str | Path) -> str:
    """Return a path relative to a folder, or absolute; ``-`` stays."""
    if str(path) == "-":
        return "-"
    whole = os.path.abspath(path)  # noqa: PTH100  (links stay what they are)
    return whole if folder is None else os.path.relpath(whole, folder)


def dump_value(value: Any) -> str:
    """Return a value of a setting as TOML.

    Raises:
        ValueError: a number that is not finite.
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(dump_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {dump_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a setting")
    # JSON's texts, numbers and truths are TOML's, but for one character that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
