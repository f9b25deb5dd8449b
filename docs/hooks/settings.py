"""mkdocs hook: tables of settings in place of the markers of `docs/reference/settings.md`."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from karl_fast.settings.reference import page

CLASSES = {
    "sample": "karl_fast.settings.sample:Settings",
    "train": "karl_fast.train.settings:Training",
    "rl": "karl_fast.rl.settings:Online",
    "pretrain": "karl_fast.diffusion.settings:Pretraining",
}
"""Settings of each command."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each marker by the tables of a command."""
    return re.sub(r"<!-- settings of (\w+) -->", lambda found: page(_class(found[1])), markdown)


def _class(command: str) -> type:
    module, _, name = CLASSES[command].partition(":")
    found: type = getattr(import_module(module), name)
    return found
