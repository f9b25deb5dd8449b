"""The report as one page of Markdown, at most 80 columns wide, to be pasted into an issue."""

from __future__ import annotations

import re
import textwrap
from itertools import chain
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import counted, in_bytes, in_gigabytes, in_time
from karl_fast.doctor import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COLUMNS = 80
NONE = "-"

UNITS = re.compile(r"(\d) (s|min|h|bytes|kB|MB|GB|million)\b")

MOST_LINES = 31
"""Last lines of a traceback that are shown; the JSON has all that were kept."""

SMALLEST_DIFFERENCE = 1e-4
"""Relative difference of a kernel up to which it is that of rounding, and not shown."""


def describe_report(report: dict[str, Any]) -> str:
    """Return the page of a report."""
    checks = {check["name"]: check for check in report["checks"]}
    results = {name: check["result"] for name, check in checks.items()}
    sections = [
        ["# karl-fast doctor", "", *_wrap(_summary(report, results))],
        [*_machine(results)],
        [*_log(results.get("log") or {})],
        [*_model(report, results.get("model") or {})],
        [*_kernels(results)],
        [*_training(results)],
        [*_rollouts(results)],
        *([*_problem(check)] for check in report["checks"] if check["status"] != OK),
    ]
    lines = chain.from_iterable([*section, ""] for section in sections if section)
    return "\n".join(lines).rstrip() + "\n"


def _summary(report: dict[str, Any], results: dict[str, Any]) -> str:
    states = [check["status"] for check in report["checks"]]
    machine = results.get("machine") or {}
    where = f" on {machine['chip']}, {machine['system']}" if machine else ""
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys([OK, FAILED, *states]) if state in states]
    quick = " Quick: small sizes, whose speeds mean nothing." if report["quick"] else ""
    seconds = in_time(report["seconds"])
    return (
        f"karl-fast {report['karl_fast']}{where}, {report['date']}: {counted(len(states), 'check')} in {seconds}, "
        f"{', '.join(counts)}.{quick}"
    )


def _machine(results: dict[str, Any]) -> Iterator[str]:
    machine, device = results.get("machine") or {}, results.get("mlx") or {}
    rows: list[tuple[str, str]] = []
    if machine:
        build, packages = machine["build"], machine["packages"]
        rows += [
            ("build", f"{build['target']}, {build['profile']}, rustc {build['rustc']}, SIMD {build['simd']}"),
            ("Python", ", ".join([machine["python"], *(f"{name} {version}" for name, version in packages.items())])),
            ("chip", _chip(machine)),
            ("memory", f"{machine['memory_bytes'] / (1 << 30):.0f} GiB"),
        ]
    if device:
        rows.append(("MLX's device", _device(device)))
        rows.append(("plans stay within", in_gigabytes(device["plan_limit_bytes"])))
        if device["metal"]:
            rows.append(("wired limit", _wired(device)))
        if device["environment"]:
            rows.append(("environment", device["environment"]))
    if rows:
        width = max(len(name) for name, _ in rows)
        yield "```text"
        for name, value in rows:
            indent = " " * (width + 2)
            yield from textwrap.wrap(
                f"{name:<{width}}  {value}", COLUMNS, subsequent_indent=indent, break_on_hyphens=False
            )
        yield "```"


def _chip(machine: dict[str, Any]) -> str:
    fast, slow = machine["performance_cores"], machine["efficiency_cores"]
    kinds = f" ({fast} performance, {slow} efficiency)" if fast and slow else ""
    translated = ", Python runs under Rosetta" if machine["translated"] else ""
    return f"{machine['chip']} {machine['architecture']}, {machine['cores']} cores{kinds}{translated}"


def _device(device: dict[str, Any]) -> str:
    parts = [device["device"]]
    parts += [device[name] for name in ("device_name", "architecture") if device["metal"] and device.get(name)]
    if working := device.get("max_recommended_working_set_size"):
        parts.append(f"working set {in_gigabytes(working)}")
    if buffer := device.get("max_buffer_length"):
        parts.append(f"largest buffer {in_gigabytes(buffer)}")
    return ", ".join(map(str, parts))


def _wired(device: dict[str, Any]) -> str:
    system = device["system_wired_limit_mb"]
    return f"{in_bytes(device['wired_limit_bytes'])} by MLX, {f'{system:,} MB' if system else 'default'} by the system"


def _log(log: dict[str, Any]) -> Iterator[str]:
    if not log:
        return
    yield f"## Log: {in_bytes(log['bytes'])}, {log['rows']:,} rows"
    yield ""
    names = {"inspect": "inspect", "sample": "sample 1,000", "convert": "convert a transcript"}
    yield from _table(
        ("", "seconds", "MB/s"),
        [
            (label, f"{log[name]['seconds']:.2f}", f"{log[name]['mb_per_second']:,.0f}")
            for name, label in names.items()
            if name in log
        ],
    )
    if "peak_rss_bytes" not in log:
        return
    expected, draw = log.get("draw_expected"), log["draw"]
    same = "not pinned" if expected is None else "as everywhere" if draw == expected else f"NOT {expected}"
    yield ""
    yield from _wrap(f"Peak memory of the process {in_bytes(log['peak_rss_bytes'])}. Draw `{draw[:12]}`: {same}.")


def _model(report: dict[str, Any], model: dict[str, Any]) -> Iterator[str]:
    if not model:
        return
    name = f"`{report['model']}`" if report["model"] else "random, made here"
    bits = f"{model['bits']} bits, " if model["bits"] else ""
    yield from _wrap(
        f"**Model:** {name}: {model['type']}, {model['parameters'] / 1e6:,.1f} million parameters, {model['layers']} "
        f"layers, {bits}{model['dtype']}, {in_bytes(model['bytes'])}; loaded in {model['load']['seconds']:.2f} s."
    )


