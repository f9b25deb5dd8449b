"""Checkpoints to resume a run exactly: weights, optimizer, and the position in the data.

```text
ADAPTER_PATH/adapters.safetensors       the newest weights, read by mlx_lm generate and fuse
ADAPTER_PATH/adapter_config.json
ADAPTER_PATH/checkpoints/0000100/       the same two files, and
    optimizer.safetensors               the moments of Adam, and their number of steps
    state.json                          step, epoch, batch, validations so far, the settings
```

No state of a random generator is stored: each step seeds its own from (seed, step), and the order of rows is a function
of (seed, epoch).
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
from karl_fast.modeling.adapters import fit, tensors
from karl_fast.modeling.parameters import flatten_tree, write_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from karl_fast.train.settings import Training

ADAPTERS, CONFIG, MOMENTS = "adapters.safetensors", "adapter_config.json", "optimizer.safetensors"

FOLDER, STATE = "checkpoints", "state.json"

FILES = (STATE, ADAPTERS, CONFIG, MOMENTS)
"""Files of a checkpoint; it is invalid without the first, which is removed first."""

ROWS = "examples"
"""Name of the hash of the training data in the settings of a run."""

SAID = 4
"""Maximum settings in an error about runs that differ."""

SHORT = 60
"""Maximum characters of a value in such an error."""

BEGAN = "resume_adapter_file"
"""Name of the setting for the initial weights of a run."""


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
        """Write a checkpoint atomically, then the adapter beside it; older checkpoints are removed after both."""
        place = self.path / FOLDER / f"{state.step:07d}"
        weights = flatten_tree(model.trainable_parameters())
        with _atomic.folder(place) as draft:
            _atomic.write(draft / ADAPTERS, _tensors(weights))
            _atomic.write(draft / MOMENTS, _tensors(flatten_tree(optimizer.state)))
            _atomic.write(draft / CONFIG, _json(self.config))
            _atomic.write(draft / STATE, _json(asdict(state)))
        self._follow(state)
        return place

    def _follow(self, state: TrainingState) -> None:
        """Make the adapter that of a checkpoint, and let older checkpoints go."""
        _atomic.write(self.path / CONFIG, _json(self.config))
        self.put(state.step)
        self._forget(state.best)

    def _forget(self, best: tuple[float, int] | None) -> None:
        """Remove all but the last few and the best."""
        old = [path for path in self.found()[: -self.keep] if best is None or int(path.name) != best[1]]
        # A run that was killed while it removed a checkpoint left a part of it.
        for path in [*old, *self._places(complete=False)]:
            with contextlib.suppress(OSError):
                _atomic.remove(path, FILES)

    def found(self) -> list[Path]:
        """Return the complete checkpoints, the oldest first."""
        return self._places(complete=True)

    def _places(self, *, complete: bool) -> list[Path]:
        """Return the folders of checkpoints that are complete, or that are not; the oldest first."""
        folder = self.path / FOLDER
        return sorted(path for path in folder.glob("[0-9]*") if (path / STATE).is_file() == complete)

    def clear(self) -> None:
        """Remove the adapter of another run and its checkpoints; other files stay."""
        with _atomic.refused(self.path):
            (self.path / ADAPTERS).unlink(missing_ok=True)
            for old in self.found():
                _atomic.remove(old, FILES)
            _atomic.sweep(self.path / FOLDER)

    def put(self, step: int) -> bool:
        """Make the weights of a checkpoint those of the adapter; whether there is such a checkpoint."""
        kept = self.path / FOLDER / f"{step:07d}" / ADAPTERS
        if kept.is_file():
            _atomic.write(self.path / ADAPTERS, lambda file: file.write(kept.read_bytes()))
        return kept.is_file()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the newest checkpoint; empty if there is none."""
        return _state(self.found()[-1] / STATE).settings if self.found() else {}

    def resume(self, model: Any, optimizer: Any, settings: dict[str, Any], began: str | None = None) -> TrainingState:
        """Load the newest checkpoint into a model and an optimizer.

        Args:
            model, optimizer: to fill.
            settings: settings of the resumed run.
            began: the weights that it says to have begun with; who says nothing means those of the checkpoint.

        Raises:
            CheckpointError: there is none, it is damaged, or it is of another run.
        """
        if not self.found():
            raise CheckpointError(f"{self.path} has no checkpoint to go on from")
        newest = self.found()[-1]
        state = _state(newest / STATE)
        _same(newest, state.settings | {BEGAN: state.began}, settings | {BEGAN: began or state.began})
        _filled(newest, model, optimizer)
        self._follow(state)  # a run that was killed while it saved may not have come to that
        return state


def _tensors(tensors: dict[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda file: write_tensors(tensors, file)


def _json(value: dict[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda file: file.write((json.dumps(value, indent=2, sort_keys=True) + "\n").encode())


def _state(file: Path) -> TrainingState:
    try:
        values = json.loads(file.read_text("utf-8"))
        best = values.pop("best")
        return TrainingState(**values, best=None if best is None else (float(best[0]), int(best[1])))
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{file} is damaged") from error


def _same(place: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise where a run is not the one that the checkpoint is of."""
    now = json.loads(json.dumps(now))
    other = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    if other:
        changed = [name for name in other if name != ROWS]
        said = [_change(name, before.get(name), now.get(name)) for name in changed[:SAID]]
        said += [f"and {len(changed) - SAID} more"] if len(changed) > SAID else []
        said += ["the rows differ"] if ROWS in other else []
        raise CheckpointError(
            f"{place} is of another run: {'; '.join(said)}",
            hint="without --resume, in another folder, a run begins anew",
        )


def _change(name: str, before: object, now: object) -> str:
    """Return the old and new value of a setting; for long values only that it changed."""
    plain = max(len(str(before)), len(str(now))) <= SHORT
    return f"its {name} was {before}, and is {now}" if plain else f"its {name} changed"


def _filled(place: Path, model: Any, optimizer: Any) -> None:
    import mlx.core as mx
    from mlx.utils import tree_unflatten

    weights, moments = (tensors(place / name, CheckpointError) for name in (ADAPTERS, MOMENTS))
    optimizer.init(model.trainable_parameters())
    fit(weights, flatten_tree(model.trainable_parameters()), str(place / ADAPTERS), CheckpointError)
    fit(moments, flatten_tree(optimizer.state), str(place / MOMENTS), CheckpointError)
    model.load_weights(list(weights.items()), strict=False)
    optimizer.state = tree_unflatten(list(moments.items()))
    mx.eval(model.parameters(), optimizer.state)


# Metrics of a run: a line of JSON a step, and external trackers.


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
