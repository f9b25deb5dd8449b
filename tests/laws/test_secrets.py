"""Law 9: no secret in a log reaches a data set unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows

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
