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
        yield from members(name, thing)
    elif inspect.isroutine(thing):
        yield f"{name}{inspect.signature(thing)}"
    elif not inspect.isclass(thing):
        yield f"{name} = {thing!r}"
    else:
        yield from fields(name, thing) if dataclasses.is_dataclass(thing) else built(name, thing)
        yield from methods(name, thing)


def members(name: str, module: Any) -> Iterator[str]:
    """Each public name of a family; of another module, its own classes."""
    if name in karl_fast.FAMILIES:
        for inner in sorted(module.__all__):
            yield from described(f"{name}.{inner}", getattr(module, inner))
        return
    for inner, thing in sorted(vars(module).items()):
        if inspect.isclass(thing) and thing.__module__ == module.__name__:
            yield f"{name}.{inner}({', '.join(base.__name__ for base in thing.__bases__)})"


def fields(name: str, thing: Any) -> Iterator[str]:
    for field in dataclasses.fields(thing):
        default = field.default_factory if field.default is dataclasses.MISSING else field.default
        shown = "" if default is dataclasses.MISSING else f" = {'...' if callable(default) else repr(default)}"
        yield f"{name}.{field.name}: {field.type}{shown}"


def built(name: str, thing: type) -> Iterator[str]:
    """How a class of the extension is called; one that only functions make has no signature."""
    if thing.__module__ == _core.__name__ and thing.__new__ is not object.__new__:
        yield f"{name}{inspect.signature(thing)}"


def members_of(thing: type) -> dict[str, Any]:
    """The members of a class, with those of bases that are not public themselves."""
    hidden = [base for base in thing.__mro__[1:] if base.__name__ == "SampleFields"]
    return {name: value for one in (*hidden, thing) for name, value in vars(one).items()}


def methods(name: str, thing: type) -> Iterator[str]:
    for inner, value in sorted(members_of(thing).items()):
        if inner.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"{name}.{inner} -> {value.fget.__annotations__.get('return')}"
        elif inspect.isgetsetdescriptor(value):
            yield f"{name}.{inner}"
        elif inspect.isroutine(method := getattr(thing, inner)):
            yield f"{name}.{inner}{inspect.signature(method)}"


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
        assert inspect.ismodule(thing) == (name in {"errors", *karl_fast.FAMILIES}), name


def test_every_public_thing_has_a_docstring() -> None:
    for module in (karl_fast, _core):
        for name in dir(module):
            thing = getattr(module, name)
            if not name.startswith("_") and callable(thing):
                assert inspect.getdoc(thing), name


def test_function_and_package_of_one_name_differ() -> None:
    code = (
        "import karl_fast, karl_fast.sampling.draw, karl_fast.export.manifest\n"
        "import inspect; assert callable(karl_fast.sample), karl_fast.sample\n"
        "assert callable(karl_fast.export), karl_fast.export"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_stub_matches_the_extension_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "karl_fast._core"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
