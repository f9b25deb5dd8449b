"""Metrics of a run: a line of JSON a step, and external trackers."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast import _atomic
from karl_fast._extras import missing_package
from karl_fast.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from karl_fast.train.settings import Training

METRICS_FILE = "metrics.jsonl"


class Tracker(Protocol):
    """Receiver of the metrics of a run."""

    def log(self, values: dict[str, Any]) -> None:
        """Log one step or one validation, given by `step`."""
        ...

    def finish(self) -> None:
        """End the run."""
        ...


class JsonLines:
    """A file of one object a line, on the disk before the next step begins: a crash loses nothing."""

    def __init__(self, path: Path, upto: int) -> None:
        """Resume after a step: metrics of later steps, from before the run was killed, are removed."""
        self.path = path
        if path.is_file():
            kept = [line for line in _complete_lines(path) if line["step"] <= upto]
            text = "".join(map(_metrics_line, kept))
            _atomic.write(path, lambda file: file.write(text.encode()))
        with _atomic.refused(path):
            self._file = path.open("a", encoding="utf-8")

    def log(self, values: dict[str, Any]) -> None:
        """Append and flush."""
        with _atomic.refused(self.path):
            self._file.write(_metrics_line(values))
            self._file.flush()

    def finish(self) -> None:
        """Close the file."""
        self._file.close()


def _metrics_line(values: dict[str, Any]) -> str:
    """Return a line of JSON, with null for numbers that are not finite."""
    plain = {name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in values.items()}
    return json.dumps(plain) + "\n"


def _complete_lines(path: Path) -> Iterable[dict[str, Any]]:
    """Yield every complete line; the last may have been cut when its process ended."""
    for text in path.read_text("utf-8", "replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            raise CheckpointError(f"{path} is not a file of metrics")
        yield line


class ExternalTracker:
    """A run of wandb or trackio; both have the same interface for what is used here."""

    def __init__(self, library: str, settings: Training, adapter_path: Path) -> None:
        from importlib import import_module

        try:
            module = import_module(library)
        except ImportError as error:
            raise missing_package(f"--report-to {library} needs {library}, which is not installed", library) from error
        self._module = module
        module.init(project=settings.project_name or "karl-fast", name=adapter_path.name, config=settings.to_dict())

    def log(self, values: dict[str, Any]) -> None:
        """Log the numbers only."""
        step = values["step"]
        self._module.log({name: value for name, value in values.items() if name != "step"}, step=step)

    def finish(self) -> None:
        """End the run there."""
        self._module.finish()


def open_trackers(settings: Training, adapter_path: Path, upto: int) -> list[Tracker]:
    """Open the file of metrics, and the trackers of the settings."""
    elsewhere = [ExternalTracker(library, settings, adapter_path) for library in settings.report_to or ()]
    return [JsonLines(adapter_path / METRICS_FILE, upto), *elsewhere]
