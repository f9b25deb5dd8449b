"""Checkpoints to resume a run exactly, and its metrics.

```text
ADAPTER_PATH/adapters.safetensors       the newest weights, read by mlx_lm generate and fuse
ADAPTER_PATH/adapter_config.json
ADAPTER_PATH/metrics.jsonl              a line of JSON a step; cut back to the checkpoint when a run is resumed
ADAPTER_PATH/checkpoints/0000100/       the two files of an adapter, and
    optimizer.safetensors               the moments of Adam, and their number of steps
    state.json                          step, epoch, batch, validations so far, the settings
```

A checkpoint is complete once it has its ``state.json``, which is written last and removed first. No state of a random
generator is stored: each step seeds its own from (seed, step), and the order of rows is a function of (seed, epoch).
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from karl_fast import _atomic
from karl_fast._extras import missing_package
from karl_fast.errors import CheckpointError, FileError
from karl_fast.modeling.adapters import check_fit, load_tensors
from karl_fast.modeling.parameters import flatten_tree, write_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from karl_fast.train.settings import Training

ADAPTERS, CONFIG, MOMENTS = "adapters.safetensors", "adapter_config.json", "optimizer.safetensors"

FOLDER, STATE = "checkpoints", "state.json"

FILES = (STATE, ADAPTERS, CONFIG, MOMENTS)
"""Files of a checkpoint; it is invalid without the first, which is removed first."""

METRICS_FILE = "metrics.jsonl"

ROWS = "examples"
"""Name of the hash of the training data in the settings of a run."""

BEGAN = "resume_adapter_file"
"""Name of the setting for the initial weights of a run."""

MOST_CHANGES = 4
"""Maximum settings in an error about runs that differ."""

SHORT = 60
"""Maximum characters of a value in such an error."""


@dataclass
class TrainingState:
    """Progress of a run.

    Attributes:
        step: number of steps made.
        epoch, batch: position of the next batch.
        tokens: number of tokens learned.
        best: the least validation loss, and its step.
        stale: validations since then.
        skipped: consecutive steps with a gradient that is not finite.
        settings: those of the run, and a hash of its examples.
        judged: step of the last validation; None where that was not recorded.
        began: file of the initial weights, relative to the adapter's folder; None if there was none.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    best: tuple[float, int] | None = None
    stale: int = 0
    skipped: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    began: str | None = None
    judged: int | None = None


