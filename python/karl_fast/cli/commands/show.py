"""`karl-fast show`."""

from __future__ import annotations

import pydoc
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.colour import paint_label
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.rows import describe_ranking, describe_row, terminal_width, to_json
from karl_fast.cli.sample_body import logs_of
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RUN
from karl_fast.settings.toml import SettingsFile

Count = Annotated[int, typer.Option("-n", "--count", min=1, help="Rows to show.")]
By = Annotated[
    str, typer.Option("--by", help="What rows are ranked by: reward, length, or the path of a number: outcome.tests.")
]
Worst = Annotated[bool, typer.Option("--worst", help="The smallest numbers first.")]
OfGroup = Annotated[str | None, typer.Option("--of-group", help="Rows of this group alone.", show_default=False)]
RowId = Annotated[str | None, typer.Option("--row", help="The row of this id, whole.", show_default=False)]
Full = Annotated[bool, typer.Option("--full", help="With --row: results of tools in full.")]
Curves = Annotated[bool, typer.Option("--curves", help="Of a run of train or rl: its metrics as curves of text.")]


@add_command(
    "show",
    epilog=options.epilog("--reward", "the file of --config", "karl-fast show sessions.jsonl --by outcome.tests"),
    common="--count --by --worst --of-group --row --full --curves --group --reward --config",
)
@options.add_log_settings(READ, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    count: Count = 10,
    by: By = "reward",
    worst: Worst = False,
    of_group: OfGroup = None,
    row_id: RowId = None,
    full: Full = False,
    curves: Curves = False,
    index: options.Index = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the best rows of a log, a data set or a run, and why they are good; or one row whole."""
    if curves:
        _print_curves(logs_of(logs, config), json)
        return
    from karl_fast.pipeline.show import show

    with show_progress(quiet) as watch:
        ranking = show(
            logs_of(logs, config),
            settings,
            count=count,
            by=by,
            worst=worst,
            of_group=of_group,
            row_id=row_id,
            index=index,
            progress=watch("reading"),
        )
    if json:
        print(dumps(to_json(ranking), plain=True))
    elif row_id is None:
        print("\n".join(describe_ranking(ranking, terminal_width())))
    else:
        text = "\n".join(describe_row(ranking.rows[0], terminal_width(), full=full)) + "\n"
        pydoc.pager(text) if sys.stdout.isatty() else print(text, end="")


def _print_curves(paths: list[str], json: bool) -> None:
    from karl_fast.cli.reports.curves import curves_json, describe_curves  # with the pages, which rows do without
    from karl_fast.modeling.checkpoint import METRICS_FILE
    from karl_fast.page.run_page import is_run, read_run

    folder = Path(paths[0])
    if len(paths) != 1:
        raise UsageError(f"--curves takes the folder of one run, and {len(paths)} were given")
    if not is_run(folder):
        raise UsageError(
            f"--curves takes the folder of a run of train or rl, and {clean(paths[0])} has no {METRICS_FILE}",
            hint="train and rl write it with their first step or round",
        )
    run = read_run(folder)
    if json:
        print(dumps(curves_json(run), plain=True))
        return
    plain = not _can_encode("\u2588")
    lines = describe_curves(run, shutil.get_terminal_size((80, 24)).columns, plain=plain)
    print("\n".join(paint_label(line, sys.stdout) for line in lines))


def _can_encode(character: str) -> bool:
    try:
        character.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
