"""Record of a run beside its rows: everything needed to judge the data set and to reproduce it.

```text
manifest.json   settings, accounting       read = kept + dropped, by reason
                groups, reward, target     before the draw, of the kept rows, and after it
                draw, domains, export      the law of the draw, rows by domain and by split
                inputs, run                the files that were read, and the run that read them
```

All parts except ``inputs`` and ``run`` are a function of (seed, records, settings): they are the same for any number of
threads, any order of the records and any split into files.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._pseudonyms import read_key
from karl_fast.log.conversation_hints import unread_prompt_keys
from karl_fast.log.discovery import PARQUET, skip_reason
from karl_fast.log.field_hints import naming_hint
from karl_fast.log.order import newest
from karl_fast.log.record_fields import fitting_paths, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karl_fast.log import Log
    from karl_fast.log.parquet_in import LeftOut
    from karl_fast.settings.sample import Settings

Manifest = dict[str, Any]

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""

SPLITS = ("train", "valid", "test")

READ_AND_WRITTEN = {
    *("format", "id", "group", "reward", "messages", "domain", "order_by", "strict", "max_line_bytes", "hash_inputs"),
    *("seed", "shape", "split", "allow_secrets", "pseudonyms", "max_tokens", "tokenizer", "max_per_group"),
}
"""Settings that apply to rows chosen by the caller."""


TARGET_NOTES = {
    "ties_at_top": "so many rows share the top score that no temperature reaches the wanted ESS; the nearest is taken",
    "equal_scores": "all scores are equal: every temperature is the same uniform draw",
    "uneven_scopes": "uneven scopes are below the wanted ESS even at inverse temperature 0, which is taken",
}
"""Notes of a target, which say why the ESS that was wanted and the one reached differ, in words."""


def describe_selection(log: Log, selection: _core.Selection, rows: list[int] | None = None) -> Manifest:
    """Return the part of a manifest that is known before anything is written; for drawn rows too, if there are some."""
    facts = selection.facts()
    account = accounting(log, facts["verdicts"])
    if (other := facts["duplicates_with_other_reward"]) is not None:
        account["notes"]["duplicates_with_other_reward"] = other
    return {
        "schema": SCHEMA,
        "karl_fast": _core.VERSION,
        "seed": log.settings.seed,
        "settings": log.settings.to_dict(),
        "accounting": account,
        **_columns(log),
        "groups": _groups(facts),
        "reward": _rewards(log, selection, rows),
        "target": _target(log.settings, log, facts),
        **count_domains(log, rows),
        **mixed_numbers(log),
    }


def describe_draft(log: Log, selection: _core.Selection, draft: _core.Draft, wanted: int) -> Manifest:
    """Return the whole manifest except ``inputs`` and ``run``."""
    written = draft.facts()
    rows = written["rows"]
    manifest = describe_selection(log, selection, rows)
    manifest["draw"] = sampler_law(log) | count_drawn(log, written, wanted)
    manifest["draw"]["threshold"] = draw_threshold(log, written)
    if log.settings.per is not None:
        manifest["draw"]["strata"] = count_strata(log.settings.per, written)
    # log Z and the ESS are those of all rows that may be drawn; these were among them.
    manifest["target"]["failed_rows_counted"] = sum(manifest["draw"]["failed"].values())
    manifest["export"] = _export(written)
    manifest["secrets"] = dict(written["secrets"])
    return manifest


def describe_given_rows(log: Log, draft: _core.Draft) -> Manifest:
    """Return the manifest of rows chosen by the caller."""
    written = draft.facts()
    return {
        "schema": SCHEMA,
        "karl_fast": _core.VERSION,
        "seed": log.settings.seed,
        "settings": {name: value for name, value in log.settings.to_dict().items() if name in READ_AND_WRITTEN},
        "accounting": accounting(log, [("kept", len(log))]),
        **_columns(log),
        "draw": {"sampler": "given", "law": "chosen by the caller"} | count_drawn(log, written, None),
        **count_domains(log, written["rows"]),
        **mixed_numbers(log),
        "export": _export(written),
        "secrets": dict(written["secrets"]),
        "inputs": describe_inputs(log),
        "run": describe_run(log, failed=draft.failed_rows),
    }


def _columns(log: Log) -> Manifest:
    """Return the columns that the caller replaced, reward functions and excluded prompts, of those there are."""
    excluded = {"excluded": log.excluded} if log.excluded is not None else {}
    excluded |= {"trees": log.trees} if log.trees is not None else {}
    replaced = {"columns_given": list(log.replaced_columns)} if log.replaced_columns else {}
    return replaced | excluded | ({"reward_functions": log.functions} if log.functions else {})


def accounting(log: Log, verdicts: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return rows read = rows kept + rows dropped, by reason; checked on every run."""
    files = log.inputs
    dropped: dict[str, int] = {}
    for reason, count in (pair for file in files for pair in file["dropped"]):
        dropped[reason] = dropped.get(reason, 0) + count
    verdict = dict(verdicts)
    rows_kept = verdict.pop("kept", 0)
    if log.excluded is not None:
        # Their rewards were set aside, so that nothing is computed from them.
        verdict["missing_reward"] = verdict.get("missing_reward", 0) - log.excluded["with_reward"]
        verdict = {"excluded_prompt": log.excluded["with_reward"]} | verdict
    dropped = dict(sorted(dropped.items())) | {reason: count for reason, count in verdict.items() if count}
    read = sum(file["rows_read"] for file in files)
    if read != rows_kept + sum(dropped.values()):
        raise AssertionError(f"{read} rows read, {rows_kept} kept, dropped: {dropped}")
    notes = {
        "duplicate_keys": sum(file["duplicate_keys"] for file in files),
        "without_id": sum(file["without_id"] for file in files),
        "unusable_domains": sum(file["unusable_domains"] for file in files),
        "repeated_ids": None if log.core.streamed else log.core.duplicates()[0],
    }
    return {"rows_read": read, "rows_kept": rows_kept, "dropped": dropped, "notes": notes}


