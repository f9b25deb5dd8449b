"""Reading a page back: its policy, its rows, the text of its elements."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_index(page: Path) -> dict[str, Any]:
    """The columns of the list of rows."""
    found = re.search(r'<script type="application/json" id="index">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    index: dict[str, Any] = json.loads(found[1])
    return index


def read_rows(page: Path) -> list[dict[str, Any]]:
    """What each row of the list opens."""
    packed = re.findall(r'<script type="text/plain" id="block-\d+">(.*?)</script>', page.read_text())
    blocks = [json.loads(zlib.decompress(base64.b64decode(block))) for block in packed]
    columns = read_index(page)["columns"]
    return [blocks[block][place] for block, place in zip(columns["block"], columns["place"], strict=True)]


def read_markup(page: Path) -> str:
    """The page without its rows, style and script."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)


def read_sentence(page: Path) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page.read_text())
    assert found
    return html.unescape(found[1])


def check_policy(page: Path) -> None:
    """The policy allows the page's own style and script alone, and nothing in it names another place."""
    text = page.read_text()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', text)[1])  # type: ignore[index]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for kind, element in (("script-src", "script"), ("style-src", "style")):
        content = re.search(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert content
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    markup = read_markup(page)
    assert not re.search(r"<(a|img|link|iframe|object|embed|form\s+action)\b", markup)
    assert not re.search(r"<[a-z][^>]*\s(src|href|style|on\w+)=", markup)
