"""Files that do not hold lines of JSON, by their names and first bytes, with the command that makes a log of them."""

from __future__ import annotations

import csv
import re
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from karl_fast.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = 4096
"""Bytes of a file that are looked at."""

PACKED = (".gz", ".zst", ".zstd")


class Kind(NamedTuple):
    """A kind of file that is not read.

    Attributes:
        what: what it is.
        fix: hint, with the path in place of `{}`.
    """

    what: str
    fix: str


PYTHON = "python -c 'import sys; "

CSV = Kind(
    "a CSV file",
    f"with the extra arrow, {PYTHON}from pyarrow import csv, parquet; "
    "parquet.write_table(csv.read_csv(sys.argv[1]), sys.argv[2])' {} log.parquet makes a table that is read",
)
TSV = Kind(
    "a TSV file",
    f"with the extra arrow, {PYTHON}from pyarrow import csv, parquet; "
    'parquet.write_table(csv.read_csv(sys.argv[1], parse_options=csv.ParseOptions(delimiter="\\t")), sys.argv[2])\' '
    "{} log.parquet makes a table that is read",
)
YAML = Kind(
    "YAML",
    f"with PyYAML, {PYTHON}import json, yaml; "
    "json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout, default=str)' {} > log.json makes JSON of it",
)
SQLITE = Kind(
    "a database of SQLite",
    "sqlite3 {} .tables lists its tables, and sqlite3 -json {} 'select * from TABLE' > log.json writes one of them",
)
OPENCODE = Kind(
    "a database of opencode",
    "karl-fast collect --from {} --archive archive copies its sessions, and karl-fast convert archive reads them",
)
CURSOR = Kind(
    "a database of Cursor, whose form is private to it",
    "Cursor keeps the same chats as lines: karl-fast convert ~/.cursor/projects; a run of its command line is read "
    "from what cursor-agent --print --output-format stream-json prints",
)
MARKDOWN = Kind(
    "a chat exported to Markdown, as Cursor writes, without the results of its calls",
    "of Cursor, karl-fast convert ~/.cursor/projects reads the same chat from its transcript",
)
TORCH = Kind(
    "a file of torch.save, as slime's --save-debug-rollout-data writes",
    f"{PYTHON}import json, torch; "
    '[print(json.dumps(one)) for one in torch.load(sys.argv[1], weights_only=True)["samples"]]\' {} > log.jsonl '
    "writes its samples as lines of JSON",
)
POINTER = Kind("a pointer of Git LFS in place of the file", "git lfs pull fetches the file")
EVENTS = Kind(
    "a stream of server-sent events, each with a part of an answer",
    "join what the events say into one record a conversation, with messages",
)
ARROW = Kind(
    "a file of Arrow",
    f"with the extra arrow, {PYTHON}from pyarrow import ipc, parquet; "
    "parquet.write_table(ipc.open_stream(sys.argv[1]).read_all(), sys.argv[2])' {} log.parquet makes a table that "
    "is read",
)
SAVED = Kind(
    "a data set that datasets saved to disk",
    f"{PYTHON}from datasets import load_from_disk; "
    'load_from_disk(sys.argv[1]).to_json("log.jsonl")\' {} writes its rows as lines of JSON',
)
SAVED_SPLITS = Kind(
    "a folder of data sets that datasets saved to disk, one a split",
    f"{PYTHON}from datasets import load_from_disk; "
    '[rows.to_json(f"{name}.jsonl") for name, rows in load_from_disk(sys.argv[1]).items()]\' {} writes a file a split',
)

MAGIC = {
    b"SQLite format 3\0": SQLITE,
    b"version https://git-lfs.github.com/spec/": POINTER,
    b"ARROW1": ARROW,
    b"\xff\xff\xff\xff": ARROW,
}
"""First bytes of each kind; the last are those of a stream of Arrow."""

BY_SUFFIX = {".csv": CSV, ".tsv": TSV, ".yaml": YAML, ".yml": YAML, ".arrow": ARROW}
"""Kinds by the ends of names, of files that do not begin as JSON."""


