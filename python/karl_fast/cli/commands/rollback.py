"""`karl-fast rollback`."""

from __future__ import annotations

from typing import Annotated

import typer

from karl_fast._safe_text import clean
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.export.manifest import dumps

Link = Annotated[str, typer.Option("--link", help="The link to move back.")]


@add_command("rollback", epilog="Example: karl-fast rollback --link runs/current")
def command(*, link: Link = "current", json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Move the link back to the adapter before the last promotion, and record that."""
    from karl_fast.evaluation import rollback

    record = rollback(link)
    previous = record["previous"]
    if json:
        print(dumps({"link": link, "from": record["new"]["path"], "to": previous}, plain=True))
    elif not quiet:
        led = "is removed: before there was none" if previous is None else f"leads to {clean(previous)}"
        print(f"rolled back  {clean(link)} {led}")
