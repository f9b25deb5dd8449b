"""Body of `karl-fast sample`, after its options are parsed."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING

from karl_fast.cli.progress import show_progress
from karl_fast.cli.signals import handle_signals, watch_output
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.pipeline.sample import draw_rows, sample
from karl_fast.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.pipeline.sample import Sample
    from karl_fast.settings.sample import Settings
    from karl_fast.settings.toml import SettingsFile

WHOLE = (1.0, 0.0, 0.0)
"""The split that has one part."""


def draw_and_report(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: list[str] | None = None,
    out: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    engine: str | None = None,
    index: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Draw a training set, write it, and say so."""
    inputs = logs_of(logs, config)
    out = config.out if config and out is None else out
    _check_choices(out, dry_run=dry_run, json=json, engine=engine, index=index)
    print_rows = out == "-"
    if print_rows:
        settings = _whole(settings)
    target = None if dry_run or print_rows else out
    if target and is_url(target):
        handle_signals(lambda word: f"{word}; {target} is written if its manifest is there")
    elif target:
        watch_output(target)
    with show_progress(quiet) as watch, contextlib.ExitStack() as stack:
        draw = partial(sample, inputs, target, settings, force=force)
        if index:
            draw = partial(draw, index=True)
        if engine is not None:
            draw = stack.enter_context(_on_engine(engine, draw))
        if print_rows and engine is None:
            result = draw_rows(inputs, settings, watch("reading"), index=index)
        else:
            result = draw(progress=watch("reading"), written=watch("writing"))
    if print_rows and not dry_run:
        handle_signals(lambda word: f"{word}; rows may be missing from what was printed")
        # Bytes: the encoding of a terminal must not change a record.
        sys.stdout.buffer.writelines(line.encode() + b"\n" for line in result.lines())
        sys.stdout.flush()
    if json:
        print(dumps(result.manifest, plain=True))
    elif not quiet:
        from karl_fast.cli.reports.sample import (  # 10 ms, only if reports are printed
            describe_sample,
            describe_settings_change,
        )

        report = describe_sample(result.manifest, None if dry_run else out)
        warnings = describe_settings_change(config, result.manifest, reread=not logs) if config else []
        sys.stderr.write("\n".join([report, *warnings]) + "\n")


def _check_choices(out: str | None, *, dry_run: bool, json: bool, engine: str | None, index: bool) -> None:
    """Refuse an output that is missing, and options that contradict each other."""
    if out == "":
        raise UsageError("-o is empty, wanted the name of a folder")
    if out is None and not dry_run:
        raise UsageError("say where to write: -o DIR, -o - for stdout, or --dry-run")
    if out == "-" and json:
        raise UsageError("-o - and --json both print to stdout: use one of them")
    if engine is not None and index:
        raise UsageError("--engine and --index cannot be combined; use one of them")


@contextlib.contextmanager
def _on_engine(engine: str, draw: partial[Sample]) -> Iterator[partial[Sample]]:
    """Yield the same call with the logs read by the workers of an engine."""
    if engine != "ray":
        raise UsageError(f"--engine is {engine}, wanted ray")
    from karl_fast import distributed  # 30 ms, and most runs read on this machine
    from karl_fast.distributed.ray import RayExecutor

    with RayExecutor() as executor:
        yield partial(distributed.sample, *draw.args, **draw.keywords, executor=executor)


def logs_of(logs: list[str] | None, config: SettingsFile | None) -> list[str]:
    """Return the logs of the command line, else those of the file.

    Raises:
        UsageError: neither names one.
    """
    named = logs or (config.logs if config else None)
    if not named:
        raise UsageError("no log given: wanted files, folders, globs, or - for standard input")
    return named


def _whole(settings: Settings) -> Settings:
    """Return the settings of rows that are printed: all splits as one, even if a file sets a split."""
    if settings.origins.get("split") == "flag" and settings.split != WHOLE:
        raise UsageError(
            "--split divides rows among files, and -o - prints all of them to standard output",
            hint="leave out --split, or name a folder with -o",
        )
    return settings.replace(split=WHOLE)
