"""Secrets made from their formats, in the surroundings in which logs carry them."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.properties.secret_formats import FORMATS, NAMED, secret

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

__all__ = ["ASSIGNED", "BARE", "FORMATS", "NAMED", "assigned", "bare", "is_held_out", "is_kept", "secret"]


def _nested(text: str, levels: int) -> str:
    for _ in range(levels):
        text = json.dumps({"cmd": text, "n": 1})
    return text


BARE: dict[str, Callable[[str], str]] = {
    "sentence": lambda s: f"the key is {s}, keep it",
    "alone": lambda s: s,
    "word before": lambda s: f"x_{s}",
    "quoted": lambda s: f'client = Client("{s}")',
    "single": lambda s: f"use('{s}');",
    "env": lambda s: f"export KEY={s}\nnext",
    "env quoted": lambda s: f"export MY_KEY='{s}'",
    "yaml": lambda s: f"app:\n  key: {s}\n  next: 1",
    "toml": lambda s: f'key = "{s}"',
    "dockerfile": lambda s: f"ENV KEY {s}",
    "diff": lambda s: f"-old\n+{s}\n",
    "diff env": lambda s: f"@@ -1 +1 @@\n+KEY={s}",
    "numbered": lambda s: f"    12\u2192KEY={s}\n    13\u2192",
    "numbered tab": lambda s: f"12:\t{s}",
    "colour": lambda s: f"\x1b[32m{s}\x1b[0m",
    "grep": lambda s: f"a:\x1b[01;31m\x1b[K{s}\x1b[m\x1b[K",
    "json": lambda s: json.dumps({"a": s}),
    "json 2": lambda s: _nested(f"run {s} now", 2),
    "json 3": lambda s: _nested(f"line\n{s}\nend", 3),
    "escaped": lambda s: 'out: {\\"k\\": \\"' + s + '\\"}',
    "newline escape": lambda s: f"a\\n{s}\\nb",
    "unicode": lambda s: f"key\\u003d{s}",
    "query": lambda s: f"https://api.example.com/v1?key={s}&x=1",
    "url": lambda s: "q%3D" + quote(s, safe="") + "%26x",
    "header": lambda s: f"curl -H 'X-Key: {s}' https://x",
    "xml": lambda s: f"<key>{s}</key>",
    "html": lambda s: f"key=&quot;{s}&quot;",
    "comma": lambda s: f"a,{s},b",
    "markdown": lambda s: f"`{s}`",
    "grep -n": lambda s: f"src/.env:12:KEY={s}\nsrc/.env-13-A=1",
    "timed": lambda s: f"2026-11-24T01:02:03.456Z INFO app using {s} for it",
    "syslog": lambda s: f"Nov 24 01:02:03 host app[812]: key={s}; next",
    "logfmt": lambda s: f'level=info key={s} msg="started"',
    "container": lambda s: json.dumps({"log": f"key {s}\n", "stream": "stdout"}) + "\n" + json.dumps({"log": "x\n"}),
    "diff quoted": lambda s: f'-  key: "old",\n+  key: "{s}",\n',
    "url twice": lambda s: "q%253D" + quote(quote(s, safe=""), safe="") + "%2526x",
    "mail": lambda s: f"key=3D{s}",
    "bytes": lambda s: f"key\\x3d{s}",
    "argv": lambda s: json.dumps(["tool", "--key", s, "go"]),
    "form": lambda s: f"curl -d 'a=1&key={s}&b=2' https://x",
    "csv": lambda s: f'name,key\n"bob","{s}"\n',
    "table": lambda s: f"| bob | {s} | 1 |",
}
"""Surroundings of what is found by its form."""

ASSIGNED: dict[str, Callable[[str, str], str]] = {
    "env": lambda n, s: f"{n}={s}",
    "export": lambda n, s: f"export {n}='{s}'\n",
    "env file": lambda n, s: f"A=1\n{n}={s}\nB=2",
    "spaces": lambda n, s: f'{n} = "{s}"',
    "lower": lambda n, s: f'{n.lower()} = "{s}"',
    "json": lambda n, s: json.dumps({n.lower(): s}),
    "json 2": lambda n, s: _nested(json.dumps({n: s}), 1),
    "json 3": lambda n, s: _nested(json.dumps({n: s}), 2),
    "inside": lambda n, s: _nested(f"export {n}={s} && run", 2),
    "escaped": lambda n, s: 'said {\\"' + n + '\\": \\"' + s + '\\"}',
    "yaml": lambda n, s: f"env:\n  {n}: {s}\n",
    "k8s": lambda n, s: f'- name: {n}\n  value: "{s}"\n',
    "docker": lambda n, s: f"docker run -e {n}={s} image",
    "dockerfile": lambda n, s: f"ENV {n} {s}",
    "diff": lambda n, s: f"-{n}=\n+{n}={s}\n",
    "numbered": lambda n, s: f"   12\u2192{n}={s}\n",
    "option": lambda n, s: f"tool --{n.lower().replace('_', '-')} {s} go",
    "option =": lambda n, s: f"tool --{n.lower().replace('_', '-')}={s}",
    "python": lambda n, s: f'os.environ["{n}"] = "{s}"',
    "dict": lambda n, s: f"config = {{'{n.lower()}': '{s}', 'x': 1}}",
    "call": lambda n, s: f'connect({n.lower()}="{s}")',
    "url": lambda n, s: f"{n}%3D{quote(s, safe='')}%26x",
    "unicode": lambda n, s: f"{n}\\u003d{s}",
    "colour": lambda n, s: f"\x1b[36m{n}\x1b[0m=\x1b[32m{s}\x1b[0m",
    "typed": lambda n, s: f'{n.lower()}: str = "{s}"',
    "xml": lambda n, s: f"<{n.lower()}>{s}</{n.lower()}>",
    "grep -n": lambda n, s: f"src/.env:12:{n}={s}\nsrc/.env-13-A=1",
    "timed": lambda n, s: f"2026-11-24T01:02:03.456Z INFO env {n}={s} set",
    "container": lambda n, s: json.dumps({"log": f"{n}={s}\n", "stream": "stdout"}) + "\n" + json.dumps({"log": "x\n"}),
    "url twice": lambda n, s: f"{n}%253D{quote(quote(s, safe=''), safe='')}%2526x",
    "mail": lambda n, s: f"{n}=3D{s}",
    "form": lambda n, s: f"curl -d 'a=1&{n.lower()}={s}&b=2' https://x",
    "compose": lambda n, s: f"    environment:\n      - {n}={s}\n      - B=2\n",
    "properties": lambda n, s: f"app.{n.lower().replace('_', '.')}={s}\nb=2",
    "argv": lambda n, s: json.dumps(["tool", f"--{n.lower().replace('_', '-')}", s, "go"]),
    "shell": lambda n, s: f"{n}={s} ./run && echo done",
}
"""Surroundings of what is found by its name."""


def bare(draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield family, surroundings, secret and text of every pair, with a new secret for each."""
    for family, form in FORMATS.items():
        for place, around in BARE.items():
            one = secret(form, draw)
            yield family, place, one, around(one)


def assigned(draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same for secrets by name."""
    for name, form in NAMED.items():
        for place, around in ASSIGNED.items():
            one = secret(form, draw)
            yield name, place, one, around(name, one)


def is_kept(secret: str, clean: str) -> bool:
    """Tell whether the part of a secret that matters is still there, however it is encoded."""
    core = secret[8:] if len(secret) < 30 else secret[12:-6]
    once = quote(core, safe="")
    return any(form in clean for form in (core, once, quote(once, safe="")))


def is_held_out(family: str, place: str) -> bool:
    """Tell whether a family in a place belongs to the half on which no pattern is adjusted."""
    return zlib.crc32(f"{family}|{place}".encode()) % 2 == 1
