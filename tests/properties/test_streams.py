"""A weighted reservoir over a pipe: the rows of the same draw over a file, in memory for those rows."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

import karl_fast
from karl_fast.entrypoint import STOPS
from karl_fast.settings.sample import Settings
from tests import rows
from tests.cli.run import COMMAND, environment, karl
from tests.robustness.peak import MEASURED, MIB

if TYPE_CHECKING:
    from pathlib import Path

HOW = ("--sampler", "weighted-reservoir", "--inverse-temperature", "3", "-k", "40", "--seed", "5")
DOMAIN = ("--domain", "kind")


def records() -> list[dict[str, Any]]:
    """Ids that stand once, ids of several records, no ids; equal records; missing rewards; rows that fail."""
    made = rows.records(600, groups=150)
    for number, record in enumerate(made):
        record["kind"] = f"k{number % 7}"
        if number % 5 == 0:
            record["id"] = f"shared{number % 20}"
        if number % 9 == 0:
            record["reward"] = None
        if number % 13 == 0:
            del record["id"]
        if number % 17 == 0:
            record["group"] = None
        if number % 3 == 0:
            record["messages"] = [{"role": "user", "content": "nobody answers"}]
    return made + made[100:160] + made[120:140]


def text(made: list[dict[str, Any]]) -> bytes:
    return rows.dumps(made).encode()


def told(folder: Path) -> dict[str, Any]:
    """What a manifest says of a draw, whichever way it was read."""
    manifest = rows.manifest(folder)
    manifest.pop("groups")
    for reward in (manifest["reward"], *manifest["reward"]["components"].values()):
        for part in ("before", "kept"):
            reward[part].pop("histogram")
    manifest["draw"].pop("law")
    manifest["draw"].pop("rows_held", None)
    manifest["accounting"]["notes"].pop("repeated_ids")
    return manifest


def same(folder: Path, piped: bytes, *how: Any) -> dict[str, Any]:
    """Draws from the file `log` and from a pipe, and holds one against the other; the manifest of the pipe's."""
    for log, out, more in (("log", "filed", {}), ("-", "piped", {"input": piped, "text": False, "encoding": None})):
        domain = DOMAIN if b'"kind"' in (folder / "log").read_bytes() else ()
        done = karl("sample", log, "-o", out, "--force", "-q", *HOW, *domain, *how, folder=folder, **more)
        assert (done.returncode, done.stderr) == (0, b"" if more else ""), done.stderr
    assert rows.files(folder / "piped") == rows.files(folder / "filed")
    a, b = told(folder / "piped"), told(folder / "filed")
    for manifest in (a, b):  # sums of floats, in the file's order of ids and in no order
        means = [manifest["reward"], *manifest["reward"]["components"].values()]
        floats = [one[part].pop(name) for one in means for part in ("before", "kept") for name in ("mean", "std")]
        manifest["floats"] = [manifest["target"].pop("expected_reward"), *floats]
    assert a.pop("floats") == pytest.approx(b.pop("floats"), rel=1e-12)
    assert a == b
    manifest: dict[str, Any] = json.loads((folder / "piped" / "manifest.json").read_bytes())
    assert manifest["run"]["streamed"]
    assert not json.loads((folder / "filed" / "manifest.json").read_bytes())["run"]["streamed"]
    return manifest


PACKED = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("codec", PACKED)
def test_a_pipe_draws_like_the_file(tmp_path: Path, codec: str) -> None:
    made = records()
    (tmp_path / "log").write_bytes(text(made))
    for seed in range(2):
        random.Random(seed).shuffle(made)
        packed = PACKED[codec](text(made))
        manifest = same(tmp_path, packed)
        assert (manifest["inputs"][0]["codec"], manifest["inputs"][0]["size_bytes"]) == (codec, len(packed))
    assert manifest["draw"]["failed"] == {"no_assistant_turn": manifest["draw"]["failed"]["no_assistant_turn"]}
    assert manifest["draw"]["failed"]["no_assistant_turn"] > 0, "rows were replaced from the spare ones"
    assert manifest["draw"]["rows_held"] == 40 + 256
    assert manifest["draw"]["threshold"] is not None
    account = manifest["accounting"]
    assert account["rows_read"] == 680 == account["rows_kept"] + sum(account["dropped"].values())
    assert sum(one["before"] for one in manifest["domains"].values()) == 680


