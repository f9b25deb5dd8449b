"""`karl-fast push` against a hub on the loopback address: what is uploaded, what is refused, and how it goes on."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: the extra hub")

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"

LARGE = 4_000
"""Bytes from which the hub wants a file in its store of large files."""


class Hub(http.server.ThreadingHTTPServer):
    """Repositories in memory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.private: dict[str, bool] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.refuses: str | None = None
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, value: Any, status: int = 200) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        repository = self.path.split("?")[0].removeprefix("/api/datasets/").split("/revision/")[0]
        files = self.server.files.get(repository)
        if files is None:
            return self.answer({"error": "no such repository"}, 404)
        siblings = []
        for name, content in files.items():
            oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry = {"rfilename": name, "size": len(content), "blobId": oid}
            if len(content) >= LARGE:
                sha = hashlib.sha256(content).hexdigest()
                entry |= {"blobId": "0" * 40, "lfs": {"sha256": sha, "size": len(content), "pointerSize": 130}}
            siblings.append(entry)
        private = self.server.private[repository]
        return self.answer({"_id": "1", "id": repository, "private": private, "siblings": siblings, "tags": []})

    def do_POST(self) -> None:
        self.server.tokens.add(self.headers.get("Authorization", ""))
        text = self.body()
        if self.path == "/api/repos/create":
            wanted = json.loads(text)
            name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
            if name in self.server.files:
                return self.answer({"error": "it exists", "url": f"{self.server.url}/datasets/{name}"}, 409)
            self.server.files[name] = {}
            self.server.private[name] = bool(wanted.get("private") or wanted.get("visibility") == "private")
            return self.answer({"url": f"{self.server.url}/datasets/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            files = json.loads(text)["files"]
            mode = ["lfs" if file["size"] >= LARGE else "regular" for file in files]
            each = zip(files, mode, strict=True)
            return self.answer(
                {"files": [{"path": file["path"], "uploadMode": mode, "shouldIgnore": False} for file, mode in each]}
            )
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {
                    "oid": wanted["oid"],
                    "size": wanted["size"],
                    "actions": {"upload": {"href": f"{self.server.url}/put/{wanted['oid']}"}},
                }
                for wanted in json.loads(text)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        return self.commit(text)

    def do_PUT(self) -> None:
        self.server.objects[self.path.rpartition("/")[2]] = self.body()
        self.answer({})

    def commit(self, text: bytes) -> None:
        repository = self.path.removeprefix("/api/datasets/").split("/commit/")[0]
        for line in map(json.loads, text.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                continue
            if value["path"] == self.server.refuses:
                return self.answer({"error": "the disk is full"}, 403)
            content = base64.b64decode(value["content"]) if line["key"] == "file" else self.server.objects[value["oid"]]
            self.server.files[repository][value["path"]] = content
            self.server.commits.append(value["path"])
        return self.answer(
            {"commitUrl": f"{self.server.url}/c/1", "commitOid": "1" * 40, "hookOutput": "", "success": True}
        )


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = rows.write(tmp_path / "log.jsonl", rows.records(60))
    karl_fast.sample(log, tmp_path / "data", k=40, split=(0.8, 0.2, 0.0))
    return tmp_path / "data"


def push(hub: Hub, *words: str) -> subprocess.CompletedProcess[str]:
    home = {"HF_HOME": "/nonexistent", "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [sys.executable, "-m", "karl_fast", "push", *words],
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_files_are_there_private_and_the_manifest_is_last(hub: Hub, data: Path) -> None:
    done = push(hub, str(data), "me/mine", "--license", "apache-2.0")
    assert (done.returncode, "private" in done.stderr) == (0, True), done.stderr
    files = hub.files["me/mine"]
    assert hub.private["me/mine"]
    assert hub.tokens == {"Bearer hf_test"}
    assert hub.commits[-1] == "manifest.json"
    for name in ("train.jsonl", "valid.jsonl"):
        assert files[name] == (data / name).read_bytes()
    manifest, public = json.loads((data / "manifest.json").read_text("utf-8")), json.loads(files["manifest.json"])
    assert "run" not in public
    assert [file["path"] for file in public["inputs"]] == ["log.jsonl"]
    assert str(data.parent) not in files["manifest.json"].decode()
    assert {**public, "inputs": 0} == {key: value for key, value in manifest.items() if key != "run"} | {"inputs": 0}
    assert files["README.md"] == b"---\nlicense: apache-2.0\n" + (data / "README.md").read_bytes().removeprefix(
        b"---\n"
    )


def test_a_push_that_was_interrupted_goes_on_with_the_missing_files(hub: Hub, data: Path) -> None:
    hub.refuses = "README.md"
    done = push(hub, str(data), "me/mine")
    assert done.returncode == 1
    assert "cannot push to me/mine" in done.stderr
    assert "goes on with the files that are missing" in done.stderr
    assert hub.commits == ["train.jsonl", "valid.jsonl"]
    hub.refuses = None
    done = push(hub, str(data), "me/mine", "--json")
    report = json.loads(done.stdout)
    assert report["unchanged"] == ["train.jsonl", "valid.jsonl"]
    assert report["uploaded"] == ["README.md", "manifest.json"]
    assert json.loads(push(hub, str(data), "me/mine", "--json").stdout)["uploaded"] == []


def test_a_public_repository_is_written_only_if_asked(hub: Hub, data: Path) -> None:
    hub.files["me/open"], hub.private["me/open"] = {}, False
    done = push(hub, str(data), "me/open")
    assert (done.returncode, hub.files["me/open"]) == (2, {})
    assert "--public" in done.stderr
    assert push(hub, str(data), "me/open", "--public").returncode == 0


def test_a_data_set_without_the_redactor_is_refused(hub: Hub, tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(20))
    karl_fast.sample(log, tmp_path / "data", k=10, allow_secrets=True)
    done = push(hub, str(tmp_path / "data"), "me/mine")
    assert (done.returncode, hub.files) == (1, {})
    assert "--allow-secrets" in done.stderr


@pytest.mark.parametrize("shape", ["chat", "prime-rl", "atif"])
def test_a_data_set_with_a_secret_is_refused_and_not_shown(hub: Hub, tmp_path: Path, shape: Any) -> None:
    """As if an older version had not known the form of the secret."""
    records = [rows.record(n, reward=n % 2) for n in range(20)]
    records[3]["messages"][1]["content"] = f"the key is {SECRET}"
    log = rows.write(tmp_path / "log.jsonl", records)
    karl_fast.sample(log, tmp_path / "data", k=20, split=(1.0, 0.0, 0.0), shape=shape, allow_secrets=True)
    manifest = tmp_path / "data" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"allow_secrets": true', '"allow_secrets": false'))
    done = push(hub, str(tmp_path / "data"), "me/mine")
    assert (done.returncode, hub.files) == (1, {}), done.stderr
    assert "1 row holds text that looks like a secret" in done.stderr
    assert SECRET not in done.stderr


def test_a_secret_in_the_card_is_refused(hub: Hub, data: Path) -> None:
    with (data / "README.md").open("a") as file:
        file.write(f"\nMy key is {SECRET}.\n")
    done = push(hub, str(data), "me/mine")
    assert (done.returncode, hub.files) == (1, {})
    assert "README.md holds text that looks like a secret" in done.stderr
    assert SECRET not in done.stderr


def test_paths_of_this_machine_stay_here(hub: Hub, tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(20))
    (tmp_path / "mine.py").write_text(
        "def reward(completions, **_):\n    return [float(len(c)) for c in completions]\n"
    )
    function: Any = {"fn": f"{tmp_path}/mine.py:reward", "weight": 1.0}
    karl_fast.sample(log, tmp_path / "data", k=10, reward={"mine": function})
    assert push(hub, str(tmp_path / "data"), "me/mine").returncode == 0
    manifest = hub.files["me/mine"]["manifest.json"].decode()
    assert str(tmp_path) not in manifest
    assert "mine.py:reward" in manifest


def test_a_manifest_without_files_is_refused(hub: Hub, data: Path) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["export"].pop("files")
    (data / "manifest.json").write_text(json.dumps(manifest))
    assert push(hub, str(data), "me/mine").returncode == 1
    assert hub.files == {}


def test_an_edited_data_set_and_wrong_names_are_refused(hub: Hub, data: Path) -> None:
    done = push(hub, str(data), "mine")
    assert (done.returncode, "wanted OWNER/NAME" in done.stderr) == (2, True)
    done = push(hub, str(data), "me/mine", "--license", "MIT License")
    assert (done.returncode, "wanted an identifier" in done.stderr) == (2, True)
    with (data / "train.jsonl").open("a") as file:
        file.write("{}\n")
    done = push(hub, str(data), "me/mine")
    assert (done.returncode, "is not as karl-fast wrote it" in done.stderr) == (1, True)
    assert hub.files == {}
