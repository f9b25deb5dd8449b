"""Public names and signatures, held against a committed list: a change of the API is seen in review.

Run with KARL_FAST_UPDATE=1 to write the list anew.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import karl_fast
from karl_fast import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SURFACE = HERE / "surface.txt"


def described(name: str, thing: Any) -> Iterator[str]:
    if inspect.ismodule(thing):
        for inner in sorted(vars(thing)):
            if inspect.isclass(getattr(thing, inner)) and getattr(thing, inner).__module__ == thing.__name__:
                bases = ", ".join(base.__name__ for base in getattr(thing, inner).__bases__)
                yield f"{name}.{inner}({bases})"
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            default = field.default_factory if field.default is dataclasses.MISSING else field.default
            shown = "" if default is dataclasses.MISSING else f" = {'...' if callable(default) else repr(default)}"
            yield f"{name}.{field.name}: {field.type}{shown}"
        yield from methods(name, thing)
    elif inspect.isclass(thing):
        yield from methods(name, thing)
    else:
        yield f"{name}{inspect.signature(thing)}"


def methods(name: str, thing: type) -> Iterator[str]:
    for inner, value in sorted(vars(thing).items()):
        if inner.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"{name}.{inner} -> {value.fget.__annotations__.get('return')}"
        elif inspect.isfunction(value):
            yield f"{name}.{inner}{inspect.signature(value)}"


def test_public_names_and_signatures_equal_the_committed_list() -> None:
    lines = [line for name in karl_fast.__all__ for line in described(name, getattr(karl_fast, name))]
    found = "\n".join(lines) + "\n"
    if os.environ.get("KARL_FAST_UPDATE"):
        SURFACE.write_text(found, encoding="utf-8")
    assert found == SURFACE.read_text("utf-8")


def test_every_public_name_is_what_its_name_says() -> None:
    """A package and a function share a name here and there: the function has to win."""
    assert karl_fast.__all__ == sorted(karl_fast.__all__)
    for name in karl_fast.__all__:
        thing = getattr(karl_fast, name)
        assert inspect.ismodule(thing) == (name == "errors"), name


def test_every_public_thing_has_a_docstring() -> None:
    for module in (karl_fast, _core):
        for name in dir(module):
            thing = getattr(module, name)
            if not name.startswith("_") and callable(thing):
                assert inspect.getdoc(thing), name


def test_a_function_may_be_told_from_the_package_of_its_name_in_any_order_of_imports() -> None:
    code = (
        "import karl_fast, karl_fast.sample.draw, karl_fast.export.manifest\n"
        "import inspect; assert callable(karl_fast.sample), karl_fast.sample\n"
        "assert callable(karl_fast.export), karl_fast.export"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_stub_tells_the_truth_about_the_extension_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "karl_fast._core"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
