"""Colour of what the command prints, where a terminal shows it."""

from __future__ import annotations

import os
import re
from typing import Literal, TextIO

Style = Literal["bold", "cyan", "yellow", "red"]

CODES = {"bold": "1", "cyan": "36", "yellow": "33", "red": "1;31"}
"""Codes of ECMA-48; a terminal shows them in colours of its own theme, light or dark."""

LABEL = re.compile(r"[a-z][a-z-]*:?(?= |$)")
"""The word that a line of a report begins with."""

LABELS: dict[str, Style] = {"warning": "yellow", "note": "yellow", "alarm": "red", "refused": "yellow"}
"""Labels with a colour; all others are bold."""


def has_colour(stream: TextIO) -> bool:
    """Return True for a terminal that shows colour; the variable NO_COLOR turns it off (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def paint(text: str, style: Style, stream: TextIO) -> str:
    """Return text in a style, if the stream is a terminal with colour."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if has_colour(stream) else text


def paint_label(line: str, stream: TextIO) -> str:
    """Return a line of a report with its label in a style, if the stream is a terminal with colour."""
    label = LABEL.match(line)
    if label is None or not has_colour(stream):
        return line
    return paint(label[0], LABELS.get(label[0].rstrip(":"), "bold"), stream) + line[label.end() :]
