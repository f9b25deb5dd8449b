"""`karl-fast index`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._safe_text import clean, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.sample_body import logs_of
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RUN, TARGET
from karl_fast.settings.toml import SettingsFile

if TYPE_CHECKING:
    from karl_fast.log.index import IndexedFile

Logs = Annotated[list[str] | None, typer.Argument(metavar="LOG", help="Files, folders, globs.", show_default=False)]


@add_command(
    "index",
    epilog=options.epilog("--reward", "the file of --config", "karl-fast index runs/ --reward outcome"),
    common="--json --quiet --format --group --reward --config",
)
@options.add_log_settings(READ, TARGET, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: Logs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Keep the columns of logs in a file beside each, so that runs with --index read only what was appended.

    Give the options that say where the fields of a record are as to those runs: an index of others is not used.
    """
    from karl_fast.log.index import write_indexes  # with hashlib, which the help does without

    with show_progress(quiet) as watch:
        files = write_indexes(logs_of(logs, config), settings, watch("reading"))
    if json:
        print(dumps({"files": [asdict(file) for file in files]}, plain=True))
    elif not quiet:
        print("\n".join(map(describe_file, files)))


def describe_file(file: IndexedFile) -> str:
    """Return the line of a file: what was done about its index, and how much of it was read."""
    read = f"{in_bytes(file.bytes_read)} of {in_bytes(file.size)} read"
    return f"{file.state:<10}{clean(file.index or file.name)}: {read}"
