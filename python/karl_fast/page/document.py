"""A page as one file of HTML: the template beside this file, sections, rows, and the policy that lets nothing in.

No text of a log becomes markup: what Python writes is escaped, and conversations are JSON that the script of the page
shows as text. The page loads nothing: its policy names the hashes of its own style and script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _plots
from karl_fast._plots import Plot, number, table, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karl_fast.page.rows import PackedRows

HERE = Path(__file__).parent

GENERATOR = "karl-fast report"
"""Name in the head of every page: a file with it is one that may be replaced."""

REFRESH_SECONDS = 10
"""Seconds after which a page of a run that goes on loads itself again."""


@dataclass(frozen=True)
class Fact:
    """A number of the strip below the sentence: its name, its value, the value before where there are two, a remark."""

    name: str
    value: object
    before: object = None
    remark: str = ""

    def html(self) -> str:
        """Return it as a pair of a list of definitions."""
        before = "" if self.before is None else f'<span class="before">{text(number(self.before))} \u2192 </span>'
        remark = f"<small>{text(self.remark)}</small>" if self.remark else ""
        return f"<div><dt>{text(self.name)}</dt><dd>{before}{text(number(self.value))}{remark}</dd></div>"


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading.

    Attributes:
        title: of the heading.
        parts: plots, and HTML.
        note: a sentence below the heading.
    """

    title: str
    parts: Sequence[Plot | str]
    note: str = ""

    def html(self) -> str:
        """Return the section; plots of one size that follow one another stand in rows."""
        body = [
            f'<div class="{kind}">{inner}</div>' if kind else inner
            for kind, parts in groupby(self.parts, _kind_of)
            for inner in ["".join(part.html() if isinstance(part, Plot) else part for part in parts)]
        ]
        note = f"<p class=note>{text(self.note)}</p>" if self.note else ""
        return f"<section><h2>{text(self.title)}</h2>{note}{''.join(body)}</section>"


def _kind_of(part: Plot | str) -> str:
    """Return the class of the row that a part stands in; empty for none."""
    if isinstance(part, str):
        return ""
    return "multiples" if part.small else "pairs-of-plots"


@dataclass
class Page:
    """The content of a page.

    Attributes:
        kind: of its subject: Log, Data set, Run, ...
        subject: its path.
        sentence: the answer to the reader's question, from numbers that stand below it.
        facts: four to six numbers.
        sections: plots and tables, in order.
        rows: conversations; None for a page without.
        how: what it was made from, in order: a name and its text, or HTML of a table.
        warnings: what should be known first.
        going_on: True while the run writes: the page loads itself again.
    """

    kind: str
    subject: str
    sentence: str
    facts: list[Fact] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    rows: PackedRows | None = None
    how: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    going_on: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the sentence, the facts and the numbers of every plot as JSON has them; rows are left out."""
        facts = [
            {"name": fact.name, "value": fact.value, "before": fact.before, "remark": fact.remark}
            for fact in self.facts
        ]
        plots = [
            {"section": section.title, "title": part.title, "columns": part.columns, "rows": list(part.rows)}
            for section in self.sections
            for part in section.parts
            if isinstance(part, Plot)
        ]
        shown = None if self.rows is None else {"total": self.rows.total, "shown": len(self.rows)}
        head = {"kind": self.kind, "subject": self.subject, "sentence": self.sentence, "facts": facts, "rows": shown}
        return head | {"plots": plots, "warnings": self.warnings}


def write_page(page: Page) -> Iterator[bytes]:
    """Yield the file of a page."""
    style, script = page_style(), page_script()
    slots = {
        "script_hash": _policy_hash(script),
        "style_hash": _policy_hash(style),
        "generator": GENERATOR,
        "refresh": f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if page.going_on else "",
        "title": text(f"{page.kind}: {page.subject}"),
        "kind": text(page.kind),
        "subject": text(page.subject),
        "sentence": text(page.sentence),
        "facts": "".join(fact.html() for fact in page.facts),
        "warnings": "".join(f"<li>{text(warning)}</li>" for warning in page.warnings),
        "sections": "".join(section.html() for section in page.sections),
        "rows": "" if page.rows is None else _template("rows.html"),
        "how": "".join(section.html() for section in page.how),
        "index": "" if page.rows is None else _json(page.rows.index()),
        "style": style,
        "script": script,
    }
    head, tail = _template("page.html").split("{{blocks}}")
    yield _fill(head, slots).encode()
    for place, block in enumerate(page.rows.blocks if page.rows else ()):
        yield b'<script type="text/plain" id="block-%d">%s</script>\n' % (place, block)
    yield _fill(tail, slots).encode()


def _fill(template: str, slots: dict[str, str]) -> str:
    """Replace the slots of a template in one pass: what is put into one is not searched for others."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: slots[found[1]], template)


@cache
def _template(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def page_style() -> str:
    """Return the style sheet of pages: that of plots, and their own."""
    return _plots.style() + _template("page.css")


def page_script() -> str:
    """Return the script of pages."""
    return _template("page.js")


def _policy_hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _json(value: Any) -> str:
    """Return JSON that may stand in an element of HTML: it ends no element and begins no comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def definitions(pairs: Sequence[tuple[str, object]]) -> str:
    """Return names and values as a list of definitions."""
    body = "".join(f"<div><dt>{text(name)}</dt><dd>{text(number(value))}</dd></div>" for name, value in pairs)
    return f'<dl class="pairs">{body}</dl>'


def folded(title: str, body: str) -> str:
    """Return a part that is shown when its title is pressed."""
    return f"<details><summary>{text(title)}</summary>{body}</details>"


__all__ = ["Fact", "Page", "Section", "definitions", "folded", "table", "write_page"]
