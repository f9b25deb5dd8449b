"""Lines of a report as one text: wrapped between words, with counts by name."""

from __future__ import annotations

import sys
import textwrap
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

from karl_fast._safe_text import clean
from karl_fast.cli.colour import paint_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

COLUMNS = 80
WARNING = "warning: "
INDENT = " " * 10
PLACES_SHOWN = 10


def join_lines(lines: Iterable[str], to: TextIO | None = None) -> str:
    """Join the lines that are not empty, each wrapped between words; for stderr by default."""
    stream = sys.stderr if to is None else to
    seen = stream.isatty()
    return "\n".join(paint_label(_wrap(line, seen), stream) for whole in lines for line in whole.split("\n") if line)


def _wrap(line: str, seen: bool) -> str:
    if line.startswith("  ") and not line.startswith(INDENT):
        return line  # of a table, or a place in a file
    if line.startswith(WARNING) and not seen:
        return line  # which whoever reads a file of them looks for
    return textwrap.fill(
        line,
        COLUMNS,
        subsequent_indent=INDENT,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


def describe_counts(counts: dict[str, int]) -> str:
    """Format counts as `dropped 3, kept 5`; zeros are left out."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)


def describe_places(files: Iterable[Mapping[str, Any]], places: str) -> Iterator[str]:
    """Yield the first places of damage in files; ``places`` is the name of those of a file."""
    for path, bad in islice(((file["path"], bad) for file in files for bad in file[places]), PLACES_SHOWN):
        key = f" {clean(bad['key'])}" if "key" in bad else ""
        yield f"  {clean(path)}, line {bad['line']}, byte {bad['offset']}: {bad['reason'].replace('_', ' ')}{key}"
