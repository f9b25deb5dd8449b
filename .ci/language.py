#!/usr/bin/env python3
"""Check of the language of docstrings: openings with What, That, Whether, How or Who, and odd words.

Usage: ``.ci/language.py [-v]``. Fails above one in a hundred openings, or above four odd words in a thousand.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPENING = re.compile(r"(What|That|Whether|How|Who)\b")
ODD = re.compile(r"\b(told|said|whose|nobody|somebody|stands)\b", re.IGNORECASE)
OPENINGS, ODD_WORDS = 0.01, 4.0


def python(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, those of constants included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        for one in getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.lineno, one.value.value


def rust(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each block of doc comments."""
    block: list[str] = []
    for number, line in enumerate([*path.read_text("utf-8").splitlines(), ""], 1):
        if found := re.match(r"\s*//[/!] ?(.*)", line):
            block.append(found[1])
        elif block:
            yield number - len(block), "\n".join(block)
            block = []


def docstrings() -> Iterator[tuple[str, int, str]]:
    """Yield file, line and text of every docstring of the packages."""
    tracked = subprocess.run(
        ["git", "ls-files", "python", "rust"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in tracked.stdout.split():
        kind = {".py": python, ".rs": rust}.get(Path(name).suffix)
        if kind is not None and (ROOT / name).exists():
            yield from ((name, line, text.strip()) for line, text in kind(ROOT / name))


def main() -> int:
    """Print the counts, with -v each place; return 1 where one is too high."""
    found = list(docstrings())
    openings = [(name, line, text.split("\n")[0]) for name, line, text in found if OPENING.match(text)]
    words = sum(len(text.split()) for _, _, text in found)
    odd = [(name, line, hit[0]) for name, line, text in found for hit in ODD.finditer(text)]
    if "-v" in sys.argv:
        print(*(f"{name}:{line}: {text}" for name, line, text in [*openings, *odd]), sep="\n")
    share, rate = len(openings) / len(found), 1000 * len(odd) / words
    print(f"docstrings: {len(found)}, {len(openings)} open with What, That, Whether, How or Who ({100 * share:.1f} %)")
    print(f"odd words: {len(odd)} in {words:,} words ({rate:.1f} per 1,000)")
    return int(share >= OPENINGS or rate >= ODD_WORDS)


if __name__ == "__main__":
    sys.exit(main())
