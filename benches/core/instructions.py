"""How many instructions the hot loops take, against the stored baseline: a clock that a busy machine cannot disturb.

Each Rust bench of `benches/core` runs once under callgrind, which counts within `karl_bench::counted` alone. Counts of
another compiler, target or valgrind than the baseline's are shown beside it, and then prove nothing.

    python benches/core/instructions.py               # exit 1 where something takes 3 % more than it did
    python benches/core/instructions.py log::read     # those whose names begin so
    python benches/core/instructions.py --update      # these are the new baseline
    python benches/core/instructions.py --smoke       # does it still count?
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASELINE = ROOT / "benches/record/instructions.json"
TOLERANCE = 0.03  # maps with random hashes move a count by less than a thousandth; the rest is room
CASES = [
    "core::boltzmann_by_ess",
    "core::boltzmann_given",
    "core::gumbel_keys",
    "core::id_hash",
    "core::log_sum_exp",
    "core::top",
    "core::zscore::false",
    "core::zscore::true",
    "log::check::Big",
    "log::check::Small",
    "log::make_rows::Chat",
    "log::make_rows::Raw",
    "log::parse_rewards",
    "log::read::Big",
    "log::read::Small",
    "log::redact",
    "log::scan_fields::Big",
    "log::scan_fields::Small",
    "log::split_lines::Big",
    "log::split_lines::Small",
    "objective::delight",
    "objective::flow::false",
    "objective::flow::true",
    "objective::likelihood",
    "objective::on_policy",
    "objective::sequence",
    "objective::soft_gate",
    "objective::target",
    "objective::token",
    "objective::token_k3",
]
SMOKE = ["core::log_sum_exp", "log::parse_rewards"]


def output(*command: str, **options: object) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT, **options).stdout


def build() -> dict[str, str]:
    """The bench executables by name, built as the repository says and not as the environment does."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_PROFILE_")}
    command = "cargo bench --locked -p karl-bench --benches --no-run --message-format json"
    messages = [json.loads(line) for line in output(*command.split(), env=env).splitlines()]
    return {one["target"]["name"]: one["executable"] for one in messages if one.get("executable")}


def count(executable: str, case: str) -> int:
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*karl_bench*counted*"]
    run = subprocess.run([*tool, executable, "--test", "--exact", case], capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found or found[1] == "0":
        raise SystemExit(f"{case} counted nothing:\n{run.stderr}")
    return int(found[1])


def facts() -> dict[str, str]:
    rustc = output("rustc", "-vV")
    host = re.search(r"^host: (.*)$", rustc, re.MULTILINE)
    return {
        "rustc": rustc.splitlines()[0],
        "target": host[1] if host else "",
        "valgrind": output("valgrind", "--version").strip(),
    }


def compare(counts: dict[str, int], made: dict[str, str]) -> bool:
    """Prints each count beside the baseline's; whether none has grown."""
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"facts": {}, "instructions": {}}
    known, same = baseline["instructions"], baseline["facts"] == made
    grown = []
    for case, now in counts.items():
        change = now / known[case] - 1 if case in known else 0.0
        print(f"{case:28}{now:>16,}  {f'{change:+.2%}' if case in known else 'new'}")
        grown += [case] if change > TOLERANCE else []
    if not same:
        print(f"baseline of {baseline['facts']}, counted with {made}: the changes prove nothing")
    elif grown:
        print(f"more than {TOLERANCE:.0%} above the baseline: {', '.join(grown)}")
    return not (same and grown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of names; all if absent")
    parser.add_argument("--update", action="store_true", help="keep the counts as the baseline")
    parser.add_argument("--smoke", action="store_true", help="two small benches, nothing compared")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        raise SystemExit("instructions are counted by valgrind, which is not installed")
    cases = SMOKE if args.smoke else [case for case in CASES if case.startswith(tuple(args.names or [""]))]
    executables, made = build(), facts()
    counts = {case: count(executables[case.split("::")[0]], case) for case in cases}
    if args.update:
        kept = json.loads(BASELINE.read_text())["instructions"] if args.names and BASELINE.exists() else {}
        BASELINE.write_text(json.dumps({"facts": made, "instructions": {**kept, **counts}}, indent=1) + "\n")
    sound = compare(counts, made)
    raise SystemExit(0 if sound or args.smoke else 1)


if __name__ == "__main__":
    main()
