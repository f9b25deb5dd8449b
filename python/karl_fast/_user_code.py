"""Functions of people's own files, by ``file.py:name``."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, describe_exception
from karl_fast._signals import Stopped
from karl_fast._suggest import ask_whether, nearest, suggest_path
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def working_folder() -> Path:
    """Return the folder of relative paths; without a name if it no longer exists."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def return_to(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return to a folder while relative paths are used, in case user code has changed the working directory."""
    return contextlib.nullcontext() if working_folder() == folder else contextlib.chdir(folder)


def load_function(place: str, folder: str | Path = ".") -> Callable[..., Any]:
    """Return the function that ``file.py:name`` names, with the file relative to a folder.

    A file is executed once for all its functions, and again if it has changed since.

    Raises:
        UsageError: the text has another form, the file cannot be read or executed, or it has no such function.
    """
    path, colon, name = place.rpartition(":")
    if not (colon and path.endswith(".py") and name.isidentifier()):
        raise UsageError(f"{place!r} names no function, wanted file.py:name")
    file = Path(folder, path)
    function: Callable[..., Any] | None = getattr(_load_module(file), name, None)
    if not callable(function):
        raise _missing_function_error(file, name)
    return function


def _missing_function_error(file: Path, name: str) -> UsageError:
    """Return the error for a file without the named function, with the functions it has."""
    held = vars(_load_module(file))
    whose = {key: getattr(what, "__module__", None) for key, what in held.items() if callable(what)}
    own = [key for key, home in whose.items() if home == held["__name__"]]
    return UsageError(
        f"{file} has no function {name}",
        hint=ask_whether(nearest(name, own)) or (f"it has {', '.join(own)}" if own else None),
    )


def _load_module(file: Path) -> ModuleType:
    try:
        source = file.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {file}", hint=suggest_path(file)) from error
    except OSError as error:
        raise UsageError(f"cannot open {file}: {error.strerror}") from error
    digest = hashlib.sha256(bytes(file.resolve()) + b"\0" + source).hexdigest()
    label = f"_karl_fast_{digest[:32]}"
    return sys.modules.get(label) or _run_module(label, file, source)


def _run_module(label: str, file: Path, source: bytes) -> ModuleType:
    module = ModuleType(label)
    module.__file__ = str(file)
    sys.modules[label] = module  # dataclasses and pickle look there
    try:
        # Not by the import system: its cache tells files apart by their second and size.
        exec(compile(source, file, "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[label]
        if isinstance(error, (KeyboardInterrupt, Stopped)):
            raise
        raise UsageError(f"{file} does not run: {describe_exception(error)}") from error
    return module


def describe_user_error(error: BaseException) -> str:
    """Return the exception of a caller's function in a line, with the line of its file."""
    return describe_exception(error) + _describe_line(error)


def _describe_line(error: BaseException) -> str:
    """Return the line in the function's file that raised the exception, or called the code that did."""
    import traceback

    own = str(Path(__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(own)]
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    return f" ({clean(Path(frames[0].filename).name)}, line {lines[-1]})" if lines else ""