def _kernels(results: dict[str, Any]) -> Iterator[str]:
    operations = (results.get("kernels") or {}).get("operations") or {}
    if not operations:
        return
    right = {name: row["difference"] for name, row in operations.items() if "error" not in row}
    count = f"{len(right)} of {len(operations)} ran"
    if (results.get("mlx") or {}).get("device") != "gpu":
        yield from _wrap(f"**Kernels** on the CPU, as there is no GPU: {count}.")
        return
    far = [f"{name} {value:.1g}" for name, value in right.items() if value > SMALLEST_DIFFERENCE]
    most = (
        f"relative differences above {SMALLEST_DIFFERENCE:g}: {', '.join(far)}"
        if far
        else f"no relative difference above {SMALLEST_DIFFERENCE:g}"
    )
    yield from _wrap(f"**Kernels** on the GPU beside the CPU: {count}; {most}.")


def _training(results: dict[str, Any]) -> Iterator[str]:
    ours, theirs = (_by_length(results.get(name) or {}) for name in ("training", "training by mlx_lm"))
    if not (ours or theirs):
        return
    yield "## Training: one step of LoRA, one row"
    yield ""
    head = ("tokens", "planned", "peak", "of plan", "tokens/s", "mlx_lm: peak", "tokens/s")
    yield from _table(head, [_step(length, ours, theirs) for length in sorted(ours | theirs)])
    skips = [
        f"{length:,} tokens by {who}: {rows[length]['skipped']}"
        for who, rows in (("karl-fast", ours), ("mlx_lm", theirs))
        for length in rows
        if "skipped" in rows[length]
    ]
    segments = [
        f"{length:,} tokens in {row['segment_tokens']:,}" for length, row in ours.items() if "segment_tokens" in row
    ]
    notes = [f"Not made: {'; '.join(skips)}."] if skips else []
    first = [f"{rows[min(rows)]['loss']:.4f}" for rows in (ours, theirs) if rows and "loss" in rows[min(rows)]]
    notes += [f"Loss before the first step: {', by mlx_lm '.join(first)}."] if len(first) > 1 else []
    notes += [f"In segments: {', '.join(segments)}."] if segments else []
    if notes:
        yield ""
        yield from _wrap(" ".join(notes))


def _by_length(result: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["tokens"]: row for row in result.get("steps", [])}


def _step(length: int, ours: dict[int, dict[str, Any]], theirs: dict[int, dict[str, Any]]) -> tuple[str, ...]:
    row, other = ours.get(length, {}), theirs.get(length, {})
    planned, peak = row.get("planned_bytes"), row.get("peak_bytes")
    return (
        f"{length:,}",
        _memory(planned),
        _memory(peak),
        f"{peak / planned:.0%}" if peak and planned else NONE,
        _speed(row),
        _memory(other.get("peak_bytes")),
        _speed(other),
    )


def _rollouts(results: dict[str, Any]) -> Iterator[str]:
    sides = {"karl-fast": results.get("rollouts") or {}, "mlx_lm": results.get("rollouts by mlx_lm") or {}}
    if not any(sides.values()):
        return
    yield f"## {next(side['rollouts'] for side in sides.values() if side)} rollouts"
    yield ""
    rows = [
        (name, f"{side.get('tokens', NONE)}", _speed(side), _memory(side.get("peak_bytes")))
        for name, side in sides.items()
    ]
    yield from _table(("", "tokens each", "tokens/s", "peak"), rows)
    if "texts" in (both := sides["mlx_lm"]):
        yield ""
        yield from _wrap(
            f"Likeliest tokens: the same text in {both['equal_texts']} of {both['texts']}, "
            f"{both['equal_tokens']:,} of {both['compared_tokens']:,} tokens before the first difference."
        )


def _problem(check: dict[str, Any]) -> Iterator[str]:
    """Yield the part of a check that was not ok."""
    reason = f": {check['reason']}" if check["reason"] else ""
    if check["status"] != FAILED:
        yield from _wrap(f"**{check['name']}** {check['status']}{reason}.")
        return
    yield f"## {check['name']} failed after {check['seconds']:.1f} s"
    yield ""
    yield from _wrap(check["reason"] or "")
    operations = check["result"].get("operations", {}).values()
    for text in [*(row.get("traceback") for row in operations), check["traceback"]]:
        if text:
            yield ""
            # A fence longer than any in the text, which may be anything.
            fence = "`" * 3
            while fence in text:
                fence += "`"
            yield from [f"{fence}text", *text.splitlines()[-MOST_LINES:], fence]


def _memory(size: int | None) -> str:
    return NONE if size is None else in_gigabytes(size)


def _speed(row: dict[str, Any]) -> str:
    speed = row.get("tokens_per_second")
    return NONE if speed is None else f"{speed:,.0f}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table whose columns are aligned in the text too: the first to the left, the others to the right."""
    cells = [head, *rows]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]
    rule = [":" + "-" * (width + 1) if at == 0 else "-" * (width + 1) + ":" for at, width in enumerate(widths)]
    for number, (first, *others) in enumerate(cells):
        right = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        yield f"| {' | '.join([f'{first:<{widths[0]}}', *right])} |"
        if number == 0:
            yield f"|{'|'.join(rule)}|"


def _wrap(text: str) -> list[str]:
    """Wrap a text between words, but not between a number and its unit."""
    joined = UNITS.sub("\\1\N{NO-BREAK SPACE}\\2", text)
    lines = textwrap.wrap(joined, COLUMNS, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