def foreign_kind(path: str, name: str) -> Kind | None:
    """Return the kind of a file that holds no records, None of any other; ``name`` is that which the user gave."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD)
    except OSError:  # which reading reports
        return None
    magic = _product_kind(head, name) or next((kind for begin, kind in MAGIC.items() if head.startswith(begin)), None)
    if magic or _is_json(head):
        return magic
    plain = next((name.removesuffix(end) for end in PACKED if name.endswith(end)), name)
    by_name = next((kind for end, kind in BY_SUFFIX.items() if plain.lower().endswith(end)), None)
    return by_name or next((kind for fits, kind in BY_LOOK if fits(head)), None)


def foreign_error(kind: Kind, name: str) -> LogError:
    """Return the error for a file of a kind that is not read."""
    return LogError(
        f"{name}: it is {kind.what}, wanted lines of JSON", hint=kind.fix.replace(" {}", f" {shlex.quote(name)}")
    )


def saved_data_set(folder: str) -> Kind | None:
    """Return the kind of a folder that ``save_to_disk`` of datasets wrote; None of any other."""
    has = {name for name in ("dataset_dict.json", "dataset_info.json", "state.json") if Path(folder, name).is_file()}
    if "dataset_dict.json" in has:
        return SAVED_SPLITS
    return SAVED if len(has) == 2 and next(Path(folder).glob("*.arrow"), None) else None


PRODUCTS: tuple[tuple[bytes, str, Kind], ...] = (
    (b"SQLite format 3\0", r"opencode.*\.db", OPENCODE),
    (b"SQLite format 3\0", r"state\.vscdb|store\.db", CURSOR),
    (b"PK\x03\x04", r".*\.pth?", TORCH),
)
"""Files of known products: first bytes, name, and kind."""


def _product_kind(head: bytes, name: str) -> Kind | None:
    """Return the kind of a file that a known product wrote."""
    last = name.rsplit("/", 1)[-1]
    return next((kind for begin, form, kind in PRODUCTS if head.startswith(begin) and re.fullmatch(form, last)), None)


def _is_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _looks_like_events(head: bytes) -> bool:
    """Return whether lines are those of server-sent events."""
    lines = [line for line in head.splitlines() if line.strip()]
    fields = (b"data:", b"event:", b"id:", b"retry:", b":")
    return bool(lines) and lines[0].startswith(fields[:2]) and all(line.startswith(fields) for line in lines[:3])


def _looks_like_yaml(head: bytes) -> bool:
    return bool(re.match(rb"(%YAML .*\n)?(---\s*\n)|- +[\w-]+: ", head))


def _is_table(head: bytes, delimiter: str) -> bool:
    """Return whether the first line names columns, and the next has a value for each."""
    lines = head.decode("utf-8", "ignore").splitlines()
    try:
        rows = [*csv.reader(lines[:-1] if len(head) == HEAD else lines, delimiter=delimiter, strict=True)][:3]
    except csv.Error:
        return False
    names = rows[0] if len(rows) > 1 else []
    are_names = all(re.fullmatch(r"[A-Za-z_][\w .-]*", name) for name in names)
    return len(names) > 1 and are_names and len(set(names)) == len(names) == len(rows[1])


def _looks_like_chat(head: bytes) -> bool:
    """Return whether a text has the headings, or the first line, of Cursor's export of a chat."""
    return bool(re.search(rb"\A# [^\n]*\n+(_Exported on [^\n]* from Cursor|## User\s*\n|\*\*User\*\*)", head))


BY_LOOK: tuple[tuple[Callable[[bytes], bool], Kind], ...] = (
    (_looks_like_chat, MARKDOWN),
    (_looks_like_events, EVENTS),
    (_looks_like_yaml, YAML),
    (partial(_is_table, delimiter=","), CSV),
    (partial(_is_table, delimiter="\t"), TSV),
)
"""Kinds by what the beginning looks like, of files whose names say nothing."""
