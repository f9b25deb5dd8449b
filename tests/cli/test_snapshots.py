"""What a person sees, whole: stdout and stderr apart, as files. KARL_FAST_UPDATE=1 writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.run import karl
from tests.unit.convert import made

HERE = Path(__file__).parent / "snapshots"

CASES = {
    "help": "--help",
    "version": "--version",
    "sample-help": "sample --help && sample --help all",
    "sample-help-target": "sample --help target",
    "inspect-help": "inspect --help",
    "audit-help": "audit --help",
    "index-help": "index --help",
    "index": "index tiny.jsonl && index tiny.jsonl",
    "inspect": "inspect tiny.jsonl",
    "inspect-zscore": "inspect tiny.jsonl --score zscore --drop-constant-groups --domain kind --dedup",
    "sample": "sample tiny.jsonl -o data -k 12",
    "sample-dry": "sample tiny.jsonl -k 8 --dry-run --score zscore --inverse-temperature 1.5 --partition-by group",
    "sample-all": "sample tiny.jsonl -o data --sampler all --as text --split 1,0,0",
    "sample-shaped": "sample tiny.jsonl -o data -k 12 --shaping up=1.4,down=1,centre=0.5",
    "inspect-shaped": "inspect tiny.jsonl --score zscore --shaping up=2",
    "sample-too-many": "sample tiny.jsonl -o data -k 1000 --max-per-group 3",
    "sample-rows": "sample tiny.jsonl -o - -k 3 --seed 7",
    "sample-nothing": "sample tiny.jsonl -o data -k 3 --min-reward 100",
    "sample-no-output": "sample tiny.jsonl -k 3",
    "sample-two-temperatures": "sample tiny.jsonl -o data -k 3 --ess 0.5 --inverse-temperature 2",
    "sample-strict": "sample tiny.jsonl -o data -k 3 --strict",
    "no-such-file": "inspect nowhere.jsonl",
    "no-such-option": "sample tiny.jsonl --scor zscore",
    "inspect-binary": "inspect binary",
    "collect-help": "collect --help",
    "collect": "collect --archive archive --from claude-code && collect --archive archive --from claude-code && "
    "collect --archive claude-code && collect --archive archive --from nowhere",
    "compare-help": "compare --help",
    "compare": "sample tiny.jsonl -o a -k 12 -q --domain kind && sample tiny.jsonl -o b -k 20 -q --domain kind "
    "--score zscore --drop-constant-groups && compare a b",
    "report-help": "report --help",
    "report": "report tiny.jsonl -o page.html && report tiny.jsonl -o page.html",
    "show-help": "show --help",
    "show": "show tiny.jsonl -n 3",
    "show-row": "show tiny.jsonl -n 1 --worst && show tiny.jsonl --row nothing",
    "skills-help": "skills --help",
    "surprisal-help": "surprisal --help",
    "train-help": "train --help && train --help all",
    "eval-help": "eval --help && eval --help all",
    "export-help": "export --help",
    "cycle-help": "cycle --help",
    "doctor-help": "doctor --help",
    "convert-help": "convert --help && convert --help all",
    "convert": "convert claude-code -o out.jsonl && convert claude-code -o out.jsonl && convert nowhere -o b.jsonl",
    "convert-no-output": "convert claude-code",
    "convert-refused": "convert claude-code -o out.jsonl.gz && convert claude-code -o out.jsonl -q && "
    "convert out.jsonl -o b.jsonl",
    "outcomes-help": "outcomes --help",
    "outcomes": "outcomes claude-code -o out.jsonl && outcomes claude-code -o out.jsonl && outcomes nowhere -o b.jsonl",
    "pairs-help": "pairs --help",
    "pairs-nothing": "pairs claude-code -o pairs.jsonl",
    "rl-help": "rl --help && rl --help all",
    "ablate-help": "ablate --help",
    "rl-print": "rl --recipe Dr_GRPO --print",
    "version-help": "version --help",
    "no-command": "",
}


BUILD = re.compile(r"^(karl-fast [\d.]+) \(.*\)$", re.MULTILINE)
"""What of the version is of one machine."""

PAGE = re.compile(r"^(written   page\.html: )[\d.]+ kB", re.MULTILINE)
"""The size of a page changes with its style."""


def shown(folder: Path, command: str) -> str:
    done = karl(*command.split(), folder=folder)
    out = BUILD.sub(r"\1 (...)", done.stdout)
    told = PAGE.sub(r"\1... kB", done.stderr)
    return f"$ karl-fast {command}\nexit {done.returncode}\n--- stdout\n{out}--- stderr\n{told}"


def transcripts(folder: Path) -> None:
    """A session, its copy, a torn line, a type that nobody knows, and a document of another tool."""
    session = made.plain()
    session.line("new\x1b[31mtype")
    path = session.write(folder / "a.jsonl")
    (folder / "b.jsonl").write_bytes(path.read_bytes()[:-40])
    (folder / "c.json").write_text('{"sessionId": "s", "projectHash": "h", "messages": []}', "utf-8")
    (folder / "d.json").write_text("{}", "utf-8")


@pytest.mark.parametrize("name", CASES)
def test_the_whole_output_is_as_committed(folder: Path, name: str) -> None:
    (folder / "binary").write_bytes(bytes(range(256)))
    transcripts(folder / "claude-code")
    found = "".join(shown(folder, command) for command in CASES[name].split(" && "))
    found = "\n".join(line.rstrip() for line in found.splitlines()) + "\n"
    file = HERE / f"{name}.txt"
    if os.environ.get("KARL_FAST_UPDATE"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text("utf-8")


def test_every_snapshot_belongs_to_a_case() -> None:
    assert {file.stem for file in HERE.glob("*.txt")} == set(CASES)
