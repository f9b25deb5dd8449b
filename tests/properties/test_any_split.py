"""Workers that read splits of a log give the draw of one machine: any split, any workers, any order of arrival."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import shutil
import struct
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import karl_fast
from karl_fast import _core, distributed, errors
from karl_fast.distributed import splits, tasks
from karl_fast.log.log import reader_settings
from tests import rows
from tests.properties.test_reproducible import HOW, awkward

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def zstd_frames(text: bytes) -> bytes:
    """Frames that are cut anywhere, half of which do not state their size, with skippable frames between them."""
    packed = b""
    for number, at in enumerate(range(0, len(text), 900)):
        packer = zstandard.ZstdCompressor(write_content_size=number % 2 == 0)
        packed += b"\x50\x2a\x4d\x18\x03\0\0\0abc" + packer.compress(text[at : at + 900])
    return packed


def seekable_zstd(text: bytes) -> bytes:
    """The seekable format: frames, and a table of them at the end."""
    parts = [text[at : at + 1100] for at in range(0, len(text), 1100)]
    frames = [zstandard.compress(part) for part in parts]
    table = b"".join(struct.pack("<II", len(frame), len(part)) for frame, part in zip(frames, parts, strict=True))
    footer = struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table + footer)) + table + footer


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".jsonl": lambda text: text,
    ".jsonl.gz": gzip.compress,
    ".jsonl.zst": zstandard.compress,
    ".frames.jsonl.zst": zstd_frames,
    ".seekable.jsonl.zst": seekable_zstd,
    ".json": lambda text: b"[" + b",\n".join(text.splitlines()) + b"]",
}


class Shuffled:
    """Runs tasks on a thread of its own, in an order of its own, some of them twice."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.max_workers = 1 + self.random.randrange(20)
        self.waiting: list[Callable[[], None]] = []
        self.lock = threading.Lock()

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            for _ in range(self.random.choice([1, 1, 2])):
                result = function(*args)
            future.set_result(result)

        with self.lock:
            self.waiting.append(run)
        threading.Timer(0.002, self.run_any).start()
        return future

    def run_any(self) -> None:
        with self.lock:
            run = self.waiting.pop(self.random.randrange(len(self.waiting)))
        run()


