"""KARL's rewards in plain Python, both versions, one signal after the other."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise
from typing import Any

FLAGS = (
    ("correction_detected", "r_no_correction", -0.35, 0.35),
    ("redo_detected", "r_no_redo", -0.25, 0.25),
    ("build_success", "r_build_pass", 0.20, -0.10),
    ("session_continued", "r_session_continued", 0.20, 0.0),
)
CHANGES = ("Write", "Edit", "NotebookEdit")
TESTS = ("pytest", "npm test", "bun test", "cargo test", "go test", "make test")
BUILDS = ("xcodebuild", "cargo build", "make ", "npm run build", "bun build")


def reward(record: Any, version: str, weights: tuple[float, ...] = (0.40, 0.35, 0.25)) -> dict[str, Any]:
    given, found, timing = (record.get(key, {}) for key in ("outcome", "trajectory", "timing"))
    if version == "v2":
        found = derived(found)
        weights = (0.25, 0.22, 0.13, 0.13, 0.13, 0.14)
    signals = [outcome(given), process(found, version), efficiency(found, timing, version)]
    names = ["outcome", "process", "efficiency"]
    if version == "v2":
        signals += [verification(found), consistency(found), (motion(found), {})]
        names += ["verification", "consistency", "motion"]
    terms = [weight * score for weight, (score, _) in zip(weights, signals, strict=True)]
    whole = terms[0]
    for term in terms[1:]:
        whole += term
    scores = {f"{name}_score": round(score, 4) for name, (score, _) in zip(names, signals, strict=True)}
    parts = {name: part for _, parts in signals for name, part in parts.items()}
    return {"reward_score": round(whole, 4), **scores, "components": parts}


def clip(score: float) -> float:
    return max(0.0, min(1.0, score))


def rounded(**parts: float) -> dict[str, float]:
    return {name: round(part, 4) for name, part in parts.items()}


def derived(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        return {}
    full = {**found}
    if not full.get("events"):
        calls = found.get("tool_calls")
        full["events"] = [event(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    events = full["events"]
    full["total_tools"] = full.get("total_tools") or found.get("tool_count") or len(events)
    full["tool_counts"] = full.get("tool_counts") or dict(Counter(one.get("tool_name") or "unknown" for one in events))
    usual = {
        "successes": lambda one: one.get("success") is True,
        "failures": lambda one: one.get("success") is False,
        "bash_errors": lambda one: one.get("tool_name") == "Bash" and one.get("success") is False,
    }
    for name, counted in usual.items():
        if full.get(name) is None:
            full[name] = len([one for one in events if counted(one)])
    return full


def event(call: dict[str, Any]) -> dict[str, Any]:
    params = call.get("key_params")
    if not isinstance(params, dict) or not params:
        params = previewed(call.get("input_preview"))
    return {"tool_name": call.get("tool"), "success": call.get("success"), "key_params": params}


def previewed(preview: Any) -> dict[str, Any]:
    text = preview.strip() if isinstance(preview, str) else ""
    try:
        return json.loads(text) if text[:1] == "{" and text[-1:] == "}" else {}
    except json.JSONDecodeError:
        return {}


def outcome(given: Any) -> tuple[float, dict[str, Any]]:
    said = [(given.get(key), name, yes, no) for key, name, yes, no in FLAGS]
    said = [one for one in said if one[0] is not None]
    score, parts = 0.5, {}
    for place, (flag, name, yes, no) in enumerate(said):
        score += yes if flag else no
        good = bool(flag) is (yes > 0)
        parts[name] = 1.0 if good else 0.0
        assert place < 4
    return clip(score), {**parts, "outcome_signals_available": len(said)}


def longest(events: Any) -> int:
    marks = "".join("f" if one.get("success") is False else "." for one in events)
    return max(map(len, marks.split(".")))


def process(found: Any, version: str) -> tuple[float, dict[str, float]]:
    total, events = found.get("total_tools", 0), found.get("events", [])
    late = {"r_temporal_weight": 0.5} if version == "v2" else {}
    if total == 0:
        return 0.5, {"r_success_rate": 0.5, "r_bash_clean": 1.0, "r_error_density": 1.0, **late}
    rate = weighted(events) if version == "v2" else found.get("successes", 0) / total if total > 0 else 0.5
    calls = sum(one.get("tool_name") == "Bash" for one in events)
    clean = 1.0 - found.get("bash_errors", 0) / calls if calls else 1.0
    failed = found.get("failures", 0) > 0
    run = longest(events) if failed else 0
    density = max(0.0, 1.0 - (run - 2) * 0.15) if run >= 3 else 1.0
    parts = {"r_success_rate": rate, "r_bash_clean": clean, "r_error_density": density}
    if version == "v1":
        return clip(rate * 0.45 + clean * 0.30 + density * 0.25), rounded(**parts)
    last = events[len(events) - max(1, len(events) // 4) :] if events else []
    end = max(0.0, 1.0 - sum(one.get("success") is False for one in last) * 0.15)
    blend = rate * 0.40 + clean * 0.25 + density * 0.20 + end * 0.15
    return clip(blend), rounded(**parts, r_temporal_weight=end)


def weighted(events: Any) -> float:
    good = whole = 0.0
    for place, one in enumerate(events):
        weight = 0.5 + place / max(len(events) - 1, 1)
        whole += weight
        good += weight if one.get("success") is not False else 0.0
    return good / whole if whole > 0 else 0.5


def efficiency(found: Any, timing: Any, version: str) -> tuple[float, dict[str, float]]:
    total, counts, seconds = found.get("total_tools", 0), found.get("tool_counts", {}), timing.get("duration_s")
    if total == 0:
        names = ["r_diversity", "r_duration_eff", "r_file_touch", "r_sustained"]
        return 0.5, dict.fromkeys(names[: 3 if version == "v1" else 4], 0.5)
    spread, speed = diversity(counts, total), pace(total, seconds)
    touched = 0
    for tool, count in counts.items():
        if tool in CHANGES:
            touched = touched + count
    touch = min(1.0, touched / max(total * 0.3, 1))
    parts = {"r_diversity": spread, "r_duration_eff": speed, "r_file_touch": touch}
    if version == "v1":
        return clip(spread * 0.35 + speed * 0.35 + touch * 0.30), rounded(**parts)
    held = sustained(total, found.get("successes", 0) or 0, found.get("failures", 0) or 0)
    blend = spread * 0.25 + speed * 0.25 + touch * 0.20 + held * 0.30
    return clip(blend), rounded(**parts, r_sustained=held)


def diversity(counts: Any, total: Any) -> float:
    if len(counts) < 2:
        return 0.3
    shares = [count / total for count in counts.values()]
    entropy = 0.0
    for share in shares:
        entropy -= share * math.log2(share) if share > 0 else 0.0
    return entropy / math.log2(len(counts))


def pace(total: Any, seconds: Any) -> float:
    if not seconds or not seconds > 0:
        return 0.5
    speed = total / seconds * 60
    if speed > 8:
        return 0.8
    if speed >= 2:
        return 1.0
    return 0.6 if speed >= 1 else max(0.2, 0.5 - (1.0 - speed) * 0.3)


def sustained(total: Any, good: Any, bad: Any) -> float:
    rate = good / (good + bad) if good + bad > 0 else 1.0
    if total >= 20:
        return 0.5 + 0.5 * min(1.0, (total - 20) / 40.0) if rate >= 0.85 else 0.4
    return 0.6 if total >= 8 else 0.5


def path(one: Any) -> Any:
    return one.get("key_params", {}).get("file_path", "")


def wrote(one: Any) -> bool:
    return one.get("tool_name") in ("Write", "Edit")


def verification(found: Any) -> tuple[float, dict[str, float]]:
    events = found.get("events", [])
    none = {"r_has_test": 0.0, "r_has_build": 0.0, "r_read_after_write": 0.0}
    if found.get("total_tools", 0) == 0:
        return 0.5, none
    test = build = read = False
    written: set[Any] = set()
    for one in events:
        command = (one.get("key_params", {}).get("command", "") or "").lower()
        test |= one.get("tool_name") == "Bash" and any(word in command for word in TESTS)
        build |= one.get("tool_name") == "Bash" and any(word in command for word in BUILDS)
        if wrote(one) and path(one):
            written.add(path(one))
        read |= one.get("tool_name") == "Read" and bool(written) and path(one) in written
    if not any(tool in found.get("tool_counts", {}) for tool in CHANGES):
        return 0.6, {**none, "r_no_mutation": 1.0}
    score = float(test) * 0.4 + float(build) * 0.3 + (0.3 if read else 0.0) * 0.3
    return clip(score), dict(zip(none, map(float, (test, build, read)), strict=True))


def consistency(found: Any) -> tuple[float, dict[str, float]]:
    if found.get("total_tools", 0) < 3:
        return 0.6, {"r_read_before_write": 0.5, "r_no_thrashing": 1.0}
    read: set[Any] = set()
    prepared, edits = [], Counter[Any]()
    for one in found["events"]:
        if one.get("tool_name") == "Read" and path(one):
            read.add(path(one))
        elif wrote(one) and path(one):
            prepared.append(path(one) in read)
            edits[path(one)] += 1
    before = sum(prepared) / len(prepared) if prepared else 0.5
    often = sum(count >= 3 for count in edits.values())
    calm = max(0.0, 1.0 - often * 0.2) if often else 1.0
    return clip(before * 0.6 + calm * 0.4), rounded(r_read_before_write=before, r_no_thrashing=calm)


def motion(found: Any) -> float:
    if found.get("total_tools", 0) < 3:
        return 0.8
    events = found["events"]
    runs: list[list[Any]] = []
    for one in events:
        if runs and one.get("tool_name") and runs[-1][-1].get("tool_name") == one.get("tool_name"):
            runs[-1].append(one)
        else:
            runs.append([one])
    stuck = sum(len(run) > 2 and any(one.get("success") is False for one in run) for run in runs)
    bad = [one.get("tool_name") == "Bash" and one.get("success") is False for one in events]
    loops = sum(first and second for first, second in pairwise(bad))
    read = [path(one) for one in events if one.get("tool_name") == "Read" and path(one)]
    written = {path(one) for one in events if wrote(one) and path(one)}
    idle = len([one for one in read if one not in written]) / max(len(read), 1)
    pairs = pairwise(events)
    undone = sum(wrote(one) and wrote(two) and bool(path(two)) and path(one) == path(two) for one, two in pairs)
    return clip(math.exp(-0.15 * (stuck * 2 + loops * 1.5 + undone + idle * 3.0)))