def _groups(facts: _core.SelectionFacts) -> dict[str, Any]:
    groups = facts["groups"]
    if groups is None:  # of a stream: counting groups would hold all their names
        unknown = dict.fromkeys(("count", "with_two_or_more", "constant", "constant_by"))
        return unknown | {"rows_without": facts["ungrouped"]}
    constant = {
        "at_top": groups["constant_at_top"],
        "at_bottom": groups["constant_at_bottom"],
        "other": groups["constant_other"],
    }
    return {
        "count": groups["count"],
        "rows_without": facts["ungrouped"],
        "with_two_or_more": groups["comparable"],
        "constant": sum(constant.values()),
        "constant_by": constant,
    }


def _rewards(log: Log, selection: _core.Selection, rows: list[int] | None) -> dict[str, Any]:
    names = list(log.settings.reward or {})
    return _before_and_after(selection, None, rows) | {
        "components": {
            name: {"weight": log.settings.weights[index]} | _before_and_after(selection, index, rows)
            for index, name in enumerate(names)
        }
    }


def _before_and_after(selection: _core.Selection, component: int | None, rows: list[int] | None) -> dict[str, Any]:
    before, in_log, after = selection.summaries(component, rows)
    return {"before": summary(before), "kept": summary(in_log)} | ({"after": summary(after)} if after else {})


def summary(facts: _core.SummaryFacts) -> dict[str, Any]:
    """Return statistics for JSON: NaN and an unknown histogram become null."""
    histogram = facts["histogram"]
    return {
        "count": facts["count"],
        "mean": finite(facts["mean"]),
        "std": finite(facts["std"]),
        "min": finite(facts["min"]),
        "max": finite(facts["max"]),
        "histogram": histogram and dict(zip(("edges", "counts"), histogram, strict=True)),
    }


