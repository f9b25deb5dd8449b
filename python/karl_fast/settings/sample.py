"""Settings of `sample` and `inspect`, with their TOML form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.errors import UsageError
from karl_fast.settings.sample_fields import SampleFields
from karl_fast.settings.schema import check_keys
from karl_fast.settings.toml import load, name_file
from karl_fast.settings.toml_text import dump_sample
from karl_fast.settings.validation import check_settings, displaced_settings

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Settings(SampleFields):
    r"""Settings of reading a log, weighing its rows, drawing them and writing them.

    Field paths are dotted (``meta.group``; a dot inside a key is written ``\.``); ``None`` leaves the choice to the
    format. ``reward`` maps the path of each component to its weight, or the name of one to ``{"weight": 0.3, "fn":
    "my.py:score"}``: a function, or one of `karl_fast.reward.SIGNALS`, that scores it. With
    ``shaping`` the score is that of the shaped reward; rules and reports keep the reward as it is. ``karl-fast sample
    --help`` describes each.

    Raises:
        UsageError: for settings that contradict each other or lie outside their range.
    """

    _displaced = staticmethod(displaced_settings)

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def load(cls, path: str | Path, command: str = "sample") -> Settings:
        """Load settings from a TOML file, or from the manifest of a data set; see `karl_fast.settings.toml`.

        Raises:
            FileError: the file cannot be read.
            UsageError: it is neither, or holds a key or a value that means nothing; the message names it.
        """
        config = load(path, command)
        try:
            return cls(**config.settings, origins=dict.fromkeys(config.settings, "file"))
        except UsageError as error:
            raise name_file(Path(config.path), error) from error

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Make settings from names and values, such as the ``settings`` of a manifest; None means the default.

        Raises:
            UsageError: an unknown name, or an invalid value.
        """
        return cls(**check_keys(cls, values))

    def to_toml(
        self, folder: str | Path | None = None, *, logs: Iterable[str | Path] = (), out: str | Path | None = None
    ) -> str:
        """Return the settings that differ from the defaults as TOML that `load` reads.

        Args:
            folder: folder of the file; paths are written relative to it, and absolute without it.
            logs, out: inputs and output of a run, to be included in the file.
        """
        return dump_sample(self, folder, logs, out)
