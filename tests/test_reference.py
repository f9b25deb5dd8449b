"""The reference of each kernel family is what its docstrings say now, and every public name has a whole docstring.

Run with KARL_FAST_UPDATE=1 to write the pages anew, or `python -m tests.reference`.
"""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import reference

if TYPE_CHECKING:
    from pathlib import Path

PAGES = {page.stem: page for page in reference.pages()}
NAMES = [(family, name) for family, page in PAGES.items() for name in reference.module_of(page).__all__]


@pytest.mark.parametrize("family", PAGES)
def test_a_page_holds_the_reference_as_the_docstrings_say_it(family: str) -> None:
    page = PAGES[family]
    if os.environ.get("KARL_FAST_UPDATE"):
        page.write_text(reference.filled(page), encoding="utf-8")
    assert page.read_text("utf-8") == reference.filled(page), "stale: python -m tests.reference"


def test_every_public_module_has_a_page_and_every_page_a_module() -> None:
    public = {name for name in karl_fast.__all__ if inspect.ismodule(getattr(karl_fast, name))}
    assert public - {"errors"} <= set(PAGES)
    assert all(reference.module_of(page).__doc__ for page in PAGES.values())


@pytest.mark.parametrize(("family", "name"), NAMES, ids=lambda part: part)
def test_every_public_name_says_all_there_is_to_say(family: str, name: str) -> None:
    thing = getattr(reference.module_of(PAGES[family]), name)
    assert lacking(thing) == []


def lacking(thing: Any) -> list[str]:
    """What a docstring does not say."""
    text = inspect.getdoc(thing) or ""
    missing = [] if re.match(r"\S", text) else ["a summary"]
    if inspect.isroutine(thing):
        names = [name for name in inspect.signature(thing).parameters if name != "self"]
        sections = [*(["Args"] if names else []), "Returns", "Raises", "Reference"]
        missing += [section for section in sections if not re.search(rf"^{section}s?:", text, re.MULTILINE)]
        return missing + [
            name for name in names if not re.search(rf"^ +[\w`*, ]*\b{name}\b[\w`*, ]*:", text, re.MULTILINE)
        ]
    names = [field.name for field in fields(thing)] if inspect.isclass(thing) and is_dataclass(thing) else []
    return missing + [name for name in names if not re.search(rf"\b{name}\b", text)]


def test_what_a_docstring_lacks_is_named() -> None:
    def whole(rewards: object, k: int) -> None:
        """Best of k.

        Args:
            rewards, k: both.

        Returns:
            Nothing.

        Raises:
            Nothing.

        Reference: none.
        """

    def part(rewards: object) -> None:
        """Best.

        Returns:
            Nothing.
        """

    assert lacking(whole) == []
    assert lacking(part) == ["Args", "Raises", "Reference", "rewards"]


DOCSTRING = """What ``x`` is.

```text
a: b
```

Args:
    a, b: one
        and more.

Returns:
    Two.

Reference: me."""

MARKDOWN = """What `x` is.

```text
a: b
```

**Args**

- `a`, `b`: one
  and more.

**Returns**

Two.

**Reference** me."""


def test_a_docstring_becomes_markdown() -> None:
    assert reference.markdown(DOCSTRING) == MARKDOWN


def test_a_stale_page_is_told_from_a_fresh_one(tmp_path: Path) -> None:
    stale = tmp_path / "diversity.md"
    stale.write_text(f"By hand.\n{reference.BEGIN}\nold\n{reference.END}\nBelow.\n", encoding="utf-8")
    fresh = reference.filled(stale)
    assert fresh.startswith(f"By hand.\n{reference.BEGIN}\n## Reference\n\n### `distinct_n(tokens, offsets, n=2)`\n\n")
    assert fresh.endswith(f"\n\n{reference.END}\nBelow.\n")