def finite(value: float) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON lacks."""
    return value if math.isfinite(value) else None


def _target(settings: Settings, log: Log, facts: _core.SelectionFacts) -> dict[str, Any]:
    return {
        "score": "given" if log.core.weighted else settings.score,
        **_baseline(settings),
        **_shaping(settings),
        **_recency(log, facts),
        "inverse_temperature": facts["inverse_temperature"],
        "ess_wanted_share": facts["wanted_ess"],
        "ess_reached_share": facts["reached_share"],
        "ess_rows": facts["reached_ess"],
        "note": facts["note"],
        "largest_weight_share": facts["largest_weight_share"],
        "expected_reward": finite(facts["expected_reward"]),
        "log_z": _log_z(settings, log, facts["log_z"]),
    }


def _baseline(settings: Settings) -> Manifest:
    """Return the baseline of the score advantage; empty for other scores."""
    if settings.score != "advantage":
        return {}
    moving = {"order_by": settings.order_by, "alpha": settings.ema_alpha, "start": settings.ema_start}
    more = moving if settings.baseline == "ema" else {}
    return {"baseline": {"kind": settings.baseline, "by": settings.baseline_by} | more}


def _recency(log: Log, facts: _core.SelectionFacts) -> Manifest:
    """Return the factor of age on the weights, and the share of ESS before it; empty if none."""
    if log.settings.recency_half_life is None:
        return {}
    law = {"half_life": log.settings.recency_half_life, "order_by": log.settings.order_by, "newest": newest(log)}
    return {"recency": law | {"formula": RECENCY_FORMULA, "ess_share_before": facts["tempered_share"]}}


RECENCY_FORMULA = "the weight of a row is multiplied by 2^(-(newest - order_by) / half_life) before it is normalised"


def _shaping(settings: Settings) -> Manifest:
    """Return the shaping of the reward before it was scored; empty if none."""
    if settings.shaping is None:
        return {}
    law = {"transform": "asymmetric scale", **asdict(settings.shaping), "formula": SHAPING_FORMULA}
    return {"shaping": law | {"tempered": f"the {settings.score} score of the shaped reward"}}


SHAPING_FORMULA = (
    "s(r) = up (r - centre) + centre for r > centre, down (r - centre) + centre below; reward is r everywhere else"
)


def _log_z(settings: Settings, log: Log, facts: _core.LogZ) -> dict[str, Any]:
    values = facts["values"]
    if settings.partition_by == "global":
        return {"scopes": 1, "value": finite(values[0]) if values else None}
    spread = {"scopes": facts["scopes"], "min": facts["min"], "max": facts["max"]}
    if values is None:
        return spread
    names = log.core.names("group" if settings.partition_by == "group" else "partition")
    return spread | {"by_name": redact_names((name, finite(log_z)) for name, log_z in zip(names, values, strict=True))}


def sampler_law(log: Log) -> dict[str, Any]:
    """Return the sampler and its law of probabilities."""
    law = {"sampler": log.settings.sampler, "law": LAWS[log.settings.sampler]}
    if not log.core.streamed:
        return law
    rows_held, _ = log.core.streamed
    return law | {"law": f"{law['law']}; streamed, in one pass", "rows_held": rows_held}


LAWS = {
    "gumbel": "without replacement, Plackett-Luce: each next row in proportion to weight among those left",
    "weighted-reservoir": "without replacement, Plackett-Luce: each next row in proportion to weight among those left",
    "reservoir": "without replacement, every set of rows alike; weights are not looked at",
    "systematic": "with replacement: a row of probability p is drawn k p times, rounded up or down",
    "multinomial": "with replacement: k independent draws in proportion to weight",
    "all": "every kept row once, weights in log_weight",
}


def count_drawn(log: Log, written: _core.DraftFacts, wanted: int | None) -> dict[str, Any]:
    """Return the number of rows wanted and drawn, of their groups, and of rows that could not be written."""
    rows = written["rows"]
    groups, without = log.core.count_of("group", rows)
    return {
        "rows_wanted": wanted if wanted is not None else len(rows) + sum(dict(written["dropped"]).values()),
        "rows": len(rows),
        "distinct_rows": len(set(rows)),
        "duplicate_rows": written["duplicates"],
        "distinct_groups": len(groups),
        "rows_without_group": without,
        "failed": dict(written["dropped"]),
        "over_group_cap": written["over_group_cap"],
    }


def draw_threshold(log: Log, written: _core.DraftFacts) -> float | None:
    """Return the key of the first row not drawn.

    Row i was among the drawn with probability 1 - exp(-exp(log w_i - threshold)), given the keys of the others. An
    estimate over drawn rows that divides by it is unbiased. A cap per group breaks it: there is none then.
    """
    settings = log.settings
    plain = settings.sampler in ("gumbel", "weighted-reservoir") and settings.per is None
    capped = settings.max_per_group is not None or not plain
    return None if capped else written["threshold"]


def count_strata(per: dict[str, str], written: _core.DraftFacts) -> dict[str, Any]:
    """List each stratum: the rows that may be drawn, those it was to have, those it has; of many the largest."""
    counts = [
        (stratum["name"] or "", {"kept": stratum["kept"], "asked": stratum["budget"], "drawn": stratum["drawn"]})
        for stratum in written["strata"]
    ]
    [(field, deal)] = per.items()
    return {"field": field, "deal": deal, "count": written["strata_count"], "by_name": redact_names(counts)}


def count_domains(log: Log, rows: list[int] | None) -> dict[str, Any]:
    """Count the rows of each domain in the log, and among drawn rows where there are some; of many the largest."""
    domains = log.core.domains(rows)
    drawn = rows is not None
    counts = ((name, {"before": all_} | ({"after": after} if drawn else {})) for name, all_, after in domains["listed"])
    rest = {"other_domains": domains["others"], "rows_of_other_domains": domains["other_rows"]}
    return {"domains": redact_names(counts)} | (rest if domains["other_rows"] else {})


def mixed_numbers(log: Log) -> dict[str, Any]:
    """List the columns that spell one number in several ways, with the first such number; usually empty."""
    columns = {field: log.core.mixed_numbers(field) for field in ("group", "domain", "partition")}
    listed = {
        field: {"numbers": mixed[0], "first": [_core.redacted(name) for name in mixed[1]]}
        for field, mixed in columns.items()
        if mixed
    }
    return {"mixed_numbers": listed} if listed else {}


def redact_names(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Map names from the log, redacted, to values; names that become equal get a number."""
    by_name: dict[str, Any] = {}
    repeats: dict[str, int] = {}
    for name, value in values:
        clean = first = _core.redacted(name)
        while clean in by_name:
            repeats[first] = repeats.get(first, 1) + 1
            clean = f"{first}+{repeats[first]}"
        by_name[clean] = value
    return by_name


