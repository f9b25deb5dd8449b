"""Words of a text that say whose machine it was written on, and what stands for them.

```text
/Users/jane/x, /home/jane/x   ~/x          what any home is called, whoever's it is
/Volumes/Jane's disk/x        <volume>/x
the folder for temporary files <tmp>        on a Mac it has a part that is of one user
jane, janes-mac               <user>, <host>
secrets                        as in data sets: `karl_fast._safe_text.clean`
```
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from karl_fast._safe_text import clean

HOMES = re.compile(r"/(?:Users|home)/[^/\s\"':,;)]+")
VOLUMES = re.compile(r"/Volumes/[^/\n\"':]+")

SHARED_NAMES = {"root", "runner", "user", "admin", "localhost", "local", "python", "mlx"}
"""Names that say nothing of a person, or that would be replaced where they are words."""

SHORTEST_NAME = 3
"""Letters of a name below which it is replaced in paths only: it would be part of other words."""


class PrivateWords:
    """The private words of this machine.

    Attributes:
        model: name of the model for a report: the last part of a folder, or a name on the hub; None without one.
    """

    def __init__(self, model: str | None = None) -> None:
        """Find them, with the folder of a model."""
        folders = [(tempfile.gettempdir(), "<tmp>"), (sys.prefix, "<python>"), (sys.base_prefix, "<python>")]
        folders += [(str(Path.cwd()), "<folder>"), (str(Path(__file__).parents[2]), "<packages>")]
        folders += [(home, "~") for home in _homes()]
        self.model = model and self._names_replaced(model)
        if model is not None and (Path(model).exists() or model.startswith((".", "/", "~"))):
            folders += [(str(Path(model).expanduser()), "<model>")]
            self.model = self._names_replaced(Path(model).expanduser().absolute().name)
        pairs = {(place, sign) for folder, sign in folders for place in (folder, os.path.realpath(folder))}
        # Longer ones first: a virtual environment lies in a home.
        self._folders = sorted((pair for pair in pairs if len(pair[0]) > 1), key=lambda pair: -len(pair[0]))

    def replace(self, text: str) -> str:
        """Return a text without them, and without secrets."""
        for folder, sign in self._folders:
            text = text.replace(folder, sign)
        text = VOLUMES.sub("<volume>", HOMES.sub("~", text))
        return "\n".join(clean(self._names_replaced(line)) for line in text.splitlines())

    @staticmethod
    def _names_replaced(text: str) -> str:
        for names, sign in ((_hosts(), "<host>"), (_users(), "<user>")):
            for name in sorted(names, key=len, reverse=True):
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", sign, text, flags=re.IGNORECASE)
        return text


def _homes() -> set[str]:
    """Return the home folders of the user, by the environment and by the system."""
    homes = {os.environ.get("HOME", ""), str(Path("~").expanduser()), *(entry.pw_dir for entry in _entries())}
    return {home.rstrip("/") for home in homes if home.startswith("/")}


def _entries() -> list[Any]:
    """Return the entry of the user in the system's list; none where it has none, as in a container."""
    import pwd

    try:
        return [pwd.getpwuid(os.getuid())]
    except KeyError:
        return []


def _users() -> set[str]:
    names = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    names |= {Path(home).name for home in _homes()} | {part for entry in _entries() for part in _names_of(entry)}
    try:
        names.add(getpass.getuser())
    except (OSError, KeyError):
        names.add("")
    return _kept(names)


def _names_of(entry: Any) -> list[str]:
    """Return the short name of a user, and the full one."""
    return [entry.pw_name, entry.pw_gecos.split(",")[0]]


def _hosts() -> set[str]:
    names = {socket.gethostname(), platform.node()}
    return _kept(names | {name.partition(".")[0] for name in names})


def _kept(names: set[str]) -> set[str]:
    return {name for name in names if len(name) >= SHORTEST_NAME and name.lower() not in SHARED_NAMES}