class Checkpoints:
    """The checkpoints of a run, below the folder of its adapter."""

    def __init__(self, adapter_path: Path, config: dict[str, Any], keep: int) -> None:
        self.path, self.config, self.keep = adapter_path, config, keep

    def save(self, model: Any, optimizer: Any, state: TrainingState) -> Path:
        """Write a checkpoint atomically, then the files of the adapter; older checkpoints are removed after both."""
        place = self.path / FOLDER / f"{state.step:07d}"
        weights = flatten_tree(model.trainable_parameters())
        with _atomic.write_folder(place) as draft:
            _atomic.write_file(draft / ADAPTERS, _tensor_writer(weights))
            _atomic.write_file(draft / MOMENTS, _tensor_writer(flatten_tree(optimizer.state)))
            _atomic.write_file(draft / CONFIG, _json_writer(self.config))
            _atomic.write_file(draft / STATE, _json_writer(asdict(state)))
        self._follow(state)
        return place

    def _follow(self, state: TrainingState) -> None:
        """Make the adapter that of a checkpoint, and remove older checkpoints."""
        _atomic.write_file(self.path / CONFIG, _json_writer(self.config))
        self.copy_to_adapter(state.step)
        self._forget(state.best)

    def _forget(self, best: tuple[float, int] | None) -> None:
        """Remove all but the last few and the best."""
        old = [path for path in self.folders()[: -self.keep] if best is None or int(path.name) != best[1]]
        # A run that was killed while it removed a checkpoint left a part of it.
        for path in [*old, *self._folders(complete=False)]:
            with contextlib.suppress(OSError):
                _atomic.remove_files(path, FILES)

    def folders(self) -> list[Path]:
        """Return the complete checkpoints, the oldest first."""
        return self._folders(complete=True)

    def _folders(self, *, complete: bool) -> list[Path]:
        """Return the folders of checkpoints that are complete, or that are not; the oldest first."""
        folder = self.path / FOLDER
        return sorted(path for path in folder.glob("[0-9]*") if (path / STATE).is_file() == complete)

    def clear(self) -> None:
        """Remove the adapter of another run and its checkpoints; other files stay."""
        with _atomic.name_file_errors(self.path):
            (self.path / ADAPTERS).unlink(missing_ok=True)
            for old in self.folders():
                _atomic.remove_files(old, FILES)
            _atomic.remove_unfinished(self.path / FOLDER)

    def copy_to_adapter(self, step: int) -> bool:
        """Copy the weights of a checkpoint to the adapter, and return whether there is such a checkpoint."""
        weights = self.path / FOLDER / f"{step:07d}" / ADAPTERS
        if weights.is_file():
            _atomic.write_file(self.path / ADAPTERS, lambda file: file.write(weights.read_bytes()))
        return weights.is_file()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the newest checkpoint; empty if there is none."""
        return _read_state(self.folders()[-1] / STATE).settings if self.folders() else {}

    def resume(self, model: Any, optimizer: Any, settings: dict[str, Any], began: str | None = None) -> TrainingState:
        """Load the newest checkpoint into a model and an optimizer.

        Args:
            model, optimizer: to fill.
            settings: settings of the resumed run.
            began: the initial weights by the settings of the resumed run; None for those of the checkpoint.

        Raises:
            CheckpointError: there is none, it is damaged, or it is of another run.
        """
        if not self.folders():
            raise CheckpointError(f"{self.path} has no checkpoint to go on from")
        newest = self.folders()[-1]
        state = _read_state(newest / STATE)
        _check_same_run(newest, state.settings | {BEGAN: state.began}, settings | {BEGAN: began or state.began})
        _load_tensors(newest, model, optimizer)
        self._follow(state)  # a run that was killed while it saved may not have done this
        return state


def _tensor_writer(tensors: dict[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda file: write_tensors(tensors, file)


def _json_writer(value: dict[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda file: file.write((json.dumps(value, indent=2, sort_keys=True) + "\n").encode())


def _read_state(file: Path) -> TrainingState:
    try:
        values = json.loads(file.read_text("utf-8"))
        best = values.pop("best")
        return TrainingState(**values, best=None if best is None else (float(best[0]), int(best[1])))
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{file} is damaged") from error


def _check_same_run(place: Path, recorded: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if a checkpoint is of another run."""
    now = json.loads(json.dumps(now))
    other = [name for name in sorted(recorded.keys() | now.keys()) if recorded.get(name) != now.get(name)]
    if other:
        changed = [name for name in other if name != ROWS]
        changes = [_describe_change(name, recorded.get(name), now.get(name)) for name in changed[:MOST_CHANGES]]
        changes += [f"and {len(changed) - MOST_CHANGES} more"] if len(changed) > MOST_CHANGES else []
        changes += ["the rows differ"] if ROWS in other else []
        raise CheckpointError(
            f"{place} is of another run: {'; '.join(changes)}",
            hint="without --resume, in another folder, a run begins anew",
        )


def _describe_change(name: str, recorded: object, now: object) -> str:
    """Return the old and new value of a setting; for long values only that it changed."""
    plain = max(len(str(recorded)), len(str(now))) <= SHORT
    return f"its {name} was {recorded}, and is {now}" if plain else f"its {name} changed"


def _load_tensors(place: Path, model: Any, optimizer: Any) -> None:
    import mlx.core as mx
    from mlx.utils import tree_unflatten

    weights, moments = (load_tensors(place / name, CheckpointError) for name in (ADAPTERS, MOMENTS))
    optimizer.init(model.trainable_parameters())
    check_fit(weights, flatten_tree(model.trainable_parameters()), str(place / ADAPTERS), CheckpointError)
    check_fit(moments, flatten_tree(optimizer.state), str(place / MOMENTS), CheckpointError)
    model.load_weights(list(weights.items()), strict=False)
    optimizer.state = tree_unflatten(list(moments.items()))
    mx.eval(model.parameters(), optimizer.state)


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
            lines = [line for line in _complete_lines(path) if line["step"] <= upto]
            text = "".join(map(_metrics_line, lines))
            _atomic.write_file(path, lambda file: file.write(text.encode()))
        with _atomic.name_file_errors(path):
            self._file = path.open("a", encoding="utf-8")

    def log(self, values: dict[str, Any]) -> None:
        """Append and flush."""
        with _atomic.name_file_errors(self.path):
            self._file.write(_metrics_line(values))
            self._file.flush()

    def finish(self) -> None:
        """Close the file."""
        self._file.close()


def _metrics_line(values: dict[str, Any]) -> str:
    """Return a line of JSON, with null for numbers that are not finite."""
    plain = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
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
