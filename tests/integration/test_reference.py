"""Every public module has a page with its reference, and every public name a complete docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import karl_fast
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import schema

SETTINGS = schema(Settings)
DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = re.compile(r"^::: karl_fast\.(\w+)$", re.MULTILINE)
FAMILIES = sorted(name for page in DOCS.rglob("*.md") for name in REFERENCE.findall(page.read_text("utf-8")))
NAMES = [(family, name) for family in FAMILIES for name in importlib.import_module(f"karl_fast.{family}").__all__]


def test_every_public_module_has_one_page() -> None:
    public = {name for name in karl_fast.__all__ if inspect.ismodule(getattr(karl_fast, name))}
    assert sorted(public - {"errors"}) == FAMILIES
    assert all(importlib.import_module(f"karl_fast.{family}").__doc__ for family in FAMILIES)


@pytest.mark.parametrize(("family", "name"), NAMES, ids=lambda part: part)
def test_every_public_name_is_documented(family: str, name: str) -> None:
    thing = getattr(importlib.import_module(f"karl_fast.{family}"), name)
    assert lacking(thing) == []


def lacking(thing: Any) -> list[str]:
    """What a docstring does not say."""
    text = inspect.getdoc(thing) or ""
    missing = [] if re.match(r"\S", text) else ["a summary"]
    if inspect.isroutine(thing):
        known = set(SETTINGS) if "``choices`` change single ones" in text else set()  # the page of settings has them
        names = [name for name in inspect.signature(thing).parameters if name not in {"self", *known}]
        sections = [*(["Args"] if names else []), "Returns", "Raises"]
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
        """

    def part(rewards: object) -> None:
        """Best.

        Returns:
            Nothing.
        """

    assert lacking(whole) == []
    assert lacking(part) == ["Args", "Raises", "rewards"]
