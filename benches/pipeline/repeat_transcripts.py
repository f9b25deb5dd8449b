"""Transcripts of Claude Code repeated with fresh ids, so that every copy is a session of its own.

    python benches/pipeline/repeat_transcripts.py FOLDER OUT [MEGABYTES]

Only the ids of sessions and lines change; lengths, and so the work of reading, stay what they were.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

UUID = re.compile(rb"\b[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)")


def renamed(text: bytes, copy: int) -> bytes:
    """The same text with other uuids."""
    return UUID.sub(lambda found: b"%08x" % ((int(found[0], 16) + copy * 0x9E3779B1) % 2**32), text)


def main(folder: str, out: str, megabytes: float = 700) -> None:
    """Write copies of every `.jsonl` of a folder until there is enough."""
    texts = {path.relative_to(folder): path.read_bytes() for path in sorted(Path(folder).rglob("*.jsonl"))}
    written = copy = 0
    while written < megabytes * 1e6:
        for path, text in texts.items():
            target = Path(out, str(copy), path)
            target.parent.mkdir(parents=True, exist_ok=True)
            written += target.write_bytes(renamed(text, copy))
        copy += 1
    print(f"{written / 1e6:,.0f} MB in {copy} copies")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(float, sys.argv[3:]))