@pytest.mark.parametrize(
    "how",
    [
        ("-k", 5000),
        ("--min-reward", 0.5),
        ("--as", "raw"),
        ("--split", "0.5,0.3,0.2"),
        ("--reward", "reward=0.75,cost=-0.5"),
        ("--inverse-temperature", 0),
    ],
    ids=str,
)
def test_a_pipe_draws_like_the_file_under_settings(tmp_path: Path, how: tuple[Any, ...]) -> None:
    made = [record | {"cost": number % 4} for number, record in enumerate(records()[:280])]
    (tmp_path / "log").write_bytes(text(made))
    random.Random(1).shuffle(made)
    same(tmp_path, text(made), *how)


def test_bad_rows_and_torn_tails_count_alike(tmp_path: Path) -> None:
    lines = text(records()).splitlines(keepends=True)
    bad = [
        b"[]\n",
        b'{"id": \n',
        b"\n",
        b'{"id": 1, "reward": 1e999}\n',
        b'{"id": 2, "reward": "much"}\n',
        lines[3][:50],
    ]
    log = b"\xef\xbb\xbf" + b"".join(lines[:300]) + b"".join(bad[:-1]) + b"".join(lines[300:]) + bad[-1]
    (tmp_path / "log").write_bytes(log)
    manifest = same(tmp_path, log)
    filed = json.loads((tmp_path / "filed" / "manifest.json").read_bytes())["inputs"][0]
    piped = manifest["inputs"][0]
    differ = {"path", "size_bytes", "modified_seconds", "xxh3_128", "hash_covers"}
    assert {name: piped[name] for name in piped if name not in differ} == {
        name: filed[name] for name in filed if name not in differ
    }
    assert manifest["accounting"]["dropped"]["torn"] == 1


@pytest.mark.parametrize("layout", ["array", "member", "values"])
def test_every_layout_can_be_piped(tmp_path: Path, layout: str) -> None:
    made = records()
    log = {
        "array": lambda: json.dumps(made),
        "member": lambda: json.dumps({"about": [1], "runs": made, "after": "x" * 100_000}),
        "values": lambda: "\n".join(json.dumps(record, indent=2) for record in made),
    }[layout]()
    (tmp_path / "log").write_text(log)
    assert layout[:5] in same(tmp_path, log.encode())["inputs"][0]["layout"] or layout == "member"


def test_a_format_is_detected_from_a_pipe(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    made = [
        {
            "task_id": n % 9,
            "trial": n // 9,
            "reward": float(n % 2),
            "traj": [*turns[:1], turns[1] | {"content": str(n)}],
        }
        for n in range(200)
    ]
    (tmp_path / "log").write_text(json.dumps(made))
    assert same(tmp_path, json.dumps(made).encode())["inputs"][0]["format"] == "tau-bench"


def test_a_late_first_record_is_detected(tmp_path: Path) -> None:
    made = [rows.record(0, padding="x" * (5 << 20)), *rows.records(50)]
    log = "\n".join(json.dumps(record, indent=2) for record in made)
    (tmp_path / "log").write_text(log)
    assert same(tmp_path, log.encode())["inputs"][0]["layout"] == "values"


def test_a_fifo_is_read_once_too(tmp_path: Path) -> None:
    log = text(records())
    (tmp_path / "log").write_bytes(log)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(log,))
    writer.start()
    for name, out in (("pipe", "piped"), ("log", "filed")):
        assert karl("sample", name, "-o", out, *HOW, folder=tmp_path).returncode == 0
    writer.join()
    assert rows.files(tmp_path / "piped") == rows.files(tmp_path / "filed")
    assert json.loads((tmp_path / "piped" / "manifest.json").read_bytes())["run"]["streamed"]


