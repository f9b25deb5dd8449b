"""Logs and data sets in a store: a real server of S3 on the loopback address, and a web server."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import distributed, errors, stores
from tests import rows
from tests.properties.test_any_split import PACKERS, process_pool, result_of
from tests.properties.test_reproducible import HOW, awkward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

obstore = pytest.importorskip("obstore", reason="obstore is not installed: the extra stores")
pytest.importorskip("moto", reason="moto is not installed: the extra test")

SECRET = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789+/Ab"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of S3 that keeps objects in memory."""
    port = free_port()
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(address, timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    yield address
    process.terminate()
    process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A new bucket, and the variables by which clients find it."""
    name = f"b{abs(hash(request.node.name)) % 10**12}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT"), timeout=30).close()
    variables = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    stores._open_store.cache_clear()
    return f"s3://{name}"


def put(url: str, text: bytes) -> None:
    store, key = stores._locate(url)
    obstore.put(store._store, key, text)


def keys(url: str) -> set[str]:
    store, key = stores._locate(url)
    return {entry.url.rpartition("/")[2] for entry in store.list(key)}


@pytest.fixture
def logs(bucket: str, tmp_path: Path) -> str:
    """The awkward lines in objects, each of another form; and the data set that one machine draws of them."""
    (tmp_path / "logs").mkdir()
    for at, (end, pack) in enumerate(PACKERS.items()):
        text = pack(b"".join(line + b"\n" for line in awkward()[at :: len(PACKERS)]))
        (tmp_path / "logs" / f"{at}{end}").write_bytes(text)
        put(f"{bucket}/runs/{at}{end}", text)
    karl_fast.sample(tmp_path / "logs", tmp_path / "one", **HOW)
    return f"{bucket}/runs/"


def test_one_machine_draws_from_a_store_what_it_draws_from_files(logs: str, tmp_path: Path) -> None:
    karl_fast.sample(logs, tmp_path / "out", **HOW)
    assert result_of(tmp_path / "out") == result_of(tmp_path / "one")
    text = (tmp_path / "out" / "manifest.json").read_text()
    assert SECRET not in text
    assert f"{logs}0.jsonl" in text


def test_workers_read_ranges_of_objects(logs: str, tmp_path: Path) -> None:
    with process_pool(2) as pool:
        distributed.sample(f"{logs}*", tmp_path / "out", executor=pool, split_bytes=4000, **HOW)
    assert result_of(tmp_path / "out") == result_of(tmp_path / "one")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert {file["codec"] for file in manifest["inputs"]} == {"plain", "gzip", "zstd"}
    assert all(file["etag"] for file in manifest["inputs"])
    assert SECRET not in json.dumps(manifest)


def test_lines_longer_than_the_tail_of_a_split(bucket: str, tmp_path: Path) -> None:
    lines = [rows.record(n, f"g{n % 3}", n % 2) for n in range(12)]
    lines[5]["messages"][0]["content"] = "long " * 500_000
    log = rows.write(tmp_path / "log.jsonl", lines)
    put(f"{bucket}/log.jsonl", log.read_bytes())
    karl_fast.sample(log, tmp_path / "one", k=12)
    with ThreadPoolExecutor(2) as pool:
        distributed.sample(f"{bucket}/log.jsonl", tmp_path / "out", executor=pool, split_bytes=700, k=12)
    assert result_of(tmp_path / "out") == result_of(tmp_path / "one")


def test_a_data_set_is_written_to_a_store_and_its_manifest_last(
    logs: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    write = stores.ObjectStore.write

    def note(self: stores.ObjectStore, key: str, file: Path, *, new: bool) -> None:
        write(self, key, file, new=new)
        order.append(key.rpartition("/")[2])

    monkeypatch.setattr(stores.ObjectStore, "write", note)
    out = f"{bucket}/sets/a"
    karl_fast.sample(logs, out, **HOW)
    assert order[-1] == "manifest.json"
    assert keys(out + "/") == {path.name for path in (tmp_path / "one").iterdir()}
    for name, text in rows.files(tmp_path / "one").items():
        found = stores.stat_url(f"{out}/{name}")
        assert stores.read_range(found, 0, found.size) == text
    with pytest.raises(errors.OutputExistsError, match="it exists"):
        karl_fast.sample(logs, out, **HOW)
    karl_fast.sample(logs, out, force=True, **(HOW | {"split": (1.0, 0.0, 0.0)}))
    assert keys(out + "/") == {"README.md", "manifest.json", "train.jsonl"}


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "interrupted"])
def test_a_run_that_ends_while_it_writes_leaves_no_data_set(
    logs: str, bucket: str, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    write = stores.ObjectStore.write

    def fail(self: stores.ObjectStore, key: str, file: Path, *, new: bool) -> None:
        if key.endswith("valid.jsonl"):
            raise KeyboardInterrupt
        write(self, key, file, new=new)

    out = f"{bucket}/sets/a"
    with monkeypatch.context() as patch:
        patch.setattr(stores.ObjectStore, "write", fail)
        if killed:
            patch.setattr(stores, "_delete", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            karl_fast.sample(logs, out, **HOW)
    assert keys(out + "/") == ({"train.jsonl", "test.jsonl"} if killed else set())
    if killed:
        with pytest.raises(errors.OutputTakenError, match="no manifest") as raised:
            karl_fast.sample(logs, out, **HOW)
        assert "--force" in str(raised.value.hint)
    karl_fast.sample(logs, out, force=killed, **HOW)
    assert "manifest.json" in keys(out + "/")


def test_what_is_not_ours_is_not_replaced(logs: str, bucket: str) -> None:
    put(f"{bucket}/sets/a/notes.txt", b"mine")
    with pytest.raises(errors.OutputForeignError, match=r"holds .*notes\.txt"):
        karl_fast.sample(logs, f"{bucket}/sets/a", force=True, **HOW)
    assert keys(f"{bucket}/sets/a/") == {"notes.txt"}


def test_of_two_runs_at_a_time_one_writes(
    logs: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"{bucket}/sets/a"
    with stores.new_data_set(out, force=False) as (folder, upload):
        karl_fast.sample(logs, folder, **(HOW | {"seed": 8}))
        karl_fast.sample(logs, out, **HOW)
        with pytest.raises(errors.OutputExistsError):
            upload()
        monkeypatch.setattr(stores, "_refuse_existing", lambda *_, **__: False)  # as if it had looked before
        with pytest.raises(errors.OutputTakenError):
            upload()
    for name, text in rows.files(tmp_path / "one").items():
        found = stores.stat_url(f"{out}/{name}")
        assert stores.read_range(found, 0, found.size) == text


def test_an_object_that_changes_between_the_passes_is_refused(bucket: str, tmp_path: Path) -> None:
    text = rows.dumps(rows.records(200)).encode()
    put(f"{bucket}/log.jsonl", text)
    with ThreadPoolExecutor(2) as pool, distributed.read(f"{bucket}/log.jsonl", executor=pool) as log:
        put(f"{bucket}/log.jsonl", text.replace(b"answer", b"ANSWER"))
        with pytest.raises(errors.LogChangedError, match="changed after the run began"):
            karl_fast.sample(log, tmp_path / "out", k=50)


def test_fewer_bytes_than_asked_for_are_asked_for_again_and_then_refused(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, short = stores.ObjectStore.read, {"left": 2}

    def cut(self: stores.ObjectStore, key: str, start: int, end: int) -> tuple[bytes, stores.StoredObject]:
        text, found = read(self, key, start, end)
        if short["left"]:
            short["left"] -= 1
            text = text[:-1]
        return text, found

    monkeypatch.setattr(stores.ObjectStore, "read", cut)
    with ThreadPoolExecutor(1) as pool:
        distributed.sample(logs, tmp_path / "out", executor=pool, split_bytes=4000, **HOW)
        assert result_of(tmp_path / "out") == result_of(tmp_path / "one")
        short["left"] = 1 << 30
        with pytest.raises(errors.FileError, match=r"bytes came of the [\d,]+ from byte"):
            distributed.sample(logs, tmp_path / "no", executor=pool, **HOW)


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("s3://{bucket}/none.jsonl", errors.FileError, "no such object"),
        ("s3://{bucket}/empty/*.jsonl", errors.UsageError, "no object matches"),
        ("s3://no-such-bucket-here/x.jsonl", errors.FileError, "cannot read"),
        ("ftp://host/x.jsonl", errors.UsageError, "ftp:// is not read"),
        ("https://me:hunter2secret@host/x.jsonl", errors.UsageError, "a name, a password or a query"),
        ("https://host/x.jsonl?sig=hunter2secret", errors.UsageError, "a name, a password or a query"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    bucket: str, name: str, error: type[Exception], why: str, tmp_path: Path
) -> None:
    url = name.replace("{bucket}", bucket.removeprefix("s3://"))
    with pytest.raises(error, match=why) as raised:
        karl_fast.sample(url, tmp_path / "out", k=3)
    assert "hunter2secret" not in str(raised.value) + str(getattr(raised.value, "hint", ""))


class Answers(http.server.BaseHTTPRequestHandler):
    """Gives one file in ranges, as web servers do."""

    text: bytes = b""
    busy: Callable[[], bool] = staticmethod(lambda: False)
    shift = 0

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        if self.path != "/logs/log.jsonl":
            self.send_error(404)
            return
        if body and self.busy():
            self.send_error(503)
            return
        text, asked = self.text, self.headers.get("Range")
        if asked:
            start, end = (str(int(edge) + self.shift) for edge in asked.removeprefix("bytes=").split("-"))
            text = text[int(start) : int(end) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{int(start) + len(text) - 1}/{len(self.text)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Sat, 28 Nov 2026 12:00:00 GMT")
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_log_of_a_web_server(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(300))
    handler = type("Handler", (Answers,), {"text": log.read_bytes()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{web.server_port}/logs/log.jsonl"
        karl_fast.sample(log, tmp_path / "one", k=40)
        karl_fast.sample(url, tmp_path / "web", k=40)
        with ThreadPoolExecutor(2) as pool:
            distributed.sample(url, tmp_path / "many", executor=pool, split_bytes=5000, k=40)
        with pytest.raises(errors.UsageError, match="cannot write http"):
            karl_fast.sample(log, url.replace("log.jsonl", "out"), k=4)
        web.shutdown()
    assert result_of(tmp_path / "web") == result_of(tmp_path / "one") == result_of(tmp_path / "many")


@contextlib.contextmanager
def web_log(log: Path, **facts: Any) -> Iterator[str]:
    """Yield the URL of a log on a web server, which does what `facts` say."""
    handler = type("Handler", (Answers,), {"text": log.read_bytes()} | facts)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}/logs/log.jsonl"
        web.shutdown()


def test_a_store_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(300))
    karl_fast.sample(log, tmp_path / "one", k=40)
    count = itertools.count()
    with web_log(log, busy=staticmethod(lambda: next(count) % 3 == 0)) as url, ThreadPoolExecutor(2) as pool:
        distributed.sample(url, tmp_path / "many", executor=pool, split_bytes=9000, k=40)
    assert result_of(tmp_path / "many") == result_of(tmp_path / "one")
    assert next(count) > 9


@pytest.mark.parametrize("facts", [{"busy": staticmethod(lambda: True)}, {"shift": 7}], ids=["busy", "another range"])
def test_a_store_that_stays_busy_or_sends_other_bytes_is_named(tmp_path: Path, facts: dict[str, Any]) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(300))
    named = pytest.raises(errors.FileError, match=r"log\.jsonl")
    with web_log(log, **facts) as url, ThreadPoolExecutor(2) as pool, named:
        distributed.sample(url, tmp_path / "many", executor=pool, split_bytes=9000, k=40)
    assert not (tmp_path / "many").exists()
