"""`karl-fast report`."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.sample_body import logs_of
from karl_fast.cli.signals import watch_output
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.page.report import report, watch
from karl_fast.page.rows import ROWS
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RULES, RUN, TARGET
from karl_fast.settings.toml import SettingsFile

if TYPE_CHECKING:
    from karl_fast.page.document import Page

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Logs (files, folders, globs, or -), or the folder of a data set, of two, of a run, of an evaluation, of "
        "a cycle, or of an ablation.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None, typer.Option("--out", "-o", help="The page to write, one file of HTML.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier page.")]
Rows = Annotated[int, typer.Option("--rows", min=0, help="Rows on the page; 0 for numbers and plots alone.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Watch = Annotated[
    bool, typer.Option("--watch", help="Write the page of a run again whenever it has written metrics, until it ends.")
]


@add_command(
    "report",
    epilog=options.epilog("--reward", "the file of --config", "karl-fast report runs/first -o report.html --open"),
    common="--out --force --rows --open --watch --group --reward --domain --score --config",
)
@options.add_log_settings(READ, TARGET, RULES, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    sources: Sources = None,
    out: Out = None,
    force: Force = False,
    rows: Rows = ROWS,
    open: Open = False,
    watch_run: Watch = False,
    index: options.Index = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page that shows a log, a data set or a run: numbers, plots, and every row with its evidence."""
    if out is None:
        raise UsageError("say where to write: -o report.html")
    inputs = logs_of(sources, config)
    watch_output(out)
    if watch_run:
        page = _watch(inputs, out, settings, rows=rows, force=force, open=open, quiet=quiet)
    else:
        with show_progress(quiet) as progress:
            page = report(
                inputs,
                out,
                settings,
                rows=rows,
                force=force,
                index=index,
                progress=progress("reading"),
                packing=progress("packing"),
            )
        if open:
            _open_page(out)
    if json:
        print(dumps({"out": out} | page.to_dict(), plain=True))
    elif not quiet:
        sys.stderr.write("\n".join(_describe_page(page, out)) + "\n")


def _watch(inputs: list[str], out: str, settings: Settings, *, rows: int, force: bool, open: bool, quiet: bool) -> Page:
    if len(inputs) != 1:
        raise UsageError(f"--watch takes the folder of one run, and {len(inputs)} were given")
    opened = False

    def on_page(page: Page) -> None:
        nonlocal opened
        if open and not opened:
            _open_page(out)
        opened = True
        if page.going_on and not quiet:
            sys.stderr.write(f"{clean(page.sentence)}\n")

    return watch(inputs[0], out, settings, rows=rows, force=force, on_page=on_page)


def _open_page(out: str) -> None:
    if not webbrowser.open(Path(out).resolve().as_uri()):
        sys.stderr.write(f"warning: there is no browser here; the page is {clean(out)}\n")


def _describe_page(page: Page, out: str) -> list[str]:
    """Return the lines of a page: its sentence, its rows, its warnings."""
    rows = "" if page.rows is None else f", {counted(len(page.rows), 'row')} of {page.rows.total:,}"
    warnings = [f"note      {clean(warning)}" for warning in page.warnings]
    size = in_bytes(Path(out).stat().st_size)
    return [f"{page.kind.lower():<9} {clean(page.sentence)}", *warnings, f"written   {clean(out)}: {size}{rows}"]
