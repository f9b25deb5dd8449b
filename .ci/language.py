#!/usr/bin/env python3
"""Check of the language: openings of docstrings with What, That, Whether, How or Who, and odd words.

Odd words are counted in docstrings, in texts of the Python package (messages and help), and in the documents.
Usage: ``.ci/language.py [-v]``. Fails above one in a hundred openings, or above four odd words in a thousand.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPENING = re.compile(r"(What|That|Whether|How|Who)\b")
ODD = re.compile(r"\b(told|said|whose|nobody|somebody|stands)\b", re.IGNORECASE)
OPENINGS, ODD_WORDS = 0.01, 4.0

Reader = Callable[[Path], Iterator[tuple[int, str]]]


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


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string of a line with more than one word: messages, help and their parts."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in text.strip() and "\n" not in text:
            yield node.lineno, text


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each paragraph outside of code blocks."""
    text = re.sub(r"^```.*?^```", lambda code: re.sub(r".", "", code[0]), path.read_text("utf-8"), flags=re.M | re.S)
    yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def texts(kinds: dict[str, Reader], *folders: str) -> list[tuple[str, int, str]]:
    """Return file, line and text of all that the readers of the tracked files yield."""
    tracked = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in tracked.stdout.split() if Path(name).suffix in kinds and (ROOT / name).exists()]
    return [(name, line, text.strip()) for name in files for line, text in kinds[Path(name).suffix](ROOT / name)]


def main() -> int:
    """Print the counts, with -v each place; return 1 where one is too high."""
    docstrings = texts({".py": python, ".rs": rust}, "python", "rust")
    openings = [(name, line, text.split("\n")[0]) for name, line, text in docstrings if OPENING.match(text)]
    share = len(openings) / len(docstrings)
    print(f"docstrings: {len(docstrings)}, {len(openings)} open with What, ... ({100 * share:.1f} %)")
    documents = texts({".md": prose}, "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    kinds = {"docstrings": docstrings, "messages": texts({".py": messages}, "python"), "documents": documents}
    rates = [_odd(kind, found) for kind, found in kinds.items()]
    if "-v" in sys.argv:
        print(*(f"{name}:{line}: {text}" for name, line, text in openings), sep="\n")
    return int(share >= OPENINGS or max(rates) >= ODD_WORDS)


def _odd(kind: str, found: list[tuple[str, int, str]]) -> float:
    """Print and return the odd words in 1,000 of a kind of texts; with -v each place."""
    words = sum(len(text.split()) for _, _, text in found)
    odd = [(name, line, hit[0]) for name, line, text in found for hit in ODD.finditer(text)]
    rate = 1000 * len(odd) / words
    print(f"{kind}: {len(odd)} odd words in {words:,} ({rate:.1f} per 1,000)")
    if "-v" in sys.argv:
        print(*(f"{name}:{line}: {text}" for name, line, text in odd), sep="\n")
    return rate


if __name__ == "__main__":
    sys.exit(main())