def result_of(folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    return rows.files(folder), rows.manifest(folder)


@pytest.fixture(scope="module")
def one_machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The data set that one machine draws of these lines."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "log.jsonl").write_bytes(b"\n".join(awkward()) + b"\n")
    karl_fast.sample(folder / "log.jsonl", folder / "out", **HOW)
    return result_of(folder / "out")


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 300), max_size=4),
    split_bytes=st.integers(1, 60_000),
    ends=st.lists(st.sampled_from(sorted(PACKERS)), min_size=5, max_size=5),
    seed=st.integers(0, 1 << 30),
)
def test_the_draw_is_that_of_one_machine(
    one_machine: tuple[dict[str, bytes], dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[int],
    split_bytes: int,
    ends: list[str],
    seed: int,
) -> None:
    lines = awkward()
    random.Random(seed).shuffle(lines)
    folder = tmp_path_factory.mktemp("split")
    edges = [0, *sorted(cuts), len(lines)]
    for at, (start, end) in enumerate(itertools.pairwise(edges)):
        text = b"".join(line + b"\n" for line in lines[start:end])
        (folder / f"{at}{ends[at]}").write_bytes(PACKERS[ends[at]](text))
    # A range of a few bytes is a task: of those there would be very many.
    size = max(split_bytes, 300)
    distributed.sample(sorted(folder.iterdir()), folder / "out", executor=Shuffled(seed), split_bytes=size, **HOW)
    try:
        assert result_of(folder / "out") == one_machine
    finally:
        shutil.rmtree(folder)


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Workers that share nothing with this process."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


@pytest.fixture(scope="module")
def folder_of_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lines in four files, each of another form."""
    folder, lines = tmp_path_factory.mktemp("logs"), awkward()
    for at, (end, pack) in enumerate(PACKERS.items()):
        text = b"".join(line + b"\n" for line in lines[at :: len(PACKERS)])
        (folder / f"{at}{end}").write_bytes(pack(text))
    return folder


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_the_draw_of_one_machine(
    one_machine: tuple[dict[str, bytes], dict[str, Any]], folder_of_logs: Path, tmp_path: Path, workers: int
) -> None:
    with process_pool(workers) as pool:
        distributed.sample(folder_of_logs, tmp_path / "out", executor=pool, split_bytes=5000, **HOW)
    assert result_of(tmp_path / "out") == one_machine


@pytest.mark.filterwarnings("ignore")  # of Dask and what it imports
def test_dask_gives_the_draw_of_one_machine(
    one_machine: tuple[dict[str, bytes], dict[str, Any]], folder_of_logs: Path, tmp_path: Path
) -> None:
    dask = pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    with (
        dask.LocalCluster(2, processes=False, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        distributed.sample(folder_of_logs, tmp_path / "out", executor=executor, split_bytes=5000, **HOW)
    assert result_of(tmp_path / "out") == one_machine


@pytest.mark.parametrize(
    "how",
    [
        {"k": 40, "sampler": "systematic", "ess": 0.3},
        {"k": 40, "sampler": "multinomial", "partition_by": "kind"},
        {"k": 50, "sampler": "weighted-reservoir", "inverse_temperature": 2.0},
        {"sampler": "all", "partition_by": "group"},
        {"k": 45, "per": {"domain": "sqrt"}, "domain": "kind"},
        {"k": 40, "shape": "raw", "dedup": True},
        {"k": 40, "order_by": "t", "recency_half_life": "50"},
        {"k": 40, "score": "leave-one-out", "drop_constant_groups": True, "variance_top_p": 0.9},
        {"k": 40, "reward": {"reward": 0.7, "t": 0.3}},
    ],
    ids=lambda how: "-".join(map(str, how)),
)
def test_every_sampler_and_rule_draws_as_on_one_machine(tmp_path: Path, how: dict[str, Any]) -> None:
    random_ = random.Random(5)
    lines = [
        rows.record(n, f"g{random_.randrange(20)}", random_.randrange(7) / 6, kind=f"k{n % 3}", t=n % 90)
        for n in range(400)
    ]
    (tmp_path / "logs").mkdir()
    for at in range(3):
        rows.write(tmp_path / "logs" / f"{at}.jsonl", lines[at::3])
    karl_fast.sample(tmp_path / "logs", tmp_path / "one", seed=3, **how)
    with ThreadPoolExecutor(3) as pool:
        distributed.sample(tmp_path / "logs", tmp_path / "many", executor=pool, split_bytes=999, seed=3, **how)
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")


@pytest.mark.parametrize("name", [".frames.jsonl.zst", ".seekable.jsonl.zst"])
@pytest.mark.parametrize("damage", ["none", "in a frame", "at the end", "in the sizes"])
def test_frames_of_zstd_are_split(tmp_path: Path, name: str, damage: str) -> None:
    lines = b"".join(rows.dumps([rows.record(n, f"g{n % 9}", n % 5 / 4)]).encode() for n in range(300))
    packed = bytearray(PACKERS[name](lines))
    if damage == "in a frame":
        packed[len(packed) // 2] ^= 0x55
    elif damage == "at the end":
        del packed[-60:]
    elif damage == "in the sizes":  # of the third frame in the table; of a frame that states its own
        entry = len(packed) - 9 - 8 * (-(-len(lines) // 1100)) + 2 * 8 + 4
        packed[entry : entry + 1] = bytes([packed[entry] ^ 1])
    log = tmp_path / f"log{name}"
    log.write_bytes(packed)
    karl_fast.sample(log, tmp_path / "one", k=30)
    scanned: list[splits.Split] = []

    class Noted(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **how: Any) -> Future[Any]:
            scanned.extend(one for one in args if isinstance(one, splits.Split))
            return super().submit(function, *args, **how)

    with Noted(3) as pool:
        distributed.sample(log, tmp_path / "many", executor=pool, split_bytes=5000, k=30)
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")
    if damage == "none":
        assert len(scanned) > 5
        assert not any(split.whole for split in scanned)


def test_what_cannot_be_read_is_counted_as_on_one_machine(tmp_path: Path) -> None:
    lines = [json.dumps(rows.record(n, f"g{n % 4}", n % 2)) for n in range(60)]
    lines[7], lines[19], lines[33] = "{", '{"id": "x", "reward": "much"}', "[1, 2]"
    lines[40] = lines[40] + lines[41]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text("\n".join(lines) + "\n\n" + lines[0][:50])
    packed = gzip.compress("\n".join(lines[:30]).encode())
    (tmp_path / "logs" / "b.jsonl.gz").write_bytes(packed[:-40])
    (tmp_path / "logs" / "c.jsonl").write_text('{"settings": {"a": 1}}')
    karl_fast.sample(tmp_path / "logs", tmp_path / "one", k=20)
    with ThreadPoolExecutor(2) as pool:
        distributed.sample(tmp_path / "logs", tmp_path / "many", executor=pool, split_bytes=700, k=20)
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")
    one, many = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "many"))
    keys = ("rows_read", "dropped", "bad_rows", "layout", "format", "codec", "keys")
    assert [{key: file[key] for key in keys} for file in many["inputs"]] == [
        {key: file[key] for key in keys} for file in one["inputs"]
    ]


def test_a_record_over_several_lines_is_read_with_its_whole_file(tmp_path: Path) -> None:
    lines = [json.dumps(rows.record(n, f"g{n % 4}", n % 2)) for n in range(60)]
    lines[40] = json.dumps(rows.record(40, "g0", 1), indent=2)
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    rows.write(tmp_path / "more.jsonl", [rows.record(n, "g1", n % 3) for n in range(60, 90)])
    logs = [tmp_path / "log.jsonl", tmp_path / "more.jsonl"]
    karl_fast.sample(logs, tmp_path / "one", k=50)
    with ThreadPoolExecutor(2) as pool:
        distributed.sample(logs, tmp_path / "many", executor=pool, split_bytes=500, k=50)
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")


class Lossy:
    """Loses the worker of some tasks, as an engine says it; of some it never says anything."""

    max_workers = 2

    def __init__(self, lost: int, silent: int = 0) -> None:
        self.lost, self.silent = lost, silent

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.silent:
            self.silent -= 1
        elif self.lost:
            self.lost -= 1
            error = type("WorkerCrashedError", (Exception,), {"__module__": "ray.exceptions"})
            future.set_exception(error("the worker died"))
        else:
            future.set_result(function(*args))
        return future


def test_a_task_whose_worker_is_lost_or_late_is_given_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(200))
    karl_fast.sample(log, tmp_path / "one", k=50)
    distributed.sample(log, tmp_path / "lost", executor=Lossy(tasks.ATTEMPTS - 1), split_bytes=3000, k=50)
    assert result_of(tmp_path / "lost") == result_of(tmp_path / "one")
    monkeypatch.setattr(tasks, "LATE_SECONDS", 0.1)
    distributed.sample(log, tmp_path / "late", executor=Lossy(0, silent=1), split_bytes=3000, k=50)
    assert result_of(tmp_path / "late") == result_of(tmp_path / "one")


def test_lost_workers_end_a_run_by_name_and_write_nothing(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(200))
    with pytest.raises(errors.WorkersLostError, match=r"scanning .*log\.jsonl, bytes .*the worker died"):
        distributed.sample(log, tmp_path / "out", executor=Lossy(99), split_bytes=3000, k=50)
    with process_pool(1) as pool:
        pool.submit(_exit_process).exception()
        with pytest.raises(errors.WorkersLostError, match=r"workers ended|takes no task"):
            distributed.sample(log, tmp_path / "out", executor=pool, split_bytes=3000, k=50)
    assert not (tmp_path / "out").exists()


def _exit_process() -> None:
    os._exit(9)


def test_a_file_that_changes_between_plan_and_scan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(200))
    scan = splits.scan_split

    def change_first(settings: dict[str, Any], split: splits.Split) -> splits.ScannedSplit:
        if split.start > 5000:
            with log.open("a") as file:
                file.write(json.dumps(rows.record(999)) + "\n")
        return scan(settings, split)

    monkeypatch.setattr("karl_fast.distributed.log.scan_split", change_first)
    with ThreadPoolExecutor(1) as pool, pytest.raises(errors.LogChangedError, match="changed after the run began"):
        distributed.sample(log, tmp_path / "out", executor=pool, split_bytes=3000, k=50)


def test_a_packed_file_that_changes_before_its_records_are_read_again_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(gzip.compress(rows.dumps(rows.records(200)).encode()))
    with ThreadPoolExecutor(1) as pool, distributed.read(log, executor=pool) as read:
        log.write_bytes(gzip.compress(rows.dumps(rows.records(200, seed=1)).encode()))
        with pytest.raises(errors.LogChangedError):
            karl_fast.sample(read, tmp_path / "out", k=50)
    assert not (tmp_path / "out").exists()


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(50))
    reader = reader_settings(karl_fast.Settings(), fingerprint=False)
    core = _core.LogSplits(**reader)
    _, form = core.probe(str(log), "log", False, False)
    assert form is not None
    part, beyond, _ = core.scan(str(log), "log", form)
    assert not beyond
    for at in random.Random(2).sample(range(len(part)), 40):
        spool = tmp_path / "spool"
        spool.write_bytes(part[:at] + bytes([part[at] ^ 4]) + part[at + 1 :])
        core = _core.LogSplits(**reader)
        core.probe(str(log), "log", False, False)
        with pytest.raises(errors.LogError, match="part 0 of log is damaged"):
            core.join(str(spool), [(0, 0, len(part))], copies=[])


@pytest.mark.parametrize(
    ("logs", "how", "why"),
    [
        ("-", {}, "standard input"),
        ("x.parquet", {}, "Parquet"),
        ("log.jsonl", {"reward": {"r": {"weight": 1, "fn": "my.py:score"}}}, "functions"),
        ("log.jsonl", {"split_bytes": 0}, "split_bytes is 0"),
        ("log.jsonl", {"hash_inputs": True}, "hash_inputs"),
        ("log.jsonl", {"parent": "parent.id"}, "parent"),
    ],
)
def test_what_needs_one_machine_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: str, how: dict[str, Any], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows.write(tmp_path / "log.jsonl", rows.records(10))
    (tmp_path / "my.py").write_text("def score(**_):\n    return 1.0\n")
    with ThreadPoolExecutor(1) as pool, pytest.raises(errors.UsageError, match=why):
        distributed.sample(logs, tmp_path / "out", executor=pool, k=5, **how)
