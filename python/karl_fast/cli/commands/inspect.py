"""`karl-fast inspect`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from karl_fast._safe_text import counted
from karl_fast.cli import options
from karl_fast.cli.app import COMMANDS, app
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.sample import describe_inspection
from karl_fast.cli.sample_body import logs_of
from karl_fast.errors import NothingToSampleError
from karl_fast.export.manifest import dumps
from karl_fast.log.field_hints import describe_recordless
from karl_fast.log.record_fields import first_keys
from karl_fast.pipeline.inspect import inspect
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RULES, RUN, TARGET
from karl_fast.settings.toml import SettingsFile, load

GROUPS = (READ, TARGET, RULES, RUN)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Accepted as in sample; inspect never writes.")]


Exact = Annotated[bool, typer.Option("--exact", help="Look for duplicates in all groups, not in a sample of them.")]


@app.command(
    "inspect",
    short_help=COMMANDS["inspect"],
    epilog=options.epilog("--max-per-group", "the file of --config", "karl-fast inspect runs/ --score zscore"),
)
@options.add_settings(
    Settings,
    partial(load, names=options.setting_names(Settings, GROUPS)),
    "Options from a TOML file, or from the manifest.json of a data set to make it again.",
    GROUPS,
)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    dry_run: DryRun = False,
    exact: Exact = False,
    index: options.Index = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Look at logs before sampling: rows, groups, rewards, duplicates, and what each temperature would do."""
    with show_progress(quiet) as watch:
        inspection = inspect(logs_of(logs, config), settings, exact=exact, index=index, progress=watch("reading"))
    if json:
        print(dumps(inspection.report | {"ladder": inspection.ladder}, plain=True))
    else:
        print(describe_inspection(inspection.report, inspection.ladder))
    if not first_keys(files := inspection.report["inputs"]):
        where, read = describe_recordless(files), counted(inspection.report["accounting"]["rows_read"], "row")
        raise NothingToSampleError((f"{where}: " if where else "") + f"{read} read, and not one is a record")