def test_names_that_can_be_gone_through_once_are(tmp_path: Path) -> None:
    log, settings = text(records()), Settings(sampler="weighted-reservoir", inverse_temperature=1.0, k=5)
    (tmp_path / "log").write_bytes(log)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(log,))
    writer.start()
    piped = karl_fast.sample((tmp_path / name for name in ["pipe"]), None, settings)
    writer.join()
    filed = karl_fast.sample((tmp_path / name for name in ["log"]), None, settings)
    assert piped.manifest["run"]["streamed"]
    assert list(piped.lines()) == list(filed.lines())
    (tmp_path / "copy").write_bytes(log)
    twice = karl_fast.sample((tmp_path / name for name in ["log", "copy"]), None, settings)
    assert twice.manifest["accounting"]["rows_read"] == 2 * filed.manifest["accounting"]["rows_read"]


def test_log_z_equals_the_files_bits(tmp_path: Path) -> None:
    random_ = random.Random(3)
    made = [rows.record(n, f"g{n % 9}", random_.gauss(0, 40)) for n in range(2000)]
    (tmp_path / "log").write_bytes(text(made))
    random_.shuffle(made)
    target = same(tmp_path, text(made))["target"]
    weights = [math.exp(3 * (record["reward"] - 100)) for record in made]
    assert target["log_z"]["value"] == pytest.approx(300 + math.log(math.fsum(weights)), rel=1e-12)
    mean = math.fsum(weight * record["reward"] for weight, record in zip(weights, made, strict=True))
    assert target["expected_reward"] == pytest.approx(mean / math.fsum(weights), rel=1e-12)


def test_equal_records_collapse_others_do_not(tmp_path: Path) -> None:
    twins = [record for n in range(40) for record in [rows.record(n, f"g{n}")] * 2]
    log = rows.write(tmp_path / "log", twins)
    how: dict[str, Any] = {"sampler": "weighted-reservoir", "inverse_temperature": 1.0}
    for seed in range(5):
        drawn = [
            json.loads(line)["karl_fast"]["id"] for line in karl_fast.sample(log, None, k=20, seed=seed, **how).lines()
        ]
        assert sorted(drawn.count(one) for one in set(drawn)) == [2] * 10
    cousins = [rows.record(n // 2, f"g{n // 2}", extra=n) for n in range(80)]
    log = rows.write(tmp_path / "log", cousins)
    drawn = [json.loads(line)["karl_fast"]["id"] for line in karl_fast.sample(log, None, k=20, **how).lines()]
    assert len(set(drawn)) > 10


def test_exhausted_spare_rows_are_reported(tmp_path: Path) -> None:
    fails = [{"role": "user", "content": "nobody answers"}]
    made = [rows.record(n, f"g{n}", reward=9.0, messages=fails) for n in range(290)]
    made += [rows.record(1000 + n, f"h{n}", reward=0.0) for n in range(400)]
    done = karl("sample", "-", "-o", "data", *HOW, folder=tmp_path, input=rows.dumps(made))
    assert done.returncode == 0
    assert "warning: 40 rows were wanted, only 6 of the 296 held of the stream can be written" in " ".join(
        done.stderr.split()
    )
    manifest = rows.manifest(tmp_path / "data")
    assert (manifest["draw"]["rows_wanted"], manifest["draw"]["rows"]) == (40, 6)
    assert manifest["draw"]["threshold"] is not None, "rows that were not held were not drawn"


def test_a_closed_standard_input_is_an_error(tmp_path: Path) -> None:
    line = f"exec {shlex.join([*COMMAND, 'sample', '-', '-o', 'data', *HOW])} <&-"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    wanted = "error: cannot keep - in a temporary file: standard input is closed\n"
    assert (done.returncode, done.stderr) == (1, wanted)


def test_an_empty_pipe_has_nothing_to_draw(tmp_path: Path) -> None:
    done = karl("sample", "-", "-o", "data", *HOW, folder=tmp_path, input="")
    assert (done.returncode, done.stderr) == (4, "error: no row is left to draw: 0 read; no record in -\n")


def test_strict_refuses_a_bad_row_of_a_pipe(tmp_path: Path) -> None:
    log = text(records()[:50]).decode() + '{"id": "x", "messages": [nope]}\n' + rows.dumps(rows.records(9))
    done = karl("sample", "-", "-o", "data", "--strict", *HOW, folder=tmp_path, input=log)
    assert done.returncode == 3
    assert done.stderr.startswith("error: -, line 51, byte ")
    assert list(tmp_path.iterdir()) == []


def test_prints_and_dry_runs_accept_a_pipe(tmp_path: Path) -> None:
    log = text(records()).decode()
    printed = karl("sample", "-", "-o", "-", *HOW, folder=tmp_path, input=log)
    assert len(printed.stdout.splitlines()) == 40
    assert "groups    not counted in a stream" in printed.stderr
    dry = karl("sample", "-", "--dry-run", *HOW, folder=tmp_path, input=log)
    assert (dry.returncode, list(tmp_path.iterdir())) == (0, [])
    assert "nothing written" in dry.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"sampler": "gumbel"},
        {"inverse_temperature": None},
        {"k": None, "fraction": 0.5},
        {"score": "zscore"},
        {"dedup": True},
        {"drop_constant_groups": True},
        {"max_per_group": 2},
        {"per": {"domain": "equal"}},
    ],
    ids=str,
)
def test_what_needs_the_whole_log_is_not_streamed(change: dict[str, Any]) -> None:
    settings = Settings(sampler="weighted-reservoir", inverse_temperature=1.0, k=5)
    assert settings.streams
    assert not settings.replace(**change).streams


