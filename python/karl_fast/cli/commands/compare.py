"""`karl-fast compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, counted, decimal
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.export.compare import compare
from karl_fast.export.manifest import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    Line = tuple[str, str, str]

DataSet = "A data set: the folder that sample wrote, or one .jsonl file out of it."

A = Annotated[str, typer.Argument(metavar="A", help=DataSet)]
B = Annotated[str, typer.Argument(metavar="B", help="Another data set.")]


@add_command("compare", epilog="Example: karl-fast compare data-raw data-zscore")
def command(*, a: A, b: B, json: options.Json = False) -> None:
    """Compare two data sets: rows, rewards, targets, groups, domains, lengths, what is in both, and settings."""
    comparison = compare(a, b)
    print(dumps(comparison, plain=True) if json else describe_comparison(comparison))


LABEL, CELL = 30, 32
"""Maximum columns of a label, and of the value beside it."""

SHOWN = 12
"""Maximum domains, settings and files in a list."""

NONE = "-"

LABELS = {
    "ess_rows": "ESS rows",
    "ess_reached_share": "ESS",
    "largest_weight_share": "top row",
    "log_z": "log Z",
    "largest_share": "largest, share of rows",
}
"""Words of the other reports for names that are not words."""


def describe_comparison(comparison: dict[str, Any]) -> str:
    """Return the text that `compare` prints."""
    a, b = comparison["a"], comparison["b"]
    sections = [
        ("", [("", "A", "B"), ("data set", _shorten_path(a["path"]), _shorten_path(b["path"])), *_rows_of(a, b)]),
        ("reward", _pairs(a["reward"], b["reward"], _format_number)),
        ("target", _pairs(_format_target(a["target"]), _format_target(b["target"]), _format_value)),
        ("groups", _groups(a["groups"], b["groups"])),
        ("diversity of answers", _pairs(a["diversity"], b["diversity"], _format_number)),
        ("of a row: p50, p90, max", _lengths(a, b)),
        ("rows of the log", _log(a, b)),
        ("secrets replaced", _counts(a["secrets"], b["secrets"])),
        ("settings that differ", _settings(comparison["settings"])),
        ("domains, share of rows", _domains(comparison["domains"])),
    ]
    return "\n".join(
        [
            *_align_columns(sections),
            *_describe_overlap(comparison["overlap"]),
            *_describe_distance(comparison["domains"]),
            *_describe_inputs(comparison["inputs"]),
        ]
    )


def _align_columns(sections: list[tuple[str, list[Line]]]) -> Iterator[str]:
    lines = [line for _, lines in sections for line in lines]
    left, right = (max(len(line[side]) for line in lines) for side in (1, 2))
    for head, body in sections:
        if head and body:
            yield head
        for label, a, b in body:
            indent = "  " if head else ""
            yield f"{_shorten(indent + label, LABEL):<{LABEL}}  {a:>{left}}  {b:>{right}}".rstrip()


def _rows_of(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Line]:
    for name in ("rows", "distinct_rows", "copies"):
        yield _label(name), _format_number(a[name]), _format_number(b[name])
    for split in dict.fromkeys([*a["splits"], *b["splits"]]):
        yield f"  {_label(split)}", _format_number(a["splits"].get(split, 0)), _format_number(b["splits"].get(split, 0))
    for name in ("seed", "sampler"):
        if a[name] is not None or b[name] is not None:
            yield name, _format_value(a[name]), _format_value(b[name])


def _pairs(a: dict[str, Any] | None, b: dict[str, Any] | None, show: Any) -> list[Line]:
    names = dict.fromkeys([*(a or {}), *(b or {})])
    return [(_label(name), show((a or {}).get(name)), show((b or {}).get(name))) for name in names]


def _format_target(target: dict[str, Any] | None) -> dict[str, Any] | None:
    shares = {name: _format_share(value) for name, value in (target or {}).items() if name.endswith("share")}
    return target and target | shares | {"log_z": _log_z(target["log_z"])}


def _log_z(log_z: dict[str, Any] | None) -> Any:
    """Return the number, or the count of scopes if there are several."""
    if not log_z or "value" in log_z:
        return (log_z or {}).get("value")
    return f"{counted(log_z.get('scopes') or 0, 'scope')}"


def _groups(a: dict[str, Any] | None, b: dict[str, Any] | None) -> list[Line]:
    left, right = (side and side | {"largest_share": _format_share(side["largest_share"])} for side in (a, b))
    return _pairs(left, right, _format_value)


def _lengths(a: dict[str, Any], b: dict[str, Any]) -> list[Line]:
    names = [name for name in ("bytes", "messages", "assistant_turns") if a[name] or b[name]]
    return [(_label(name), _format_lengths(a[name]), _format_lengths(b[name])) for name in names]


def _format_lengths(values: dict[str, Any] | None) -> str:
    return ", ".join(_format_number(value) for value in values.values()) if values else NONE


def _log(a: dict[str, Any], b: dict[str, Any]) -> list[Line]:
    if a["rows_read"] is None and b["rows_read"] is None:
        return []
    read = [(_label(name)[5:], _format_number(a[name]), _format_number(b[name])) for name in ("rows_read", "rows_kept")]
    dropped = [(f"dropped: {name}", left, right) for name, left, right in _counts(a["dropped"], b["dropped"])]
    failed = [(f"failed: {name}", left, right) for name, left, right in _counts(a["failed"], b["failed"])]
    return [*read, *dropped, *failed]


def _counts(a: dict[str, int] | None, b: dict[str, int] | None) -> list[Line]:
    names = dict.fromkeys([*(a or {}), *(b or {})])
    return [(_label(name), _count(a, name), _count(b, name)) for name in names]


def _count(counts: dict[str, int] | None, name: str) -> str:
    return NONE if counts is None else _format_number(counts.get(name, 0))


def _settings(settings: dict[str, Any] | None) -> list[Line]:
    pairs = list((settings or {}).items())
    return [(clean(name), _format_value(pair["a"]), _format_value(pair["b"])) for name, pair in pairs]


def _domains(domains: dict[str, Any] | None) -> list[Line]:
    if not domains:
        return []
    ordered = sorted(domains["shares"].items(), key=lambda item: -max(item[1].values()))
    more = [(f"and {len(ordered) - SHOWN:,} more", "", "")] if len(ordered) > SHOWN else []
    lines = [(clean(name), _format_share(pair["a"]), _format_share(pair["b"])) for name, pair in ordered[:SHOWN]]
    return [*lines, *more]


def _describe_overlap(overlap: dict[str, Any]) -> Iterator[str]:
    for name in ("records", "groups"):
        counts = overlap[name]
        if counts is None:
            yield f"{name:<10}overlap unknown: raw rows do not say where they came from"
            return
        if counts["jaccard"] is not None:
            sides = f"{counts['only_a']:,} only in A, {counts['only_b']:,} only in B"
            yield f"{name:<10}{counts['both']:,} in both, {sides}; Jaccard {counts['jaccard']:.3f}"


def _describe_distance(domains: dict[str, Any] | None) -> Iterator[str]:
    if domains:
        yield f"domains   total variation distance {domains['total_variation']:.3f}"


def _describe_inputs(inputs: dict[str, Any] | None) -> Iterator[str]:
    if not inputs:
        return
    yield f"inputs    {counted(inputs['both'], 'file')} read by both"
    for side in ("a", "b"):
        paths = [_shorten_path(path) for path in inputs[f"only_{side}"]]
        for path in paths[:SHOWN]:
            yield f"          only {side.upper()}: {path}"
        if len(paths) > SHOWN:
            yield f"          only {side.upper()}: and {len(paths) - SHOWN:,} more"


def _format_share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2%}"


def _format_number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else decimal(value)


def _format_value(value: Any) -> str:
    """Format any value of a manifest for a cell."""
    if value is None:
        return NONE
    if type(value) is float:
        return f"{value:.6g}"
    return _shorten(clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), CELL)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _shorten_path(path: str) -> str:
    """Shorten a path to its end, which is more informative than its start."""
    text = clean(path)
    return text if len(text) <= CELL else "..." + text[3 - CELL :]


def _label(name: str) -> str:
    return LABELS.get(name) or clean(name.replace("_", " "))
