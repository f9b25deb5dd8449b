"""The page on advantages: its example runs, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "kernels" / "advantage.md"


def test_the_example_prints_what_its_comments_say() -> None:
    source = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(PAGE), "exec"), {})
    said = re.findall(r"^print\(.*\)  # (.*)$", source, re.MULTILINE)
    assert printed.getvalue().splitlines() == said
