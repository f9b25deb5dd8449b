"""`karl-fast inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from karl_fast._safe_text import counted
from karl_fast.cli import options
from karl_fast.cli.app import add_command
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
from karl_fast.settings.toml import SettingsFile

DryRun = Annotated[bool, typer.Option("--dry-run", help="Accepted as in sample; inspect never writes.")]
Show = Annotated[
    int, typer.Option("--show", min=0, help="Rows to print below the report, the best first, as karl-fast show does.")
]
Exact = Annotated[bool, typer.Option("--exact", help="Look for duplicates in all groups, not in a sample of them.")]


@add_command(
    "inspect",
    epilog=options.epilog("--max-per-group", "the file of --config", "karl-fast inspect runs/ --score zscore"),
    common="--show --json --group --reward --domain --score --ess --drop-constant-groups --dedup --config",
)
@options.add_log_settings(READ, TARGET, RULES, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    dry_run: DryRun = False,
    exact: Exact = False,
    show: Show = 0,
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
        if show:
            _print_best_rows(logs_of(logs, config), settings, show)
    if not first_keys(files := inspection.report["inputs"]):
        where, read = describe_recordless(files), counted(inspection.report["accounting"]["rows_read"], "row")
        raise NothingToSampleError((f"{where}: " if where else "") + f"{read} read, and not one is a record")


def _print_best_rows(logs: list[str], settings: Settings, count: int) -> None:
    from karl_fast.cli.reports.rows import describe_ranking, terminal_width
    from karl_fast.pipeline.show import show

    print("\n".join(["", *describe_ranking(show(logs, settings, count=count), terminal_width())]))
