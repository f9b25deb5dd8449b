"""The line that `karl-fast --version` prints."""

from __future__ import annotations

import platform

from karl_fast._core import VERSION, build_facts


def line() -> str:
    """Return version, target, profile and compiler in one line."""
    built = build_facts()
    what = f"{built['target']}, {built['profile']}, rustc {built['rustc']}, {built['abi']}"
    return f"karl-fast {VERSION} ({what}, Python {platform.python_version()})"