def test_a_pipe_beside_a_file_is_copied(tmp_path: Path) -> None:
    log = text(records())
    (tmp_path / "log").write_bytes(log[: len(log) // 2])
    done = karl("sample", "-", "log", "-o", "data", *HOW, folder=tmp_path, input=log.decode())
    assert done.returncode == 0
    assert not json.loads((tmp_path / "data" / "manifest.json").read_bytes())["run"]["streamed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("packed", [b"", gzip.compress(b'{"id": 1}\n')[:-9]], ids=["silent", "packed"])
def test_a_pipe_that_says_nothing_can_be_left(tmp_path: Path, number: signal.Signals, packed: bytes) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    with subprocess.Popen(
        [*COMMAND, "sample", "-", "-o", "data", *HOW],
        cwd=tmp_path,
        env=environment() | {"TMPDIR": str(spool)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(packed)
        process.stdin.flush()
        while not list(spool.iterdir()):
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(number)
        begin = time.perf_counter()
        assert process.wait(timeout=30) == 128 + number
        assert time.perf_counter() - begin < 1
        assert process.stderr.read() == f"{STOPS[number]}; nothing was written\n".encode()
    assert list(spool.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]


GENERATOR = """
import json, sys
turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a long answer, " * 100}]
for number in range(int(sys.argv[1])):
    record = {"id": f"r{number}", "group": f"g{number}", "reward": number % 97 / 97, "messages": turns}
    sys.stdout.write(json.dumps(record) + "\\n")
"""


def test_a_long_pipe_takes_bounded_memory(tmp_path: Path) -> None:
    """300 MB: 1,256 records of 1.6 kB, buffers of some MiB and Python itself; no column of the log."""
    count = 190_000
    code = MEASURED.replace("\\\\", "\\")
    arguments = [sys.executable, "-c", code, "peak", "sample", "-", *HOW, "-k", "1000", "-o", "data", "-q"]
    with subprocess.Popen([sys.executable, "-c", GENERATOR, str(count)], stdout=subprocess.PIPE) as generator:
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment(), stdin=generator.stdout, check=False, timeout=300
        )
    assert done.returncode == 0
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_bytes())
    assert manifest["accounting"]["rows_read"] == count
    assert manifest["inputs"][0]["size_bytes"] > 300_000_000
    assert manifest["draw"]["rows"] == 1000
    assert int((tmp_path / "peak").read_text()) < 80 * MIB
