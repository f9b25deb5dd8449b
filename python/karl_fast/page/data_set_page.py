"""The page of a data set: what the draw did, from its manifest, its rows, and its source where that is still there."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._plots import Curve, Item, Mark, Plot, dots, lines, number, reward_plots, table
from karl_fast._safe_text import counted, in_bytes
from karl_fast.errors import KarlError
from karl_fast.page.document import Fact, Page, Section, definitions, folded
from karl_fast.page.log_page import (
    DIVERSITY,
    LengthEffect,
    count_half,
    group_plots,
    how_section,
    rows_warnings,
    target_note,
    text_section,
)
from karl_fast.page.rows import pack_rows
from karl_fast.pipeline.inspect import inspect, measure_diversity, open_with_stamps
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RULES, RUN, TARGET
from karl_fast.settings.schema import schema
from karl_fast.settings.toml import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.export.manifest import Manifest
    from karl_fast.export.write import Progress
    from karl_fast.log import Log
    from karl_fast.page.rows import PackedRows
    from karl_fast.pipeline.inspect import Inspection

SOURCE_BYTES = 4 << 30
"""Bytes of a source up to which it is read again for what the manifest does not have."""

DOMAINS = 24
"""Domains of a plot: the largest."""

SAME_DIVERSITY = 0.005
"""Difference of two shares that no reader would act on."""

UNCHANGED_SECONDS = 1e-3
"""Difference of times of a file that are the same: a manifest has them as decimal numbers."""


def data_set_page(
    log: Log,
    drawn: Inspection,
    manifest: Manifest,
    folder: Path,
    count: int,
    progress: Progress | None,
    packing: Progress | None,
) -> Page:
    """Return the page of a data set.

    Args:
        log: its rows, with the rewards and groups of their stamps.
        drawn: inspection of this log.
        manifest: what ``manifest.json`` holds.
        folder: of the data set.
        count: rows to show.
        progress: as of `inspect`, for the source.
        packing: as `packed_bytes` of `pack_rows`.
    """
    measured = (drawn.report["diversity"] or {}).get("rows")
    source = inspect_source(manifest, folder, measured, progress)
    packed = pack_rows(log, count, packing)
    groups = log.groups.tolist()
    return Page(
        "Data set",
        f"{folder}, drawn from {_source_names(manifest)}",
        _sentence(manifest, source, drawn, groups),
        list(_facts(manifest, source, drawn)),
        [
            Section(
                "What the draw did",
                [
                    _steps_table(manifest, drawn),
                    *reward_plots(manifest.get("reward") or {}),
                    *_group_curve(groups),
                    *_domain_plots(manifest),
                ],
            ),
            _temperature_section(source, manifest),
            Section("Rewards of the drawn rows", group_plots(log.rewards, log.groups)),
            _text_section(packed, source, drawn),
        ],
        packed if len(packed) else None,
        _how(manifest),
        [*_source_warnings(source), *rows_warnings(packed)],
    )


def _source_names(manifest: Manifest) -> str:
    names = [file["path"] for file in manifest["inputs"]]
    more = f" and {counted(len(names) - 1, 'more file')}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "rows of the caller"


def _steps_table(manifest: Manifest, drawn: Inspection) -> str:
    """Return what was read, what the rules left, and what was drawn of it."""
    draw, account, reward = manifest["draw"], manifest["accounting"], manifest.get("reward") or {}
    dropped = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in account["dropped"].items() if count]
    read, kept = ((reward.get(name) or {}).get("mean") for name in ("before", "kept"))
    _, after = _means(manifest, drawn)
    rows = [
        ("read", account["rows_read"], read, ""),
        ("could be drawn", account["rows_kept"], kept, f"dropped: {', '.join(dropped)}" if dropped else ""),
        ("drawn", draw["rows"], after, f"{draw['distinct_rows']:,} different" if draw["duplicate_rows"] else ""),
    ]
    return table(("", "rows", "mean reward", ""), rows)


def inspect_source(
    manifest: Manifest, folder: Path, answers: int | None, progress: Progress | None
) -> Inspection | None:
    """Inspect the logs that a data set was drawn from, as the draw did; None where they are gone, changed or too long.

    Their diversity is that of as many answers as were measured of the drawn rows.
    """
    files = manifest["inputs"]
    if not files or "target" not in manifest or manifest.get("columns_given") or manifest.get("reward_functions"):
        return None
    if sum(file["size_bytes"] for file in files) > SOURCE_BYTES or not all(map(_is_unchanged, files)):
        return None
    names = tuple(setting.name for setting in schema(Settings).values() if setting.group in (READ, TARGET, RULES, RUN))
    try:
        settings = load(folder, "inspect", names=names).settings
        with open_with_stamps([file["path"] for file in files], Settings(**settings), progress) as log:
            inspection = inspect(log)
            inspection.report["diversity"] = measure_diversity(log, answers)
    except KarlError:
        return None
    same = inspection.report["accounting"]["rows_read"] == manifest["accounting"]["rows_read"]
    return inspection if same else None


def _is_unchanged(file: dict[str, Any]) -> bool:
    try:
        facts = Path(file["path"]).stat()
    except (OSError, ValueError):
        return False
    same_time = abs(facts.st_mtime - file.get("modified_seconds", -1)) < UNCHANGED_SECONDS
    return same_time and (facts.st_size == file["size_bytes"] or file.get("codec") != "plain")


def _source_warnings(source: Inspection | None) -> list[str]:
    if source is not None:
        return []
    return [
        "The logs that were drawn from are gone, have changed or are too long to be read again: their diversity and "
        "temperatures are unknown."
    ]


def _sentence(manifest: Manifest, source: Inspection | None, drawn: Inspection, groups: list[int]) -> str:
    draw, account = manifest["draw"], manifest["accounting"]
    all_groups = (manifest.get("groups") or {}).get("count")
    of_groups = (
        f" of {counted(all_groups, 'group')}" if all_groups else " groups" if draw["distinct_groups"] != 1 else " group"
    )
    from_groups = f" from {draw['distinct_groups']:,}{of_groups}" if draw["distinct_groups"] else ""
    read = (
        "" if account["rows_kept"] == account["rows_read"] else f" that could be drawn ({account['rows_read']:,} read)"
    )
    clauses = [f"{draw['rows']:,} of {counted(account['rows_kept'], 'row')}{read}{from_groups}"]
    before, after = _means(manifest, drawn)
    change = (
        [f"mean reward {before if before is None else number(before)} \u2192 {number(after)}"]
        if before is not None
        else []
    )
    change += [] if before is not None or after is None else [f"mean reward {number(after)}"]
    first, last = _distinct(source), _distinct(drawn)
    if last is not None:
        change.append(f"distinct word pairs {'unknown' if first is None else number(first)} \u2192 {number(last)}")
        before_bleu, after_bleu = _self_bleu(source), _self_bleu(drawn)
        if before_bleu is not None and after_bleu is not None and after_bleu - before_bleu > SAME_DIVERSITY:
            change.append(f"answers more alike (self-BLEU {number(before_bleu)} \u2192 {number(after_bleu)})")
    clauses.append(", ".join(change))
    half, count = count_half(groups)
    if count > 1:
        even = f" (if all gave equally: {-(-count // 2):,})"
        clauses.append(f"{counted(half, 'group')} {'gives' if half == 1 else 'give'} half of the rows{even}")
    return "; ".join(filter(None, clauses)) + "."


def _means(manifest: Manifest, drawn: Inspection) -> tuple[float | None, float | None]:
    reward = manifest.get("reward")
    if reward and reward.get("after"):
        return (reward.get("kept") or reward["before"])["mean"], reward["after"]["mean"]
    return None, drawn.report["reward"]["before"]["mean"]


def _distinct(inspection: Inspection | None) -> float | None:
    diversity = inspection and inspection.report["diversity"]
    value: float | None = diversity["distinct_2"] if diversity else None
    return value


def _self_bleu(inspection: Inspection | None) -> float | None:
    diversity = inspection and inspection.report["diversity"]
    value: float | None = diversity["self_bleu"] if diversity else None
    return value


def _facts(manifest: Manifest, source: Inspection | None, drawn: Inspection) -> Iterator[Fact]:
    draw, account = manifest["draw"], manifest["accounting"]
    copies = draw["rows"] - draw["distinct_rows"]
    remarks = [f"{account['rows_read']:,} read"] if account["rows_read"] != account["rows_kept"] else []
    remarks += [f"{copies:,} copies"] if copies else []
    yield Fact("rows", draw["rows"], account["rows_kept"], ", ".join(remarks))
    if draw["distinct_groups"]:
        yield Fact("groups", draw["distinct_groups"], (manifest.get("groups") or {}).get("count"))
    before, after = _means(manifest, drawn)
    yield Fact("mean reward", after, before)
    if _distinct(drawn) is not None:
        first = _distinct(source)
        yield Fact(
            "distinct word pairs", _distinct(drawn), first, "" if first is not None else "before the draw unknown"
        )
    if target := manifest.get("target"):
        remark = f"of the {account['rows_kept']:,} rows before the draw"
        yield Fact("effective sample size", round(target["ess_rows"], 1), remark=remark)
    splits = {name: count for name, count in manifest["export"]["splits"].items() if count}
    if len(splits) > 1:
        yield Fact(
            "train",
            splits.get("train", 0),
            remark=", ".join(f"{name} {count:,}" for name, count in splits.items() if name != "train"),
        )


def _group_curve(groups: list[int]) -> list[Plot]:
    """Return the share of rows that the largest groups give."""
    counts = sorted(
        np.bincount([group for group in groups if group >= 0]).tolist() if any(group >= 0 for group in groups) else [],
        reverse=True,
    )
    counts = [count for count in counts if count]
    if len(counts) < 2:
        return []
    shares = [total / sum(counts) for total in accumulate(counts)]
    half, _ = count_half(groups)
    points = [(0.0, 0.0), *((float(place + 1), share) for place, share in enumerate(shares))]
    return [
        lines(
            "Share of the rows that the largest groups give",
            [Curve(points)],
            axis="groups, the largest first",
            note=f"half of the rows would come from {-(-len(counts) // 2):,} groups if all gave equally",
            marks=[Mark(half, f"{counted(half, 'group')}: half")],
            small=False,
            share=True,
            ends=(0, 1.02),
        )
    ]


def _domain_plots(manifest: Manifest) -> list[Plot]:
    counts = [(name, pair["before"], pair.get("after", 0)) for name, pair in manifest["domains"].items()]
    if len(counts) < 2:
        return []
    read, written = sum(one[1] for one in counts) or 1, sum(one[2] for one in counts) or 1
    largest = sorted(counts, key=lambda one: -max(one[1] / read, one[2] / written))[:DOMAINS]
    items = [
        Item(name, after / written, before / read, remark=f"{before:,} \u2192 {after:,}")
        for name, before, after in largest
    ]
    return [
        dots(
            "Domains, share of the rows",
            items,
            note="grey before the draw, coloured after it, and the numbers of rows",
            axis="share of the rows",
            columns=("domain", "before", "after", "", "", "rows"),
        )
    ]


def _temperature_section(source: Inspection | None, manifest: Manifest) -> Section:
    target = manifest.get("target")
    if target is None:
        return Section("Temperature", [], "The rows were chosen by the caller: no temperature was used.")
    if source is None:
        pairs = [
            ("inverse temperature", target["inverse_temperature"]),
            ("effective sample size", target["ess_rows"]),
            ("expected reward", target["expected_reward"]),
            ("weight of the largest row", target["largest_weight_share"]),
        ]
        return Section("Temperature", [definitions(pairs)], target_note(target))
    return Section("Temperature", source.plots(), target_note(target))


def _text_section(packed: PackedRows, source: Inspection | None, drawn: Inspection) -> Section:
    section = text_section(packed, None, LengthEffect.of(packed))
    after, before = drawn.report["diversity"] or {}, (source.report["diversity"] if source else None) or {}
    if not after:
        return section
    rows = [(name, before.get(key), after.get(key), _verdict(key, before, after)) for key, name in DIVERSITY.items()]
    return Section(
        section.title,
        [*section.parts, table(("measure", "before", "after", ""), rows)],
        "Before the draw: as many answers as after it, for shares of different words fall with their number.",
    )


def _verdict(key: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return whether the drawn answers are more diverse than those before the draw."""
    first, last = before.get(key), after.get(key)
    if key == "rows" or first is None or last is None:
        return ""
    change = (first - last) if key == "self_bleu" else (last - first)
    return "about the same" if abs(change) < SAME_DIVERSITY else "more diverse" if change > 0 else "less diverse"


def _how(manifest: Manifest) -> list[Section]:
    [section] = how_section(manifest)
    draw = manifest["draw"]
    files = [
        (name, in_bytes(facts["size_bytes"]), str(facts.get("xxh3_128", "")))
        for name, facts in manifest["export"].get("files", {}).items()
    ]
    law = [("sampler", draw["sampler"]), ("law", draw["law"]), ("shape", manifest["export"]["shape"])]
    if manifest["secrets"]:
        law.append(("secrets replaced", ", ".join(f"{name} {count:,}" for name, count in manifest["secrets"].items())))
    parts = [definitions(law), folded("Written files", table(("file", "size", "hash"), files)), *section.parts]
    return [Section(section.title, parts, "karl-fast sample --config manifest.json makes the same rows again.")]
