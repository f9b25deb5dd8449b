"""The work of each step: its command, its output, and its inputs with their hashes."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._core import VERSION
from karl_fast.cycle.config import KEYS, STEPS
from karl_fast.errors import FileError
from karl_fast.train.settings import WITHOUT_EFFECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karl_fast.cycle.config import CycleConfig

BASE = "base"
"""The model without an adapter, where no adapter was promoted yet."""

LINK = "current"
"""Link to the adapter in use, beside the adapters."""

ADAPTER_FILES = ("adapters.safetensors", "adapter_config.json", "seen-hashes.txt")
"""Files of an adapter that later steps read."""

WITHOUT = (*WITHOUT_EFFECT, "threads")
"""Settings that change the cost or the reports of a step, and never its result."""

OUTSIDE_SAMPLE = {*STEPS, *KEYS, "inspect", "rl"} - {"sample"}
"""Tables of the file that `sample` does not read."""


@dataclass(frozen=True)
class Task:
    """The work of one step.

    Attributes:
        step: name of the step.
        inputs: content of what the step depends on, by name.
        arguments: of `karl-fast`.
        output: file or folder that it writes; None if it only prints a result.
        content: function to the content of the output.
    """

    step: str
    inputs: dict[str, Content]
    arguments: list[str] = field(default_factory=list)
    output: Path | None = None
    content: Callable[[Path], Content] | None = None

    @property
    def key(self) -> str:
        """Beginning of the hash of all inputs."""
        return hash_inputs(self.inputs)

    def output_digest(self) -> str | None:
        """Return the digest of the output; None where it is not there, or there is none."""
        if self.output is None or self.content is None or not os.path.lexists(self.output):
            return None
        return self.content(self.output).digest


def hash_inputs(inputs: dict[str, Content]) -> str:
    """Return the beginning of the hash of some inputs and of the version."""
    digests = {name: content.digest for name, content in inputs.items()} | {"version": VERSION}
    return hash_value(digests).digest[:16]


def make_task(config: CycleConfig, step: str, outputs: dict[str, Path]) -> Task:
    """Return the work of a step, given the outputs of the steps before it.

    Raises:
        FileError: an input cannot be read.
    """
    return MAKERS[step](config, outputs)


def _collect_task(config: CycleConfig, _: dict[str, Path]) -> Task:
    """Return the collection, which runs each time: what it reads is not in the project."""
    table = config.tables["collect"]
    return Task("collect", {"settings": hash_value(table)}, ["collect", *_options(table)], Path(table["archive"]))


def _convert_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    table = config.tables["convert"]
    sources = [*table.get("sources", ()), *(str(outputs[step]) for step in ("collect",) if step in outputs)]
    inputs = {"sources": hash_files(sources), "settings": hash_value(_settings_with_effect(table))}
    out = _output_path(config, "trajectories", inputs, ".jsonl")
    arguments = ["convert", *sources, *_options(table, "sources"), "-o", str(out), "--force"]
    return Task("convert", inputs, arguments, out, _hash_one_file)


def _outcomes_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    """Return the search for evidence; it is made again each day, since evidence in git changes with time."""
    table, source = config.tables["outcomes"], outputs["convert"]
    inputs = {
        "trajectories": _hash_one_file(source),
        "reports": hash_files([*table.get("report", ()), *table.get("pull_requests", ())]),
        "settings": hash_value(_settings_with_effect(table)),
        "day": hash_value(datetime.now(UTC).date().isoformat()),
    }
    out = _output_path(config, "outcomes", inputs, ".jsonl")
    return Task(
        "outcomes", inputs, ["outcomes", str(source), *_options(table), "-o", str(out), "--force"], out, _hash_one_file
    )


def _sample_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    source = outputs.get("outcomes", outputs["convert"])
    settings = {name: value for name, value in config.raw.items() if name not in OUTSIDE_SAMPLE}
    inputs = {
        "trajectories": _hash_one_file(source),
        "settings": hash_value(settings),
        "code": hash_code(settings, config.file.parent),
    }
    out = _output_path(config, "data", inputs)
    arguments = ["sample", str(source), "-o", str(out), "--config", str(config.file), "--force"]
    return Task("sample", inputs, arguments, out, hash_data_set)


def _train_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    data = outputs["sample"]
    inputs = {
        "data": hash_data_set(data),
        "settings": hash_value(_settings_with_effect(config.raw["train"])),
        "model": hash_model(config.model),
    }
    out = _output_path(config, "adapters", inputs)
    arguments = ["train", str(data), "--config", str(config.file), "--adapter-path", str(out), "--resume"]
    return Task("train", inputs, arguments, out, hash_adapter)


def _eval_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    table, adapter, over = config.tables["eval"], outputs["train"], adapter_in_use(config)
    inputs = _evaluation_inputs(config, outputs) | {
        "against": hash_value(BASE) if over == BASE else hash_adapter(Path(over))
    }
    common = ["--model", config.model, "--adapter-path", str(adapter), "--against", over]
    if config.by == "likelihood":
        return Task("eval", inputs, ["eval", held_out_data(config, outputs), *common, *_options(table, "by", "data")])
    out = _output_path(config, "evaluations", inputs)
    arguments = ["eval", table["data"], "--rollouts", "--config", str(config.file), *common, "--out", str(out)]
    return Task("eval", inputs, [*arguments, *_options(table, "by", "data"), "--resume"], out, _hash_evaluation)


def _promote_task(config: CycleConfig, outputs: dict[str, Path]) -> Task:
    """Return the decision on an adapter: one for each adapter, whatever is in use by then."""
    table = config.tables["promote"]
    inputs = _evaluation_inputs(config, outputs) | {"promote": hash_value(table)}
    arguments = ["promote", str(outputs["train"]), "--over", adapter_in_use(config), *_options(table)]
    if config.by == "likelihood":
        split = ["--split", config.tables["eval"]["split"]] if "split" in config.tables["eval"] else []
        arguments += ["--data", held_out_data(config, outputs), "--by", "likelihood", "--model", config.model, *split]
    else:
        arguments += ["--data", str(outputs.get("eval", "")), "--by", "rewards"]
    return Task("promote", inputs, arguments)


MAKERS: dict[str, Callable[[CycleConfig, dict[str, Path]], Task]] = {
    "collect": _collect_task,
    "convert": _convert_task,
    "outcomes": _outcomes_task,
    "sample": _sample_task,
    "train": _train_task,
    "eval": _eval_task,
    "promote": _promote_task,
}


def _evaluation_inputs(config: CycleConfig, outputs: dict[str, Path]) -> dict[str, Content]:
    """Return the content of an adapter, and of all that it is judged by."""
    data, rl = config.tables["eval"].get("data"), config.raw.get("rl", {}) if config.by == "rollouts" else {}
    return {
        "adapter": hash_adapter(outputs["train"]),
        "data": hash_data_set(outputs["sample"]) if data is None else hash_files([data]),
        "settings": hash_value([config.tables["eval"], rl]),
        "code": hash_code(rl, config.file.parent),
        "model": hash_model(config.model),
    }


def held_out_data(config: CycleConfig, outputs: dict[str, Path]) -> str:
    """Return the held-out data: that of the file, or the data set, of which `[eval] split` is held out."""
    return str(config.tables["eval"].get("data", outputs["sample"]))


def adapter_in_use(config: CycleConfig) -> str:
    """Return the path of the adapter in use, or `base`."""
    link = config.folder / "adapters" / LINK
    return os.path.realpath(link) if link.is_symlink() else BASE


def hash_adapter(folder: Path) -> Content:
    """Return the content of an adapter."""
    return hash_files(folder / name for name in ADAPTER_FILES if (folder / name).is_file())


def _hash_one_file(file: Path) -> Content:
    return hash_files([file])


def _hash_evaluation(folder: Path) -> Content:
    return hash_files(sorted(folder.glob("*.json*")))


def _settings_with_effect(table: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that can change a result."""
    return {name: value for name, value in table.items() if name.replace("-", "_") not in WITHOUT}


