"""Packages that an extra installs: the error where they are missing, and the command that installs them."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator


MLX = ("mlx", "mlx_lm")


def missing_extra(message: str, extra: str) -> MissingExtraError:
    """Return the error of a package that is not installed; its hint installs the extra."""
    return MissingExtraError(message, hint=installation(extra))


def missing_package(message: str, package: str) -> MissingExtraError:
    """Return the error of a package that no extra has; its hint installs it."""
    return MissingExtraError(message, hint=_install(package))


def require_mlx() -> None:
    """Raise where MLX or mlx-lm is not installed."""
    try:
        import_module("mlx.core")  # on Linux, mlx is there without its core where mlx[cpu] was not asked for
        is_there = util.find_spec("mlx_lm") is not None  # importing it takes seconds, which not every run needs
    except ImportError as error:
        raise missing_mlx() from error
    if not is_there:
        raise missing_mlx()


@contextmanager
def mlx_needed() -> Iterator[None]:
    """Raise the error of a missing extra in the place of that of Python, where an import needs MLX or mlx-lm."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in MLX:
            raise
        raise missing_mlx() from error


def missing_mlx() -> MissingExtraError:
    """Return the error of a process without MLX or mlx-lm."""
    return missing_extra("training needs mlx and mlx-lm, which are not installed", "train")


def installation(extra: str) -> str:
    """Return the command that installs an extra for this interpreter, from where karl-fast itself was installed."""
    source = _source()
    if source is not None:
        path, editable = source
        return _install(f"{path}[{extra}]", "-e" if editable else "")
    return f"in a checkout of karl-fast: {_install(f'.[{extra}]')}"


def _install(requirement: str, option: str = "") -> str:
    """Return a command for pip, or for uv, whose environments have no pip."""
    python = shlex.quote(sys.executable or "python3")
    pip = f"{python} -m pip install" if util.find_spec("pip") else f"uv pip install --python {python}"
    return " ".join(filter(None, (pip, option, shlex.quote(requirement))))


def _source() -> tuple[Path, bool] | None:
    """Return the checkout or the wheel that karl-fast was installed from, if it is on this machine (PEP 610).

    The second is True where the checkout itself is imported.
    """
    from importlib import metadata  # 14 ms, which only an error is to wait for
    from urllib.parse import unquote, urlsplit

    try:
        record = json.loads(metadata.distribution("karl-fast").read_text("direct_url.json") or "{}")
        url = urlsplit(record["url"])
    except (metadata.PackageNotFoundError, ValueError, KeyError):
        return None
    path = Path(unquote(url.path))
    if url.scheme != "file" or url.netloc not in ("", "localhost") or not path.exists():
        return None
    return path, bool(record.get("dir_info", {}).get("editable"))
