"""Every field that is printed, filled with what steers a terminal: it comes out spelled, and markup as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import rows
from tests.cli.run import karl
from tests.cli.test_streams import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

NASTY = "[red]x[/red]\x1b[31m\x1b]0;t\x07\r\nerror: no\x9b2J\x7f\u202eoff\u2066\u200b\u2028\ufeff\ue000\U000e0041"
BROKEN = NASTY + "\ud800\udcff"  # a name on a disk may hold the last; a JSON escape may hold both
SAMPLE = ("-k", 4, "--dry-run")
Printed = tuple[str, ...]


def log(folder: Path, name: str = "log.jsonl", **more: Any) -> str:
    """A log whose rows hold these fields; text that is not UTF-8 goes in as escapes."""
    made = [rows.record(n, f"g{n % 3}", n % 4 / 4) | more for n in range(12)]
    (folder / name).write_text(rows.dumps(made), encoding="utf-8")
    return name


def named(folder: Path) -> str:
    """A log whose own name is nasty."""
    return log(folder, NASTY.replace("/", "") + ".jsonl")


PRINTED: dict[str, Callable[[Path], tuple[Any, ...]]] = {
    "key of a record": lambda folder: ("inspect", log(folder, **{NASTY: 1})),
    "key of a record, broken": lambda folder: ("inspect", log(folder, **{BROKEN: 1})),
    "key where no row is left": lambda folder: ("sample", log(folder, **{NASTY: 1, "reward": None}), *SAMPLE),
    "domain": lambda folder: ("inspect", log(folder, domain=NASTY)),
    "domain, broken": lambda folder: ("inspect", log(folder, domain=BROKEN)),
    "domain, partition": lambda folder: ("sample", log(folder, domain=NASTY), *SAMPLE, "--partition-by", "domain"),
    "group": lambda folder: ("sample", log(folder, group=NASTY), *SAMPLE, "--partition-by", "group"),
    "group, broken": lambda folder: ("sample", log(folder, group=BROKEN), *SAMPLE),
    "id": lambda folder: ("sample", log(folder, id=NASTY), *SAMPLE),
    "id, broken": lambda folder: ("sample", log(folder, id=BROKEN), *SAMPLE, "--strict"),
    "reward": lambda folder: ("inspect", log(folder, reward=NASTY), "--strict"),
    "array of records": lambda folder: (
        (folder / "log.json").write_text(json.dumps({NASTY: rows.records(5)})) and "inspect",
        "log.json",
    ),
    "arrays of records": lambda folder: (
        (folder / "log.json").write_text(json.dumps({NASTY: rows.records(5), "b": rows.records(5)})) and "inspect",
        "log.json",
    ),
    "path": lambda folder: ("inspect", named(folder)),
    "path with a bad row": lambda folder: (
        (folder / named(folder)).write_text("{]\n") and "inspect",
        NASTY.replace("/", "") + ".jsonl",
    ),
    "path that was passed over": lambda folder: (
        log(folder) and (folder / (NASTY.replace("/", "") + ".json")).write_text('{\n"lr": 1}') and "inspect",
        ".",
    ),
    "path that is not there": lambda folder: ("inspect", f"nowhere{NASTY}\udcff"),
    "pattern without a match": lambda folder: ("inspect", f"*{NASTY}\udcff"),
    "folder without a log": lambda folder: ((folder / "a\x1b\udcff").mkdir() or "inspect", "a\x1b\udcff"),
    "output": lambda folder: ("sample", log(folder), "-k", 4, "-o", NASTY.replace("/", "") + "\udcff"),
    "output that is there": lambda folder: ("sample", log(folder), "-k", 4, "-o", Path(named(folder)).name),
    "output that cannot be": lambda folder: ("sample", log(folder), "-k", 4, "-o", "log.jsonl/" + NASTY),
    "tokenizer": lambda folder: ("sample", log(folder), *SAMPLE, "--max-tokens", 9, "--tokenizer", NASTY + "\udcff"),
} | {
    f"setting {option}": lambda folder, option=option: ("sample", log(folder), *SAMPLE, option, f"{NASTY}\udcff")
    for option in (
        *("--format", "--id", "--group", "--messages", "--domain", "--partition-by", "--reward", "--score", "--as"),
        *("--split", "--sampler", "--seed", "--ess", "--min-reward", "--threads"),
    )
}


@pytest.mark.parametrize("field", PRINTED)
def test_no_printed_field_steers_a_terminal(tmp_path: Path, field: str) -> None:
    try:
        command = PRINTED[field](tmp_path)
    except (OSError, UnicodeError) as error:
        pytest.skip(f"this file system does not take such a name: {error}")
    for more in ([], ["--json"]):
        done = karl(*command, *more, folder=tmp_path)
        assert done.returncode in (0, 1, 2, 3, 4, 5)
        assert "Traceback" not in done.stderr, done.stderr
        assert "\nerror: no" not in done.stdout + done.stderr
        harmless(done.stdout)
        harmless(done.stderr)
        if more and done.returncode == 0:
            assert json.loads(done.stdout)["schema"] == 1


def test_markup_is_printed_as_it_is(tmp_path: Path) -> None:
    done = karl("inspect", log(tmp_path, domain="[red]x[/red]", **{"[bold]": 1}), folder=tmp_path)
    assert "[red]x[/red] 12" in done.stdout
    assert "[bold]" in done.stdout
    assert "[red]a" in karl("inspect", "[red]a[/red]", folder=tmp_path).stderr


def test_the_written_manifest_is_json_whatever_the_names(tmp_path: Path) -> None:
    done = karl("sample", log(tmp_path, domain=NASTY, group=NASTY), "-k", 4, "-o", "data", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text("utf-8"))
    assert list(manifest["domains"]) == [NASTY]
    assert all(row["karl_fast"]["group"] == NASTY for row in rows.lines(tmp_path / "data"))
