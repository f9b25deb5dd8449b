"""Pages of what was judged: an evaluation by rollouts, and the runs of a cycle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karl_fast._plots import Curve, Item, Mark, Plot, dots, lines, number, table
from karl_fast._safe_text import counted, in_time
from karl_fast.cycle.records import CycleRecords
from karl_fast.errors import DataSetError, FileError
from karl_fast.evaluation.rollouts import IDENTITY, RESULT
from karl_fast.page.document import Fact, Page, Section, definitions, folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Record = dict[str, Any]


def is_evaluation(folder: Path) -> bool:
    """Return whether a folder is that of a finished evaluation by rollouts."""
    return (folder / IDENTITY).is_file() and (folder / RESULT).is_file()


def is_cycle(folder: Path) -> bool:
    """Return whether a folder is the working folder of a cycle that ran."""
    return (folder / "done").is_dir() and any((folder / "runs").glob("[0-9]*.json"))


def evaluation_page(folder: Path) -> Page:
    """Return the page of an evaluation by rollouts, without its attempts.

    Raises:
        FileError: a file cannot be read.
        DataSetError: it is not what an evaluation writes.
    """
    result, identity = _read(folder / RESULT), _read(folder / IDENTITY)
    if not {"measures", "prompts", "attempts"} <= result.keys():
        raise DataSetError(f"{folder / RESULT} has no measures, wanted the result of karl-fast eval --rollouts")
    return Page(
        "Evaluation",
        str(folder),
        _evaluation_sentence(result),
        list(_evaluation_facts(result)),
        list(_evaluation_sections(result)),
        how=[_how(identity)],
    )


def _read(path: Path) -> Record:
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    except (ValueError, RecursionError) as error:
        raise DataSetError(f"{path} is not JSON") from error
    if not isinstance(value, dict):
        raise DataSetError(f"{path} is not a JSON object")
    return value


def _evaluation_sentence(result: Mapping[str, Any]) -> str:
    reward = result["measures"].get("reward")
    prompts = f"{counted(result['prompts'], 'prompt')}, {counted(result['attempts'], 'attempt')} each"
    if reward is None:
        return f"No attempt has a reward: {prompts}."
    value = f"mean reward {number(reward['value'])}{_interval(reward)}"
    difference = (result.get("differences") or {}).get("reward")
    if difference is None:
        return f"{value[0].upper()}{value[1:]} on {prompts}."
    low, high = difference["low"], difference["high"]
    change = f"by {number(abs(difference['value']))}"
    if low is not None and low > 0:
        verdict = f"Better {change} (at least {number(low)})"
    elif high is not None and high < 0:
        verdict = f"Worse {change} (at least {number(-high)})"
    else:
        verdict = f"No difference is sure: {number(difference['value'])}{_interval(difference)}"
    return f"{verdict}; {value} on {prompts}."


def _interval(measure: Mapping[str, Any]) -> str:
    if measure.get("low") is None or measure.get("high") is None:
        return ""
    return f" ({number(measure['low'])} to {number(measure['high'])})"


def _evaluation_facts(result: Mapping[str, Any]) -> Iterator[Fact]:
    too_long = result.get("too_long")
    yield Fact("prompts", result["prompts"], remark=f"{too_long:,} more are too long" if too_long else "")
    yield Fact("attempts at each", result["attempts"])
    against = result.get("against") or {}
    for name in list(result["measures"])[:3]:
        measure, other = result["measures"][name], against.get(name)
        before = None if other is None else other["value"]
        yield Fact(name, measure["value"], before, _interval(measure).strip(" ()"))
    if result.get("missing"):
        yield Fact("missing rewards", sum(result["missing"].values()))
    if result.get("truncated"):
        yield Fact("cut attempts", result["truncated"], remark="by a limit of tokens")


def _evaluation_sections(result: Mapping[str, Any]) -> Iterator[Section]:
    against, differences = result.get("against") or {}, result.get("differences") or {}
    shares = {name: part for name, part in result["measures"].items() if 0 <= part["value"] <= 1}
    items = [
        Item(name, part["value"], against.get(name, {}).get("value"), part["low"], part["high"])
        for name, part in shares.items()
    ]
    note = "coloured with its interval; grey: what it is compared with" if against else "with its interval over prompts"
    columns = ("measure", "against", "value", "low", "high", "")
    plots: list[Plot | str] = (
        [dots("Mean over the prompts", items, note=note, axis="", columns=columns)] if items else []
    )
    rows = [
        (name, part["value"], part["low"], part["high"], part["prompts"]) for name, part in result["measures"].items()
    ]
    heads = ("measure", "value", "low", "high", "prompts")
    yield Section("Measures", [*plots, folded("Every measure", table(heads, rows))])
    if differences:
        items = [
            Item(name, part["value"], low=part["low"], high=part["high"], remark=f"p {number(part['p'])}")
            for name, part in differences.items()
            if name in shares
        ]
        rows = [(name, part["value"], part["low"], part["high"], part["p"]) for name, part in differences.items()]
        columns = ("measure", "", "difference", "low", "high", "p")
        plot = dots("Difference on the same prompts", items, axis="new less old", columns=columns)
        numbers = folded("Every difference", table(("measure", "difference", "low", "high", "p"), rows))
        note = "Of each prompt the new less the old; p is one-sided, of a difference of 0 or less."
        yield Section("Differences", [plot, numbers] if items else [numbers], note)
    if missing := result.get("missing"):
        yield Section("Missing rewards", [table(("reason", "attempts"), list(missing.items()))])


def _how(identity: Mapping[str, Any]) -> Section:
    rows = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in sorted(identity.items())]
    return Section("How it was made", [folded("Settings", table(("setting", "value"), rows))])


def cycle_page(folder: Path) -> Page:
    """Return the page of a cycle: its runs, held-out rewards before and after each, and what was promoted.

    Raises:
        CheckpointError: a record is damaged.
    """
    runs = CycleRecords(folder).read_runs()
    return Page(
        "Cycle",
        str(folder),
        _cycle_sentence(runs),
        list(_cycle_facts(runs)),
        [Section("Held-out data", _cycle_plots(runs)), Section("Runs", [_runs_table(runs)])],
        how=[Section("How it was made", [definitions([("file", runs[-1].get("file", ""))]), *_step_tables(runs[-1])])],
        going_on=runs[-1]["state"] == "running",
    )


def _cycle_sentence(runs: Sequence[Record]) -> str:
    last = runs[-1]
    promoted = sum(bool(run.get("promoted")) for run in runs)
    refused = sum(run.get("promoted") is False for run in runs)
    head = f"{counted(len(runs), 'run')}: {promoted:,} promoted, {refused:,} refused"
    state = f"the last {last['state']}"
    if last.get("held_out_after") is not None:
        before = last.get("held_out_before")
        first = "unknown" if before is None else number(before)
        state += f", held-out {last.get('unit', 'reward')} {first} \u2192 {number(last['held_out_after'])}"
    why = f"; {last['why']}" if last.get("why") else ""
    return f"{head}; {state}{why}."


def _cycle_facts(runs: Sequence[Record]) -> Iterator[Fact]:
    last = runs[-1]
    yield Fact("runs", len(runs), remark=last["state"])
    yield Fact("promoted", sum(bool(run.get("promoted")) for run in runs))
    if "rows_drawn" in last:
        yield Fact("rows", last["rows_drawn"], last["rows_read"])
        yield Fact("mean reward", last["reward_drawn"], last["reward_logged"])
    if last.get("held_out_after") is not None:
        yield Fact(f"held-out {last.get('unit', '')}".strip(), last["held_out_after"], last.get("held_out_before"))
    yield Fact("time", in_time(sum(run.get("seconds", 0) for run in runs)))


def _cycle_plots(runs: Sequence[Record]) -> list[Plot | str]:
    unit = runs[-1].get("unit")
    judged = [run for run in runs if run.get("held_out_after") is not None and run.get("unit") == unit]
    after = [(float(run["run"]), float(run["held_out_after"])) for run in judged]
    before = [
        (float(run["run"]), float(run["held_out_before"])) for run in judged if run.get("held_out_before") is not None
    ]
    if len(after) < 2:
        return []
    curves = [Curve(before, "in use", kind="other"), Curve(after, "new", dotted=True)]
    marks = [Mark(float(run["run"]), "promoted") for run in judged if run.get("promoted")]
    return [lines(f"Held-out {unit}", curves, axis="run", marks=marks, small=False)]


def _runs_table(runs: Sequence[Record]) -> str:
    heads = ("run", "started", "state", "read", "drawn", "reward read", "reward drawn", "in use", "new", "decision")
    names = ("rows_read", "rows_drawn", "reward_logged", "reward_drawn", "held_out_before", "held_out_after")
    rows = []
    for run in reversed(runs):
        started = run["started"][:16].replace("T", " ")
        rows.append((run["run"], started, run["state"], *(run.get(name) for name in names), _decision(run)))
    return table(heads, rows)


def _decision(run: Mapping[str, Any]) -> str:
    if "error" in run:
        return str(run["error"]).partition("\n")[0]
    if "promoted" not in run:
        return ""
    return f"{'promoted' if run['promoted'] else 'refused'}, {run['why']}"


def _step_tables(run: Mapping[str, Any]) -> list[str]:
    rows = [
        (name, step["state"], step.get("seconds"), " ".join(step.get("arguments", ())))
        for name, step in run["steps"].items()
    ]
    return [folded("Steps of the last run", table(("step", "state", "seconds", "command"), rows))]
