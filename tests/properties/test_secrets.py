"""Law 9: no secret in a log reaches a data set unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import _core
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

# Made up, and put together here so that no scanner takes this file for a leak.
SECRETS = {
    "aws": "AKIA" + "QWERTYUIOPASDFGH",
    "github": "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8",
    "openai": "sk-" + "proj-" + "Zx9" * 16,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE" + "abcd" * 20 + "\n-----END RSA " + "PRIVATE KEY-----",
}


@pytest.fixture(params=sorted(SECRETS))
def secret(request: pytest.FixtureRequest) -> str:
    return SECRETS[request.param]


def log(folder: Path, secret: str) -> Path:
    call = {"id": "c", "type": "function", "function": {"name": "sh", "arguments": f'{{"key": "{secret[:40]}"}}'}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": f"the key is {secret} ok?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": f"export KEY={secret}"}]},
        {"role": "assistant", "content": f"done with {secret}"},
    ]
    return rows.write(folder / "log.jsonl", [rows.record(n, messages=turns) for n in range(4)])


@pytest.mark.parametrize("shape", ["chat", "prompt-completion", "text", "raw"])
def test_a_secret_is_replaced_and_counted_in_every_shape(tmp_path: Path, secret: str, shape: str) -> None:
    manifest = karl_fast.sample(log(tmp_path, secret), tmp_path / "data", k=4, shape=shape).manifest
    text = b"".join(rows.files(tmp_path / "data").values()).decode()
    for line in secret.splitlines()[1:2] or [secret]:  # of a key in several lines, the one that matters
        assert line not in text
    assert sum(manifest["secrets"].values()) >= 4 * 2


def test_secrets_stay_where_they_are_asked_for(tmp_path: Path) -> None:
    secret = SECRETS["aws"]
    manifest = karl_fast.sample(log(tmp_path, secret), tmp_path / "data", k=4, allow_secrets=True).manifest
    assert manifest["secrets"] == {}
    assert secret in (tmp_path / "data" / "train.jsonl").read_text("utf-8")


@pytest.mark.parametrize("name", ["github", "openai", "aws"])
def test_a_secret_in_a_path_reaches_no_message_and_no_manifest(tmp_path: Path, name: str) -> None:
    folder, secret = tmp_path / SECRETS[name], SECRETS[name]
    folder.mkdir()
    rows.write(folder / "log.jsonl", [rows.record(number) for number in range(8)])
    (folder / "bad.jsonl").write_text("no json\n" + rows.dumps([rows.record(1)]), encoding="utf-8")
    (folder / "none.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    out = ("-o", tmp_path / "data", "--force")
    commands = [
        ("sample", folder / "log.jsonl", *out, "-k", 4),
        ("sample", folder / "log.jsonl", *out, "-k", 4, "--json"),
        ("sample", folder, "--dry-run", "-k", 4, "--json"),
        ("inspect", folder, "--json"),
        ("inspect", folder),
        ("inspect", folder / "bad.jsonl", "--strict"),
        ("inspect", folder / "nowhere.jsonl"),
        ("inspect", folder / "log.jsonl", "--reward", "nothing"),
        ("sample", folder / "log.jsonl", "-o", folder, "-k", 4),
        ("convert", folder, "-o", tmp_path / "made.jsonl", "--force"),
        ("convert", folder / "log.jsonl", "-o", folder / "bad.jsonl", "--force"),
    ]
    for command in commands:
        done = karl(*command, folder=tmp_path)
        assert "Traceback" not in done.stderr
        assert secret not in done.stdout + done.stderr, command
    assert "[REDACTED:" in done.stderr
    assert secret not in (tmp_path / "data" / "manifest.json").read_text("utf-8")
    with pytest.raises(karl_fast.errors.FileError) as caught:
        karl_fast.read(folder / "nowhere.jsonl")
    assert secret not in str(caught.value)
    assert secret in str(caught.value.filename)


@pytest.mark.parametrize(
    "text",
    [
        "forward_pass: 12.35s backward_pass: 30.10s first_pass: 100.00%",
        "def sign(private_key: Ed25519PrivateKey, token: OAuth2AccessToken) -> bytes:",
        "ENV GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D",
        "docker-pullable://nginx:1.25.3@sha256:" + "9f86d081884c7d65" * 4,
        '{"password": "Contraseña", "resetPassword": "Réinitialiser"}',
    ],
)
def test_ordinary_text_is_not_a_secret(text: str) -> None:
    assert _core.redacted(text) == text


def test_the_beginning_of_a_mark_hides_no_secret_behind_it() -> None:
    secret = "AKIA" + "Z7QPLM3NRT5WX2YB"
    assert secret not in _core.redacted(f"{secret} and [REDACTED:\n next {secret} and `[REDACTED:` {secret} done[0]")
