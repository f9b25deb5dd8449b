"""Pages that compare: the record of `ablate`, and two data sets as `compare` finds them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from karl_fast._plots import Curve, Item, Plot, dots, lines, number, table
from karl_fast._safe_text import counted, in_time
from karl_fast.errors import DataSetError, FileError
from karl_fast.page.document import Fact, Page, Section, definitions, folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

RECORD_FILE = "record.json"
"""Record of an experiment, in its folder."""

PARTS = ("arms", "measures", "intervals", "differences", "predictions", "values", "curves", "stopped", "seeds")
"""Parts of a record that a page shows."""

DOMAINS = 24
"""Domains of a plot: the largest."""

QUANTILES = {"mean": "mean", "p10": "10 % are below", "p50": "median", "p90": "90 % are below"}


def is_experiment(path: Path) -> bool:
    """Return whether a path is the folder of an experiment of `ablate`, or its record."""
    file = path / RECORD_FILE if path.is_dir() else path
    if file.suffix != ".json" or not file.is_file():
        return False
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"arms", "intervals", "baseline"} <= record.keys()


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of an experiment.

    Raises:
        FileError: it cannot be read.
        DataSetError: it lacks a part that a page shows.
    """
    file = path / RECORD_FILE if path.is_dir() else path
    try:
        record: dict[str, Any] = json.loads(file.read_bytes())
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    missing = [name for name in PARTS if name not in record]
    if missing:
        raise DataSetError(f"{file} has no {missing[0]}, wanted the record that karl-fast ablate writes")
    return record


def experiment_page(record: dict[str, Any], subject: str) -> Page:
    """Return the page of an experiment: verdicts, each measure with its seeds, curves of the arms."""
    predictions = record["predictions"]
    verdicts = [
        (one["claim"], one["verdict"], *(one["difference"][key] for key in ("mean", "low", "high")))
        for one in predictions
    ]
    heads = ("prediction", "verdict", "difference", "low", "high")
    stopped = [(arm, int(seed), why) for arm, seeds in record["stopped"].items() for seed, why in seeds.items()]
    sections = [
        *([Section("Predictions", [table(heads, verdicts)])] if verdicts else []),
        Section(
            "Measures",
            [_measure_plot(record, measure) for measure in record["measures"]],
            "The mean over seeds with its 95 % interval by Student's t, and the difference from the baseline.",
        ),
        *(_curve_section(metric, curves) for metric, curves in record["curves"].items()),
        *([Section("Stopped by an alarm", [table(("arm", "seed", "alarm"), stopped)])] if stopped else []),
    ]
    return Page(
        "Ablation",
        subject,
        _experiment_sentence(record),
        list(_experiment_facts(record)),
        sections,
        how=_experiment_how(record),
    )


def _experiment_sentence(record: Mapping[str, Any]) -> str:
    question = f"{record['question']} " if record.get("question") else ""
    verdicts = [one["verdict"] for one in record["predictions"]]
    kinds = [(verdicts.count(kind), kind) for kind in ("supported", "refuted", "undecided")]
    seeds = counted(len(record["seeds"]), "seed")
    if not verdicts:
        return f"{question}{counted(len(record['intervals']), 'arm')} on {seeds}; nothing was predicted."
    told = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
    return f"{question}{counted(len(verdicts), 'prediction')}: {told}, on {seeds}."