def _export(written: _core.DraftFacts) -> dict[str, Any]:
    trimmed = {"rows": written["trimmed_rows"], "messages": written["trimmed_messages"]}
    return {
        "shape": written["shape"],
        "splits": dict(zip(SPLITS, written["splits"], strict=True)),
        "quotas": _quotas(written),
        "merged_into_train": {
            name: rows for name, rows in zip(SPLITS, written["merged_into_train"], strict=True) if rows
        },
        "trimmed_after_last_assistant_turn": trimmed,
        **({"rows_with_duplicate_keys": written["doubled_rows"]} if written["doubled_rows"] else {}),
        **({"reasoning_left_out": written["reasoning_left_out"]} if written["reasoning_left_out"] else {}),
        **({"label_above": written["label_above"]} if written["label_above"] is not None else {}),
    } | _larger_split(written)


def _larger_split(written: _core.DraftFacts) -> dict[str, Any]:
    """Return fractions that leave enough rows in each split, and these rows; empty unless one has too few."""
    if written["larger_split"] is None:
        return {}
    shares, rows = written["larger_split"]
    return {
        "larger_split": {"split": [round(share, 9) for share in shares], "rows": dict(zip(SPLITS, rows, strict=True))}
    }


def _quotas(written: _core.DraftFacts) -> dict[str, dict[str, float]]:
    """List the rows that each split was to have, those it has, and its groups."""
    each = zip(SPLITS, written["split_quotas"], written["splits"], written["split_groups"], strict=True)
    return {name: {"wanted": round(wanted, 3), "rows": rows, "groups": groups} for name, wanted, rows, groups in each}


def describe_inputs(log: Log) -> list[dict[str, Any]]:
    """Return facts about each file: path, hash and counts."""
    if log.objects:
        return [_describe_object(log, file) for file in log.inputs]
    hashes = log.core.hashes(log.settings.hash_inputs)
    covers = "whole file" if log.settings.hash_inputs else "first and last MiB"
    if log.core.streamed:
        covers = "whole stream"
    sums = {path: {summed.name: summed.columns} for path, summed in log.summed}
    return [
        _counts(file)
        | {"xxh3_128": digest, "hash_covers": covers}
        | ({"summed_columns": sums[file["path"]]} if file["path"] in sums else {})
        for file, digest in zip(log.inputs, hashes, strict=True)
    ]


def _counts(file: _core.InputFacts) -> Manifest:
    """Return the facts about a file that reading it gave."""
    facts: Manifest = {name: fact for name, fact in file.items() if name != "orders"}
    return facts | {"fields": dict(file["fields"]), "dropped": dict(file["dropped"])}


