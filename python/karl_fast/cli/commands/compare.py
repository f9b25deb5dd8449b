"""`karl-fast compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.root_help import COMMANDS
from karl_fast.export.compare import compare
from karl_fast.export.manifest import dumps

DataSet = "A data set: the folder that sample wrote, or one .jsonl file out of it."

A = Annotated[str, typer.Argument(metavar="A", help=DataSet)]
B = Annotated[str, typer.Argument(metavar="B", help="Another.")]


@app.command("compare", short_help=COMMANDS["compare"], epilog="Example: karl-fast compare data-raw data-zscore")
def command(*, a: A, b: B, json: options.Json = False) -> None:
    """Two data sets side by side: rows, rewards, targets, groups, domains, lengths, what is in both, and settings."""
    from karl_fast.cli.reports.compare import describe_comparison

    found = compare(a, b)
    print(dumps(found, plain=True) if json else describe_comparison(found))