def _experiment_facts(record: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("arms", len(record["intervals"]), remark=f"baseline {record['baseline']}")
    yield Fact("seeds", len(record["seeds"]))
    for measure in list(record["measures"])[:2]:
        means = {arm: part[measure]["mean"] for arm, part in record["intervals"].items()}
        known = {arm: mean for arm, mean in means.items() if mean is not None}
        if known:
            largest = max(known, key=lambda arm: known[arm])
            yield Fact(measure, known[largest], known.get(record["baseline"]), f"largest: {largest}")
    yield Fact("runs", in_time(60 * record.get("minutes", 0)))


def _measure_plot(record: Mapping[str, Any], measure: str) -> Plot:
    items = []
    for arm, parts in record["intervals"].items():
        part, difference = parts[measure], record["differences"].get(arm, {}).get(measure, {})
        change = difference.get("mean")
        sign = "" if change is None or change < 0 else "+"
        remark = "baseline" if arm == record["baseline"] else "" if change is None else f"{sign}{number(change)}"
        items.append(Item(arm, part["mean"], low=part["low"], high=part["high"], remark=remark))
    return dots(measure, items, axis=measure, columns=("arm", "", "mean", "low", "high", "less the baseline"))


def _curve_section(metric: str, curves: Mapping[str, Sequence[Sequence[float | None]]]) -> Section:
    every = [value for seeds in curves.values() for seed in seeds for value in seed if value is not None]
    ends = (min(every), max(every)) if every else (0.0, 1.0)
    plots = [lines(arm, list(_seed_curves(seeds)), axis="point of the run", ends=ends) for arm, seeds in curves.items()]
    return Section(metric, plots, "Grey: each seed. Coloured: their mean. One scale for all arms.")


def _seed_curves(seeds: Sequence[Sequence[float | None]]) -> Iterator[Curve]:
    for seed in seeds:
        yield Curve(_points(seed), kind="other")
    shortest = min(map(len, seeds), default=0)
    columns = [[seed[at] for seed in seeds] for at in range(shortest)]
    means = [_mean([value for value in column if value is not None]) for column in columns]
    yield Curve(_points(means))


def _points(values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(float(at + 1), value) for at, value in enumerate(values) if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _experiment_how(record: Mapping[str, Any]) -> list[Section]:
    shared = [(name, _value_text(value)) for name, value in record.get("run", {}).items()]
    arms = [
        (arm, ", ".join(f"{name} = {_value_text(value)}" for name, value in changes.items()) or "nothing")
        for arm, changes in record["arms"].items()
    ]
    parts = [
        definitions([("karl-fast", record.get("version")), ("seeds", ", ".join(map(str, record["seeds"])))]),
        folded("Settings of every run", table(("setting", "value"), shared)),
        folded("What each arm changes", table(("arm", "differs in"), arms)),
    ]
    return [Section("How it was made", parts, "karl-fast ablate with the same file repeats it.")]


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def compare_page(comparison: dict[str, Any]) -> Page:
    """Return the page of two data sets, from what `compare` returns."""
    a, b = comparison["a"], comparison["b"]
    return Page(
        "Data sets",
        f"A {a['path']}, B {b['path']}",
        _compare_sentence(comparison),
        list(_compare_facts(comparison)),
        [
            Section("Rewards and domains", [*_quantile_plot(a, b), *_share_plot(comparison["domains"])]),
            Section("Numbers", [folded("Every number of both", table(("", "A", "B"), _compare_rows(a, b)))]),
        ],
        how=[_compare_how(comparison)],
    )


def _compare_sentence(comparison: dict[str, Any]) -> str:
    a, b, overlap = comparison["a"], comparison["b"], comparison["overlap"]["records"]
    clauses = [f"A has {counted(a['rows'], 'row')}, B {b['rows']:,}"]
    clauses.append("what is in both is unknown" if overlap is None else f"{counted(overlap['both'], 'record')} in both")
    if a["reward"] and b["reward"]:
        clauses.append(f"mean reward {number(a['reward']['mean'])} and {number(b['reward']['mean'])}")
    if a["diversity"] and b["diversity"]:
        pairs = (number(side["diversity"]["distinct_2"]) for side in (a, b))
        clauses.append(f"distinct word pairs {' and '.join(pairs)}")
    return "; ".join(clauses) + "."


def _compare_facts(comparison: dict[str, Any]) -> Iterator[Fact]:
    a, b, overlap = comparison["a"], comparison["b"], comparison["overlap"]
    yield Fact("rows", b["rows"], a["rows"])
    if a["groups"] and b["groups"]:
        yield Fact("groups", b["groups"]["count"], a["groups"]["count"])
    if a["reward"] and b["reward"]:
        yield Fact("mean reward", b["reward"]["mean"], a["reward"]["mean"])
    for name in ("records", "groups"):
        if overlap[name] is not None and overlap[name]["jaccard"] is not None:
            yield Fact(f"{name} in both", overlap[name]["both"], remark=f"Jaccard {number(overlap[name]['jaccard'])}")


def _quantile_plot(a: dict[str, Any], b: dict[str, Any]) -> list[Plot]:
    if not a["reward"] or not b["reward"]:
        return []
    items = [Item(title, b["reward"].get(key), a["reward"].get(key)) for key, title in QUANTILES.items()]
    note = "grey A, coloured B"
    return [dots("Reward", items, note=note, axis="reward", columns=("", "A", "B", "", "", ""))]


def _share_plot(domains: dict[str, Any] | None) -> list[Plot]:
    if not domains or len(domains["shares"]) < 2:
        return []
    largest = sorted(domains["shares"].items(), key=lambda pair: -max(pair[1].values()))[:DOMAINS]
    items = [Item(name, share["b"], share["a"]) for name, share in largest]
    note = f"grey A, coloured B; total variation distance {number(domains['total_variation'])}"
    return [
        dots("Domains, share of the rows", items, note=note, axis="share", columns=("domain", "A", "B", "", "", ""))
    ]


def _compare_rows(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the numbers of both, those of inner tables under their names joined by a space."""
    left, right = dict(_flat_numbers(a)), dict(_flat_numbers(b))
    return [(name, left.get(name), right.get(name)) for name in dict.fromkeys([*left, *right])]


def _flat_numbers(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(inner, dict):
            yield from _flat_numbers(inner, f"{label}, ")
        elif isinstance(inner, int | float):
            yield label, inner


def _compare_how(comparison: dict[str, Any]) -> Section:
    settings = comparison["settings"]
    parts: list[Plot | str] = [definitions([("karl-fast", comparison["karl_fast"])])]
    if settings:
        rows = [(name, _value_text(pair["a"]), _value_text(pair["b"])) for name, pair in settings.items()]
        parts.append(table(("setting", "A", "B"), rows))
    files = comparison["inputs"]
    if files:
        only = [(f"only {side.upper()}", path) for side in ("a", "b") for path in files[f"only_{side}"][:100]]
        parts.append(folded(f"{counted(files['both'], 'file')} read by both", table(("", "file"), only)))
    note = "The settings that differ." if settings else "No setting differs." if settings == {} else ""
    return Section("How they were made", parts, note)