def _output_path(config: CycleConfig, name: str, inputs: dict[str, Content], suffix: str = "") -> Path:
    return config.folder / name / (hash_inputs(inputs) + suffix)


def _options(table: dict[str, Any], *without: str) -> list[str]:
    """Return the values of a table as options of its command."""
    words: list[str] = []
    for name, value in table.items():
        flag = "--" + name.replace("_", "-")
        if name in without or value is False:
            continue
        if value is True:
            words.append(flag)
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [flag, str(item)]
    return words


@dataclass(frozen=True)
class Content:
    """Content of some files.

    Attributes:
        digest: SHA-256 of their names and bytes.
        files: number of files.
        size_bytes: bytes in them.
    """

    digest: str
    files: int = 0
    size_bytes: int = 0


def hash_files(paths: Iterable[str | Path]) -> Content:
    """Return the content of files, folders with all that is in them, and globs; a missing one counts as absent.

    Raises:
        FileError: one cannot be read.
    """
    whole, files, size = hashlib.sha256(), 0, 0
    for path in paths:
        for name, file in _walk_files(str(path)):
            digest, length = _hash_file(file)
            whole.update(f"{name}\0{digest}\0".encode("utf-8", "surrogateescape"))
            files, size = files + 1, size + length
    return Content(whole.hexdigest(), files, size)


def hash_value(value: Any) -> Content:
    """Return the content of a setting: any value that JSON takes."""
    text = json.dumps(value, sort_keys=True, default=str)
    return Content(hashlib.sha256(text.encode()).hexdigest())


def hash_code(values: Any, folder: Path) -> Content:
    """Return the content of the Python files that settings name as `file.py:function`."""
    return hash_files(
        sorted({folder / f"{text.partition('.py:')[0]}.py" for text in _walk_texts(values) if ".py:" in text})
    )


def hash_model(name: str) -> Content:
    """Return the content of a model's folder, or its name on the hub."""
    return hash_files([name]) if Path(name).is_dir() else hash_value(name)


def hash_data_set(folder: Path) -> Content:
    """Return the content of a data set: its rows, and the parts of its manifest that do not name files or the run."""
    rows = hash_files(sorted(folder.glob("*.jsonl")))
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    lasting = {name: value for name, value in manifest.items() if name not in ("inputs", "run")}
    return Content(hash_value([rows.digest, lasting]).digest, rows.files, rows.size_bytes)


def _walk_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _walk_texts(part)


def _walk_files(path: str) -> Iterator[tuple[str, str]]:
    """Yield the name below a path and the place of each of its files, in order."""
    tops = [path] if os.path.lexists(path) else sorted(glob.glob(path, recursive=True))
    for top in tops:
        if not os.path.isdir(top):  # noqa: PTH112
            yield Path(top).name, top
        for folder, inner, names in os.walk(top):
            inner.sort()
            for name in sorted(names):
                place = os.path.join(folder, name)  # noqa: PTH118  (ten times as fast)
                if os.path.isfile(place):  # noqa: PTH113
                    yield os.path.relpath(place, top), place


def _hash_file(place: str) -> tuple[str, int]:
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest, file.tell()
    except OSError as error:
        raise FileError(f"cannot read {place}: {error.strerror}", error.errno, place) from error
