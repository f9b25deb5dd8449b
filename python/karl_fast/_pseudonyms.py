"""File with the key of pseudonyms, and the names of users and hosts that are replaced wherever they are.

```text
key 5f0c9a1e...      32 hexadecimal digits
user alice           a line each; more may be added by hand
host laptop
```
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from karl_fast.errors import FileError, UsageError

Names = tuple[bytes, list[str], list[str]]
"""The key, users, and hosts."""

KEY_BYTES = 16


def read_key(path: str | Path | None) -> Names | None:
    """Return the key and the names of a file, which is made if it is missing; None without a path.

    Raises:
        FileError: it cannot be read or made.
        UsageError: it has another form.
    """
    if path is None:
        return None
    file = Path(path)
    if not str(path):
        raise UsageError("pseudonyms is empty, wanted the name of a file for their key", "pseudonyms")
    try:
        if not os.path.lexists(file):
            _make_key(file)
        return _parse_key(file, file.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"cannot use {file} for pseudonyms: {error.strerror}", error.errno, str(file)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not a key of pseudonyms: it is not UTF-8", "pseudonyms") from error


def _make_key(file: Path) -> None:
    """Write a new key, and the names of this machine, for its owner alone."""
    import secrets  # 5 ms, and most runs have a key or none

    lines = [f"key {secrets.token_hex(KEY_BYTES)}", *_own_names()]
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write("".join(f"{line}\n" for line in lines))
    try:
        os.link(draft, file)  # of two that begin at once, one key stays
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _own_names() -> list[str]:
    """Return lines for the user and the host of this machine."""
    import getpass
    import socket

    try:
        user = [f"user {getpass.getuser()}"]
    except (KeyError, OSError):  # a user without an entry
        user = []
    host = socket.gethostname().partition(".")[0]
    return user + ([f"host {host}"] if host else [])


def _parse_key(file: Path, text: str) -> Names:
    key, names = b"", dict[str, list[str]](user=[], host=[])
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, name = line.strip().partition(" ")
        if kind == "key" and re.fullmatch(rf"[0-9a-f]{{{2 * KEY_BYTES}}}", name):
            key = bytes.fromhex(name)
        elif kind in names and name:
            names[kind].append(name)
        elif line.strip():
            raise UsageError(
                f"{file}, line {number}: wanted `key` with {2 * KEY_BYTES} hexadecimal digits, or `user` or `host` and "
                "a name",
                "pseudonyms",
            )
    if not key:
        raise UsageError(f"{file} has no key of pseudonyms", "pseudonyms")
    return key, names["user"], names["host"]
