"""The experiments of docs/proof.md on a real model: one file of settings each, one record each.

    python benches/proof/proof.py benches/proof/draws.toml --model MODEL --work runs/proof [--jobs 2] [--smoke]

An experiment has arms and seeds. A seed decides all that is random: the questions, the log, the held-out questions, the
draw and the training. Each arm of a seed is a chain of commands of karl-fast, which are printed; what it measures is
written beside its files, so that a run that was stopped continues where it was. At the end the record of the experiment
is written to benches/record/proof-NAME.json; `benches/proof/figures.py` draws the records.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "record"))
import trials  # noqa: E402

SQL = ROOT / "examples" / "rl" / "sql.py"
Settings = dict[str, Any]
Measures = dict[str, float]

KARL_THRESHOLDS = (0.0, 0.1, 0.3)
"""KARL copies a row of a larger advantage than these once, twice or three times."""


class Chain:
    """Commands of one arm and seed, with the processor time that they took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 0.0

    def run(self, *command: Any) -> None:
        """Run `karl-fast` or a script, its output in a log beside the files."""
        words = [str(word) for word in command]
        program = [sys.executable] if words[0].endswith(".py") else [sys.executable, "-m", "karl_fast"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(words)}\n")
            log.flush()
            process = subprocess.Popen([*program, *words], stdout=log, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds += used.ru_utime + used.ru_stime
        if process.returncode:
            raise SystemExit(f"{shlex.join(words)} ended with {process.returncode}: see {self.folder / 'log.txt'}")


def flags(settings: Settings) -> list[str]:
    """Options of a command from a table."""
    names = {name: f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}" for name in settings}
    return [word for name, value in settings.items() for word in (names[name], str(value))]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_toml(path: Path, settings: Settings, tables: dict[str, Settings]) -> None:
    """Write flat tables as TOML, whose values are those of JSON."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    for title, table in tables.items():
        lines += [f"\n[{title}]", *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in table.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Draws from a log


def write_questions(chain: Chain, settings: Settings, seed: int) -> Path:
    """Write prompts, held-out prompts and the log of a seed, once."""
    folder = chain.folder / "questions"
    if not (folder / "attempts.jsonl").exists():
        chain.run(SQL, folder, "--seed", 1 + seed, *flags(settings["questions"]))
    return folder


def write_copies(log: Path, out: Path) -> None:
    """Write KARL's draw: copies of a row by its advantage over the mean of its group."""
    rows, by_group = read_lines(log), defaultdict(list)
    for row in rows:
        by_group[row["group"]].append(row["reward"])
    copies = []
    for row in rows:
        advantage = row["reward"] - float(np.mean(by_group[row["group"]]))
        copies += [{"messages": row["messages"]}] * sum(advantage > threshold for threshold in KARL_THRESHOLDS)
    write_lines(out / "train.jsonl", copies)


def draw(chain: Chain, log: Path, out: Path, arm: Settings, seed: int) -> None:
    """Write the data set of an arm."""
    if arm.get("copies"):
        write_copies(log, out)
    else:
        chain.run("sample", log, "-o", out, "--force", "--split", "1,0,0", "--seed", seed, *flags(arm))


def attempt(
    chain: Chain, prompts: Path, model: str, adapter: Path | None, out: Path, settings: Settings, seed: int
) -> None:
    """Attempt prompts with an adapter, or with the model alone."""
    config = out.with_suffix(".toml")
    paths = {"model": model, "prompts": str(prompts), "out": str(chain.folder / "unused")}
    write_toml(config, paths | settings["rollouts"], {"rewards": {f"{SQL}:correct": 1.0}})
    with_adapter = [] if adapter is None else ["--adapter-path", adapter]
    chain.run(
        *("eval", prompts, "--rollouts", "--config", config, "--out", out, "--force"),
        *("--seed", seed, "--attempts", settings["attempts"], *with_adapter),
    )


def evaluate(
    chain: Chain, questions: Path, model: str, adapter: Path | None, settings: Settings, seed: int
) -> Measures:
    """Attempt the held-out prompts: shares solved, and how many different right answers there are."""
    out = chain.folder / "evaluation"
    attempt(chain, questions / "held-out.jsonl", model, adapter, out, settings, seed)
    return measure_attempts(out / "rollouts.jsonl")


def measure_attempts(log: Path) -> Measures:
    """Compute measures of a log of attempts."""
    by_prompt: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for row in read_lines(log):
        text = row["messages"][-1]["content"] if row["messages"][-1]["role"] == "assistant" else ""
        query = " ".join(text.lower().split()).rstrip("; ")  # spellings of one query are one answer
        by_prompt[row["group"]].append((row["reward"] or 0.0, query))
    right = [[text for reward, text in attempts if reward == 1.0] for attempts in by_prompt.values()]
    number = len(next(iter(by_prompt.values())))
    return {
        "reward": float(np.mean([reward for attempts in by_prompt.values() for reward, _ in attempts])),
        "solved": float(np.mean([len(texts) / number for texts in right])),
        "solved_once": float(np.mean([bool(texts) for texts in right])),
        "different_right": float(np.mean([len(set(texts)) for texts in right])),
        "distinct": float(np.mean([len({text for _, text in attempts}) / number for attempts in by_prompt.values()])),
    }


def draws(chain: Chain, model: str, settings: Settings, arm: Settings, seed: int) -> Measures:
    """Draw a data set, train an adapter on it, and attempt the held-out questions."""
    questions = write_questions(chain, settings, seed)
    if arm.get("untrained"):
        return evaluate(chain, questions, model, None, settings, seed)
    data, adapter, own = chain.folder / "data", chain.folder / "adapter", dict(arm)
    training = settings["train"] | own.pop("train", {})
    draw(chain, questions / "attempts.jsonl", data, own, seed)
    chain.run(
        *("train", data, "--model", model, "--adapter-path", adapter, "--force", "--seed", seed),
        *flags(training),
    )
    rows = len(read_lines(data / "train.jsonl"))
    tokens = read_lines(adapter / "metrics.jsonl")[-1]["learned_tokens"]
    measures = evaluate(chain, questions, model, adapter, settings, seed)
    return measures | {"rows": rows, "learned_tokens": tokens}


# Online from an adapter


MISMATCH = ("mismatch", "mismatch_k3", "mismatch_chi2", "correction_high", "correction_ess", "grad_norm")
CURVES = ("outcome", "entropy", "groups_mixed", *MISMATCH)


def online(chain: Chain, model: str, settings: Settings, arm: Settings, seed: int) -> Measures:
    """Continue the adapter of the arm `start` by rounds of `rl`, and attempt the held-out questions.

    A teacher is the policy that another arm, which stands before this one, ended with.
    """
    own = dict(arm)
    if not (recipe := own.pop("recipe", "")):
        return draws(chain, model, settings, arm, seed)
    start = chain.folder.parent / f"start-{seed}"
    config, out = chain.folder / "rl.toml", chain.folder / "run"
    paths = {"model": model, "adapter": str(start / "adapter"), "out": str(out)}
    paths["prompts"] = str(start / "questions" / "prompts.jsonl")
    paths["recipe"] = str(Path(__file__).parent / recipe) if recipe.endswith(".toml") else recipe
    if teacher := own.pop("teacher", ""):
        paths |= {"teacher": model, "teacher_adapter": str(chain.folder.parent / f"{teacher}-{seed}" / "run")}
    run = paths | settings["rollouts"] | settings["rl"] | own
    write_toml(config, run | {"seed": seed}, {"rewards": {f"{SQL}:correct": 1.0}})
    chain.run("rl", "--config", config)
    rounds = read_lines(out / "metrics.jsonl")
    measures = evaluate(chain, start / "questions", model, out, settings, seed)
    curves = {name: [line[name] for line in rounds] for name in CURVES if name in rounds[0]}
    write_lines(chain.folder / "curves.jsonl", [curves])
    means = {name: float(np.mean(values)) for name, values in curves.items() if name in MISMATCH}
    return measures | means | {"outcome_last": float(np.mean(curves["outcome"][-3:]))}


# The loop, week by week


def shuffle_rewards(log: Path, out: Path, seed: int) -> None:
    """Write a log whose rewards belong to other rows: what a broken reward function leaves."""
    rows = read_lines(log)
    rewards = np.random.default_rng(seed).permutation([row["reward"] for row in rows])
    write_lines(out, [row | {"reward": float(reward)} for row, reward in zip(rows, rewards, strict=True)])


def write_cycle(path: Path, log: Path, questions: Path, model: str, settings: Settings, seed: int) -> None:
    """Write the file of `cycle`."""
    tables = {
        "cycle": {"folder": str(path.parent / "cycle")},
        "convert": {"sources": [str(log)]},
        "sample": settings["sample"] | {"seed": seed},
        "train": settings["train"] | {"model": model, "seed": seed},
        "eval": {"data": str(questions / "held-out.jsonl"), "attempts": settings["attempts"], "seed": seed},
        "rl": settings["rollouts"],
        "rl.rewards": {f"{SQL}:correct": 1.0},
        "promote": {"confidence": 0.95},
    }
    write_toml(path, {}, tables)


def weeks(chain: Chain, model: str, settings: Settings, arm: Settings, seed: int) -> Measures:
    """Run `cycle` each week: on the log of an agent, on the adapter's own attempts, on the same with wrong rewards."""
    questions = write_questions(chain, settings, seed)
    config, log, attempts = (chain.folder / name for name in ("cycle.toml", "week.jsonl", "attempts"))
    write_cycle(config, log, questions, model, settings, seed)
    prompts = read_lines(questions / "prompts.jsonl")
    first, second = prompts[: len(prompts) // 2], prompts[len(prompts) // 2 :]
    write_lines(attempts / "prompts.jsonl", second)
    asked = {line["id"] for line in first}
    for week in (1, 2, 3):
        if week == 1:
            write_lines(log, [row for row in read_lines(questions / "attempts.jsonl") if row["group"] in asked])
        elif week == 2:
            current = chain.folder / "cycle" / "adapters" / "current"
            adapter = current if current.exists() else None
            attempt(chain, attempts / "prompts.jsonl", model, adapter, attempts / "log", settings, seed)
            write_lines(log, read_lines(attempts / "log" / "rollouts.jsonl"))
        else:
            shuffle_rewards(attempts / "log" / "rollouts.jsonl", log, seed)
        chain.run("cycle", config)
    return measure_weeks(chain.folder)


def measure_weeks(folder: Path) -> Measures:
    """Read what the gate saw and decided in each week."""
    measures: Measures = {}
    for week, file in enumerate(sorted((folder / "cycle" / "runs").glob("*.json")), 1):
        run = json.loads(file.read_text("utf-8"))
        measures[f"week_{week}_promoted"] = float(run["promoted"])
        measures[f"week_{week}_before"], measures[f"week_{week}_after"] = run["held_out_before"], run["held_out_after"]
        said = re.search(r": p (\S+) at look (\d+), wanted at most (\S+)", run["why"])
        if said:
            measures[f"week_{week}_p"], measures[f"week_{week}_level"] = float(said[1]), float(said[3])
    return measures


# Long sessions


def write_sessions(log: Path, settings: Settings, seed: int) -> None:
    """Write sessions of many right answers about one table, whose columns are named in the first message alone."""
    sys.path.append(str(SQL.parent))
    import sql

    draw = random.Random(1 + seed)
    sessions = []
    for number in range(settings["sessions"]["number"]):
        table = list(sql.TABLES)[number % len(sql.TABLES)]
        messages: list[dict[str, str]] = []
        for turn in range(settings["sessions"]["turns"]):
            line = sql.prompt_line(table, sql.TABLES[table], sql.LEVELS[turn % len(sql.LEVELS)], draw)
            columns, _, question = line["prompt"].partition("\n")
            messages.append({"role": "user", "content": question if turn else f"{columns}\n{question}"})
            messages.append({"role": "assistant", "content": draw.choice(line["right"])})
        sessions.append({"messages": messages})
    write_lines(log, sessions)


def sessions(chain: Chain, model: str, settings: Settings, arm: Settings, seed: int) -> Measures:
    """Train on long sessions, whole or their tails, and attempt held-out questions."""
    questions, data, adapter = write_questions(chain, settings, seed), chain.folder / "data", chain.folder / "adapter"
    write_sessions(data / "train.jsonl", settings, seed)
    words = flags(settings["train"] | arm)
    chain.run("train", data, "--model", model, "--adapter-path", adapter, "--force", "--seed", seed, *words)
    tokens = read_lines(adapter / "metrics.jsonl")[-1]["learned_tokens"]
    return evaluate(chain, questions, model, adapter, settings, seed) | {"learned_tokens": tokens}


EXPERIMENTS = {"draws": draws, "online": online, "sessions": sessions, "weeks": weeks}


def run_arm(name: str, seed: int, given: argparse.Namespace, settings: Settings) -> Measures:
    """Run an arm of a seed, or read what it measured before."""
    folder = given.work / given.name / f"{name}-{seed}"
    finished, stamp = folder / "measures.json", json.dumps(settings_of(name, settings), sort_keys=True)
    if finished.exists():
        if (folder / "settings.json").read_text("utf-8") != stamp:
            raise SystemExit(f"{folder} was measured with other settings: move it away, or choose another --work")
        return json.loads(finished.read_text("utf-8")) | measure_again(folder)
    shutil.rmtree(folder, ignore_errors=True)
    chain = Chain(folder)
    measures = EXPERIMENTS[settings["experiment"]](chain, given.model, settings, settings["arms"][name], seed)
    measures["cpu_seconds"] = round(chain.seconds, 1)
    (folder / "settings.json").write_text(stamp, encoding="utf-8")
    finished.write_text(json.dumps(measures), encoding="utf-8")
    print(f"{name}, seed {seed}: {json.dumps(measures)}", file=sys.stderr, flush=True)
    return measures


def settings_of(name: str, settings: Settings) -> Settings:
    """Return the settings that an arm of a seed depends on."""
    others = ("question", "seeds", "baseline", "measures", "arms", "smoke")
    start = settings["arms"].get("start")
    return {key: table for key, table in settings.items() if key not in others} | {
        "arm": settings["arms"][name],
        "start": start,
    }


def measure_again(folder: Path) -> Measures:
    """Compute the measures that the logs of a finished arm hold: a changed measure needs no new run."""
    log = folder / "evaluation" / "rollouts.jsonl"
    return measure_attempts(log) if log.exists() else measure_weeks(folder)


def run_arms(given: argparse.Namespace, settings: Settings) -> trials.Runs:
    """Run all arms of all seeds, those that others start from first."""
    arms, seeds = settings["arms"], settings["seeds"]
    runs: trials.Runs = {arm: [] for arm in arms}
    with ThreadPoolExecutor(given.jobs) as pool:
        for names in ([name for name in arms if name == "start"], [name for name in arms if name != "start"]):
            pairs = [(arm, seed) for seed in seeds for arm in names]
            for (arm, _), measures in zip(
                pairs, pool.map(lambda pair: run_arm(*pair, given, settings), pairs), strict=True
            ):
                runs[arm].append(measures)
    return runs


def read_curves(given: argparse.Namespace, settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """Read the rounds of the arms that have some, by arm and seed."""
    files = {
        arm: [given.work / given.name / f"{arm}-{seed}" / "curves.jsonl" for seed in settings["seeds"]]
        for arm in settings["arms"]
    }
    return {arm: [read_lines(path)[0] for path in paths] for arm, paths in files.items() if paths[0].exists()}


def smaller(settings: Settings) -> Settings:
    """Shrink an experiment to what takes seconds: it shows that the chain runs, and nothing else."""
    return settings | {"seeds": [0], "attempts": 2} | settings.get("smoke", {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--model", default=os.environ.get("KARL_FAST_REAL_MODEL"), help="default: KARL_FAST_REAL_MODEL")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "proof")
    parser.add_argument("--jobs", type=int, default=1, help="chains at a time")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    if not given.model:
        raise SystemExit("--model, or the variable KARL_FAST_REAL_MODEL, names the folder of a pretrained model")
    given.model, given.work = str(Path(given.model).resolve()), given.work.resolve()
    given.name = given.experiment.stem + ("-smoke" if given.smoke else "")
    settings = tomllib.loads(given.experiment.read_text("utf-8"))
    settings = smaller(settings) if given.smoke else settings
    runs = run_arms(given, settings)
    if given.smoke:  # one seed has no interval
        print(json.dumps(runs, indent=1))
        return
    if settings["baseline"] != "start":
        runs.pop("start", None)
    names = set.intersection(*(set(seed) for seeds in runs.values() for seed in seeds))
    runs = {
        arm: [{name: seed[name] for name in seed if name in names} for seed in seeds] for arm, seeds in runs.items()
    }
    measures = settings["measures"]
    shown = {arm: [{name: seed[name] for name in measures} for seed in seeds] for arm, seeds in runs.items()}
    trials.show(shown, settings["baseline"])
    trials.keep(f"proof-{given.name}", settings, runs, settings["baseline"], curves=read_curves(given, settings))


if __name__ == "__main__":
    main()
