"""The reference of the kernel families, from their docstrings: `python -m tests.reference` writes it.

Each page of docs is named after its module. What stands between the two marks is made here, of every
name in the module's `__all__`, in that order; the rest of a page is written by hand.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FOLDER = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- reference:begin -->", "<!-- reference:end -->"
BETWEEN = re.compile(f"(?<={BEGIN}\n).*?(?={END})", re.DOTALL)
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Example|Examples|References?):$")
SOURCE = re.compile(r"References?: ")
ITEM = re.compile(r"    (`?[\w*]+`?(?:, `?[\w*]+`?)*): ")
"""The names at the head of an item; some lints want those of Rust docstrings in backticks."""


def pages() -> list[Path]:
    return [page for page in sorted(FOLDER.rglob("*.md")) if BEGIN in page.read_text("utf-8")]


def module_of(page: Path) -> ModuleType:
    return importlib.import_module(f"karl_fast.{page.stem}")


def filled(page: Path) -> str:
    """The page as it has to be."""
    return BETWEEN.sub(lambda _: reference(module_of(page)), page.read_text("utf-8"))


def reference(module: ModuleType) -> str:
    parts = ["## Reference", *(part for name in module.__all__ for part in described(name, getattr(module, name)))]
    return "\n\n".join(parts) + "\n\n"


def described(name: str, thing: Any, level: int = 3) -> Iterator[str]:
    """A heading, the docstring, and the same of each public method."""
    if not inspect.isroutine(thing) and not inspect.isclass(thing):
        yield f"{'#' * level} `{name} = {thing!r}`"
        return
    yield f"{'#' * level} `{name}{signature(thing)}`"
    yield markdown(inspect.getdoc(thing) or "")
    for inner, method in methods(thing):
        yield from described(f"{name}.{inner}", method, level + 1)


def methods(thing: Any) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of its own defines."""
    if not inspect.isclass(thing):
        return
    for inner, value in vars(thing).items():
        if not inner.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            yield inner, value.fget if isinstance(value, property) else getattr(thing, inner)


def signature(thing: Any) -> str:
    """Names and defaults; what they are is said below."""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return ""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name != "self"
    ]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def markdown(text: str) -> str:
    """A docstring as Markdown: sections become bold words, their items lists, and code is marked once."""
    section, lines = "", []
    for block, line in fenced(text):
        if block:
            lines.append(line.removeprefix("    ") if section else line)
        elif found := SECTION.match(line):
            section = found[1]
            lines += [f"**{section}**", ""]
        else:
            section = section if line.startswith(" ") or not line else ""
            lines.append(marked(line, section))
    return "\n".join(lines).strip()


def fenced(text: str) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it belongs to a block of code."""
    inside = False
    for line in text.splitlines():
        fence = line.strip().startswith("```")
        yield inside or fence, line
        inside ^= fence


def marked(line: str, section: str) -> str:
    line = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", line.replace("``", "`"))
    if section in ("Args", "Attributes", "Raises"):
        item = ITEM.sub(named, line)
        # What goes on below an item stands under its text.
        return item if item != line else line[6:] if line.startswith(" " * 8) else line.removeprefix("    ")
    if section:
        return line.removeprefix("    ")
    return SOURCE.sub(lambda found: f"**{found[0].strip().removesuffix(':')}** ", line, count=1)


def named(found: re.Match[str]) -> str:
    return f"- {', '.join(f'`{name}`' for name in found[1].replace('`', '').split(', '))}: "


def write() -> None:
    for page in pages():
        page.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    write()