def _describe_object(log: Log, file: _core.InputFacts) -> Manifest:
    """Return facts about a file that workers read: its ETag in the place of its hash."""
    facts = log.objects.get(file["path"])
    return _counts(file) | ({"codec": facts.codec, "etag": facts.version} if facts else {}) | {"xxh3_128": None}


def describe_run(log: Log, seconds: float | None = None, failed: Sequence[_core.FailedRow] = ()) -> dict[str, Any]:
    """Return facts about the run itself: place, time, skipped files and failed rows; no other part depends on them."""
    unsupported = [(path, skip_reason(path)) for path in log.passed if not path.endswith(PARQUET)]
    return (
        {
            "seconds": seconds,
            "threads": log.settings.threads,
            "settings_from": log.settings.chosen(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "platform": f"{os.uname().sysname}-{os.uname().machine}",
            "streamed": log.core.streamed is not None,
            "skipped": [{"path": path, "reason": reason} for path, reason in (*log.core.skipped(), *log.skipped)],
            "refused": [{"path": path, "reason": reason} for path, reason in sorted(log.core.refused() + unsupported)],
            "parquet_passed": [path for path in log.passed if path.endswith(PARQUET)],
            "columns_left_out": _left_out(log),
            "failed_rows": list(failed),
        }
        | ({"missing_rewards": list(log.unrewarded)} if log.unrewarded else {})
        | _left_beside(log)
    )


def _left_beside(log: Log) -> dict[str, list[str]]:
    """Return the fields that belong to prompts and are in no row; those of the first records, empty for a stream."""
    if not log.inputs or any(file["format"] != "generic" for file in log.inputs):
        return {}
    keys = unread_prompt_keys(records(log), dict(log.inputs[0]["fields"]))
    return {"left_beside": keys} if keys else {}


def _left_out(log: Log) -> list[dict[str, Any]]:
    """Return the columns of Parquet files that are in no record: the first file, and how many have such a one."""
    files: dict[LeftOut, list[str]] = {}
    for path, column in log.left_out:
        files.setdefault(column, []).append(path)
    return [{**column._asdict(), "path": paths[0], "files": len(paths)} for column, paths in files.items()]


def field_hints(log: Log, report: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return a likely field for the reward if no record has one; empty if one has, or if it was named."""
    settings, account = log.settings, report["accounting"]
    damaged = sum(sum(file["dropped"].values()) for file in report["inputs"])
    if settings.reward is None and 0 < account["dropped"].get("missing_reward", 0) == account["rows_read"] - damaged:
        return {"hints": {"reward": naming_hint("reward", fitting_paths(records(log), "reward"))}}
    return {}


def dumps(manifest: Manifest, *, plain: bool = False) -> str:
    """Return the manifest's text without secrets, with the first files of long lists.

    Personal data, of paths say, is replaced where the run replaced it in rows.
    ``plain`` spells out whatever is not printable ASCII, for a terminal.
    """
    text = json.dumps(_redact(_cut_lists(manifest)), indent=2, ensure_ascii=plain, allow_nan=False)
    text = text.replace("\x7f", "\\u007f")
    key = read_key(manifest.get("settings", {}).get("pseudonyms"))
    return text if key is None else _core.pseudonymous(text, key)


def _redact(value: Any) -> Any:
    """Return a value with the secrets in its texts, which may be paths, redacted; its keys have none."""
    if isinstance(value, str):
        return _core.redacted(value.encode("utf-8", "backslashreplace").decode())
    if isinstance(value, dict):
        return {key: _redact(inner) for key, inner in value.items()}
    return [_redact(inner) for inner in value] if isinstance(value, list | tuple) else value


def _cut_lists(manifest: Manifest) -> Manifest:
    """Cut lists of files to their first, and say under ``not_listed`` how many more there are."""
    inputs, run_ = manifest.get("inputs", []), manifest.get("run", {})
    lists = {"inputs": inputs, **{name: files for name, files in run_.items() if isinstance(files, list)}}
    more = {name: len(files) - LISTED for name, files in lists.items() if len(files) > LISTED}
    if not more:
        return manifest
    short = {name: lists[name][:LISTED] for name in more}
    first = {"inputs": short.pop("inputs")} if "inputs" in short else {}
    return manifest | first | {"run": run_ | short | {"not_listed": more}}


LISTED = 10_000
"""Maximum names or files of a list in a manifest; the extension uses the same limit."""
