"""Checks of all that a cycle needs, before its first step: a fault that shows after hours of training costs them.

Each step has a check of its values, and of the files, folders, functions and models that it names. Nothing is written.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from karl_fast._suggest import suggest_path
from karl_fast.cycle.tasks import LINK
from karl_fast.errors import FileError, KarlError, MissingExtraError, ModelError, UsageError
from karl_fast.settings.schema import Rate
from karl_fast.settings.toml import name_file
from karl_fast.settings.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karl_fast.cycle.config import CycleConfig
    from karl_fast.settings.sample import Settings


def check(config: CycleConfig, steps: tuple[str, ...]) -> None:
    """Raise the error that a step would end with, as far as it can be known before the first one.

    Raises:
        KarlError: of the step, with the name of its table.
    """
    _check_outputs(config)
    for step in steps:
        with _name_table(config, step):
            CHECKS[step](config)


@contextlib.contextmanager
def _name_table(config: CycleConfig, step: str) -> Iterator[None]:
    """Name the file and the table of a step in an error that names neither."""
    try:
        yield
    except KarlError as error:
        if isinstance(error, MissingExtraError) or str(error).startswith(str(config.file)):
            raise
        named = name_file(config.file, UsageError(f"[{step}] {error}"))
        named.hint = error.hint
        raise named from error


def _check_outputs(config: CycleConfig) -> None:
    for name, path in (("folder", config.folder), ("metrics", config.metrics.parent)):
        existing = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
        if not existing.is_dir():
            raise name_file(config.file, UsageError(f"[cycle] {name} is {path}, and {existing} is a file"))
    if config.metrics.is_dir():
        raise name_file(config.file, UsageError(f"[cycle] metrics is {config.metrics}, a folder: wanted a file"))


def _require_paths(table: dict[str, Any], key: str) -> None:
    """Raise where a path of a key leads nowhere; globs have to match."""
    for path in table.get(key, ()):
        if not os.path.lexists(path) and not glob.glob(path, recursive=True):
            raise UsageError(f"{key} names {path}: there is no such file or folder", hint=suggest_path(Path(path)))


def _check_limits(table: dict[str, Any]) -> None:
    """Check the settings that `convert` and `outcomes` share."""
    from karl_fast.settings.sample import Settings

    Settings().replace(**{name: table[name] for name in ("max_line_bytes", "threads") if name in table})
    _check_pseudonyms(table.get("pseudonyms"))


def _check_pseudonyms(key: str | None) -> None:
    """Check the file with the key of pseudonyms; a missing file is made, but not in a folder that is missing, too.

    A mistyped folder would get a key of its own, and with that other pseudonyms than before.
    """
    from karl_fast._pseudonyms import read_key

    if key is None:
        return
    if os.path.lexists(key):
        read_key(key)
    elif not Path(key).parent.is_dir():
        raise UsageError(
            f"pseudonyms is {key}: there is no folder {Path(key).parent}",
            hint=suggest_path(Path(key).parent) or "make the folder; the file itself is made",
        )


def _check_collect(config: CycleConfig) -> None:
    table = config.tables["collect"]
    _require_paths(table, "from")
    if os.path.lexists(table["archive"]) and not Path(table["archive"]).is_dir():
        raise UsageError(f"archive is {table['archive']}, a file: wanted a folder")


def _check_convert(config: CycleConfig) -> None:
    from karl_fast import _core

    table = config.tables["convert"]
    if "format" in table:
        check_choice("format", table["format"], [name for name, _ in _core.transcripts()])
    check_choice("rate", table.get("rate", "log"), get_args(Rate))
    _check_limits(table)
    _require_paths(table, "sources")
    _require_transcripts(table.get("sources", ()))


def _require_transcripts(sources: Iterable[str]) -> None:
    """Raise where a source is a folder without a file of the name of a transcript, as the conversion does."""
    from karl_fast.log.discovery import resolve_logs
    from karl_fast.transcripts.sources import SUFFIXES

    for source in sources:
        if Path(source).is_dir():
            try:
                with resolve_logs([source], SUFFIXES):
                    pass
            except UsageError as error:
                raise UsageError(f"sources names {source}: {error}", hint=error.hint) from error


def _check_outcomes(config: CycleConfig) -> None:
    from karl_fast.transcripts.outcomes import MOST_DAYS

    table = config.tables["outcomes"]
    days = table.get("after_days", 1)
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"after_days is {days}, wanted a whole number from 1 to {MOST_DAYS:,}")
    _check_limits(table)
    for key in ("report", "pull_requests", "repo"):
        _require_paths(table, key)
    for path in table.get("repo", ()):
        if not any(_is_repository(folder) for folder in (Path(path), *Path(path).resolve().parents)):
            raise UsageError(f"repo names {path}, which is in no git repository")


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def _check_sample(config: CycleConfig) -> None:
    from karl_fast.export.token_limit import length_judge
    from karl_fast.log.reward_functions import load_functions
    from karl_fast.settings.sample import Settings

    settings = Settings.load(config.file)
    _refuse_function_path(settings)
    _check_pseudonyms(settings.pseudonyms)
    with _in_folder_of(config):
        load_functions(settings)
        try:
            length_judge(settings)
        except FileError as unread:
            raise UsageError(f"tokenizer is {settings.tokenizer}: {unread}", hint=unread.hint) from unread
    split = config.tables["eval"].get("split", "test")
    if "eval" not in config.steps or config.by != "likelihood" or "data" in config.tables["eval"]:
        return
    shares = dict(zip(("train", "valid", "test"), settings.split, strict=False))
    if not shares.get(split):
        raise UsageError(
            f"split deals no rows to {split}, which [eval] judges by",
            hint='split = "0.8,0,0.2" deals a fifth of the rows to test',
        )


def _refuse_function_path(settings: Settings) -> None:
    """Raise where a function is named like the path of a reward: it needs a name and a weight."""
    for path in settings.reward or ():
        if ".py:" in path:
            raise UsageError(
                f"reward is {path}, wanted the path of a field: a function has a name and a weight",
                hint=f'score = {{ weight = 1, fn = "{path}" }} in [sample.reward] names it',
            )


@contextlib.contextmanager
def _in_folder_of(config: CycleConfig) -> Iterator[None]:
    """Run code of the user as its step will: in the folder of the file; what it prints is not a result."""
    with contextlib.chdir(config.file.parent), contextlib.redirect_stdout(sys.stderr):
        yield


def _check_train(config: CycleConfig) -> None:
    from karl_fast.modeling.load import ADAPTERS, require_mlx_lm
    from karl_fast.settings.sample import Settings
    from karl_fast.settings.schema import build
    from karl_fast.train.config import load
    from karl_fast.train.recipe import GROUPED, WEIGHTED
    from karl_fast.train.settings import Training

    file = load(config.file)
    settings = build(Training, file.settings)
    with contextlib.chdir(config.file.parent):
        require_mlx_lm()
        _require_model(config.model)
        weights = file.resume_adapter_file
        if weights is not None and not Path(weights).is_file():
            raise UsageError(f"resume_adapter_file is {weights}: no such file; {ADAPTERS} of an adapter is one")
    sampler = Settings.load(config.file).sampler
    if settings.recipe in (*WEIGHTED, *GROUPED) and sampler != "all":
        raise UsageError(
            f"the recipe {settings.recipe} looks at rewards, and [sample] draws rows by them already",
            hint='sampler = "all" in [sample] writes every row, with its weight',
        )


def _require_model(model: str) -> None:
    """Raise where a folder is not there, or holds no model; a name on the hub is looked up when it is loaded."""
    place = Path(model)
    if place.is_dir():
        if not (place / "config.json").is_file():
            raise ModelError(f"model is {model}: it has no config.json")
        return
    is_name = model.count("/") <= 1 and not model.startswith((".", "/", "~"))
    if place.is_file() or not is_name:
        raise ModelError(
            f"model is {model}: wanted the folder of a model, or a name on the Hugging Face hub",
            hint=suggest_path(place) or "paths of a cycle are relative to its file",
        )


def _check_eval(config: CycleConfig) -> None:
    table = config.tables["eval"]
    if config.by == "rollouts":
        from karl_fast.evaluation.rollouts import RolloutSettings
        from karl_fast.rl.settings import load, read_prompts
        from karl_fast.rl.setup import build_environment, build_reward_functions

        own = {name: value for name, value in table.items() if name not in ("by", "data")}
        settings = RolloutSettings(load(config.file, model=config.model), table["data"], **own).settings
        read_prompts(table["data"])
        with _in_folder_of(config):
            build_environment(settings, config.file.parent)
            build_reward_functions(settings, config.file.parent)
        return
    from karl_fast.export.training_rows import open_source

    split = table.get("split", "test")
    check_choice("split", split, ("train", "valid", "test"))
    if "data" in table and not open_source(table["data"]).rows(split):
        raise UsageError(f"data is {table['data']}, which has no rows of the split {split}")


def _check_promote(config: CycleConfig) -> None:
    from karl_fast.evaluation.promotions import PromotionRecords

    table = config.tables["promote"]
    margin, confidence = table.get("margin", 0.0), table.get("confidence", 0.95)
    if not (math.isfinite(margin) and margin >= 0):
        raise UsageError(f"margin is {margin}, wanted a number from 0 on")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence is {confidence}, wanted a number between 0 and 1")
    PromotionRecords(config.folder / "adapters" / LINK).target()


CHECKS: dict[str, Callable[[CycleConfig], None]] = {
    "collect": _check_collect,
    "convert": _check_convert,
    "outcomes": _check_outcomes,
    "sample": _check_sample,
    "train": _check_train,
    "eval": _check_eval,
    "promote": _check_promote,
}


def check_look(config: CycleConfig, data_set: Path) -> None:
    """Raise before a training whose adapter could not be judged: the held-out data is learned from, or used up.

    Args:
        config: the cycle.
        data_set: what is learned.

    Raises:
        OverlapError: some of the held-out data is in the data set.
        UsageError: no result of the next look at the held-out data could promote.
    """
    if "promote" not in config.steps or (config.by == "likelihood" and "data" not in config.tables["eval"]):
        return
    from karl_fast.evaluation.gate import check_evidence

    table = config.tables["eval"]
    link = config.folder / "adapters" / LINK
    alpha = 1 - config.tables["promote"].get("confidence", 0.95)
    check_evidence(
        data_set,
        table["data"],
        "rollouts" if config.by == "rollouts" else "likelihood",
        table.get("split", "test"),
        link,
        alpha,
    )
