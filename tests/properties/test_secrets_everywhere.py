"""Law 9 on a scale: secrets made from their formats, in every encoding, and lines without any."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import karl_fast
from karl_fast import _core
from tests import rows
from tests.properties import generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WANTED = 0.95


@pytest.mark.parametrize("made", [generator.bare, generator.assigned], ids=["by form", "by name"])
def test_nearly_all_secrets_are_replaced_in_every_encoding(
    made: Callable[[random.Random], Iterator[tuple[str, str, str, str]]],
) -> None:
    cases = list(made(random.Random(22)))
    missed = [
        (family, place) for family, place, secret, text in cases if generator.is_kept(secret, _core.redacted(text))
    ]
    assert len(missed) <= (1 - WANTED) * len(cases), missed
    for of in range(2):  # and no family or encoding is left out as a whole
        names = [case[of] for case in cases]
        lost = [case[of] for case in missed]
        assert not {name for name in names if lost.count(name) > names.count(name) / 4}, missed


def test_redaction_is_idempotent_and_keeps_json() -> None:
    for family, place, secret, text in generator.bare(random.Random(7)):
        clean = _core.redacted(text)
        if generator.is_kept(secret, clean):
            continue  # few are missed, which the test above counts
        assert clean.count("[REDACTED:") == text.count("[REDACTED:") + 1, (family, place, clean)
        assert _core.redacted(clean) == clean
        if place.startswith("json"):
            assert shape(text) == shape(clean)


def shape(text: str) -> Any:
    """Return what a JSON text is built of, whatever its strings say; None where it is not JSON, or a string alone."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return None if isinstance(value, str) else built(value)


def built(value: Any) -> Any:
    if isinstance(value, dict):
        return [built(one) for one in value.values()]
    if isinstance(value, list):
        return [built(one) for one in value]
    return shape(value) if isinstance(value, str) else value


def spots(value: Any) -> list[str]:
    """Return the words of all strings in a value, those of JSON inside of strings too."""
    if isinstance(value, dict):
        return [word for pair in value.items() for one in pair for word in spots(one)]
    if isinstance(value, list):
        return [word for one in value for word in spots(one)]
    if isinstance(value, str):
        inner = shape(value)
        return value.split() if inner is None else spots(json.loads(value))
    return []


SECRET = st.builds(
    lambda seed, form: generator.secret(form, random.Random(seed)),
    st.integers(0, 1 << 30),
    st.sampled_from([form for form in generator.FORMATS.values() if "://" not in form]),
)
WORD = st.sampled_from(
    ["plain", "x", "", 'say "hi"', "back\\slash", "línea\nnueva", "\u2028", "a/b", "1.5e3", "{not json", "\U0001f600"]
)
TEXT = st.one_of(WORD, SECRET.map(lambda secret: f"use {secret} now"), SECRET)
KEYS = st.one_of(st.sampled_from(["cmd", "password", "token", "a", "value", "name", "k\u00e9y"]), SECRET)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), TEXT)
NESTED = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.tuples(inner, st.booleans(), st.booleans()).map(
            lambda one: json.dumps(one[0], ensure_ascii=one[1], indent=1 if one[2] else None)
        ),
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, NESTED, max_size=4), st.booleans())
def test_redaction_keeps_the_shape_of_rows(row: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(row, ensure_ascii=ascii_only)
    clean = _core.redacted(text)
    assert shape(clean) == shape(text)
    before, after = spots(json.loads(text)), spots(json.loads(clean))
    assert len(before) == len(after)
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert all("[REDACTED:" in other for _, other in changed)
    assert _core.redacted(clean) == clean


@pytest.mark.parametrize("shape", ["chat", "prompt-completion-text", "text", "raw"])
def test_a_mention_of_a_private_key_stays(tmp_path: Path, shape: str) -> None:
    mention = "find files with -----BEGIN RSA " + "PRIVATE KEY----- in them"
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "sh", "arguments": json.dumps({"command": mention, "n": 1})},
    }
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": mention},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "none"},
        {"role": "assistant", "content": "the answer is 42"},
    ]
    log = rows.write(tmp_path / "log.jsonl", [rows.record(n, messages=turns) for n in range(4)])
    manifest = karl_fast.sample(log, tmp_path / "data", k=4, shape=shape).manifest
    files = rows.files(tmp_path / "data").items()
    text = b"".join(content for name, content in files if name.endswith(".jsonl")).decode()
    assert manifest["secrets"] == {}
    assert text.count("the answer is 42") == 4
    if shape == "chat":
        for line in text.splitlines():
            made = json.loads(line)["messages"][1]["tool_calls"][0]["function"]["arguments"]
            assert made == json.loads(call["function"]["arguments"]) or json.loads(made)["command"] == mention


def code() -> Iterator[str]:
    """Yield lines of code and of lock files with everything in them that only looks like a secret."""
    draw = random.Random(5)
    many = generator.secret
    lines = [
        lambda: f'checksum = "{many("{h64}", draw)}"',
        lambda: f'    "integrity": "sha512-{many("{b86}", draw)}==",',
        lambda: f'source = "git+https://github.com/a/b?rev={many("{h40}", draw)}#{many("{h40}", draw)}"',
        lambda: f"github.com/a/b v1.2.3/go.mod h1:{many('{b43}', draw)}=",
        lambda: f'{{url = "https://x.org/{many("{h60}", draw)}/x.whl", hash = "sha256:{many("{h64}", draw)}"}}',
        lambda: f'id = "{many("{uuid}", draw)}"',
        lambda: f"data:image/png;base64,{many('{b400}', draw)}==",
        lambda: f'<img src="data:image/png;base64,{many("{b100}", draw)}">',
        lambda: f"commit {many('{h40}', draw)}",
        lambda: f"{many('{h40}', draw)}  refs/heads/main",
        lambda: "token = self.get_token_from_header(request.headers)",
        lambda: 'password: str = Field(default="", description="the password of the user")',
        lambda: "def set_password(self, password, old_password=None):",
        lambda: 'api_key = os.environ["OPENAI_API_KEY"]',
        lambda: "if (token.type === TokenType.Identifier && secretKey2) return tokens[i+1];",
        lambda: "max_tokens=4096, token_ids=input_ids[:, 1:], pad_token_id=50256",
        lambda: '    "react-dom@18.2.0": "https://registry.npmjs.org/react-dom/-/react-dom-18.2.0.tgz",',
        lambda: 'let key = format!("{}-{}", self.key_prefix, hash_of(&value));',
        lambda: f"!function(e,t){{var n=e.key,r=t.token||s.getElementById;{many('{a3}', draw)}(n,r)}}(this);",
        lambda: "AuthorizationPolicy: AuthorizationPolicyV2Beta1,",
        lambda: 'href="https://user@example.com:8080/a@b.c?token=none"',
        lambda: f"sha256:{many('{h64}', draw)}",
        lambda: 'secret_name = "projects/my-project/secrets/db-password/versions/3"',
    ]
    for at in range(100_000):
        yield lines[at % len(lines)]()


def test_ordinary_code_stays() -> None:
    lines = list(code())
    clean = _core.redacted("\n".join(lines)).split("\n")
    changed = [line for line, other in zip(lines, clean, strict=True) if line != other]
    assert len(changed) <= len(lines) / 10_000, changed[:10]


def test_convert_says_which_secrets_it_leaves_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    turns = [{"role": "user", "content": f"use {secret}"}, {"role": "assistant", "content": f"used {secret}"}]
    log = rows.write(tmp_path / "log.jsonl", [{"messages": turns, "reward": 1.0}])
    account = karl_fast.convert([log], tmp_path / "t.jsonl", allow_secrets=True)
    assert secret in (tmp_path / "t.jsonl").read_text("utf-8")
    assert account.secrets == {"github": 2}
    account = karl_fast.convert([log], tmp_path / "t.jsonl", force=True)
    assert account.secrets == {"github": 2}
    assert secret not in (tmp_path / "t.jsonl").read_text("utf-8")
    from karl_fast.cli.commands.convert import describe_conversion

    said = [line for line in describe_conversion(account, "t.jsonl", "log").splitlines() if "secret" in line]
    assert len(said) == 1 or said[0].startswith("warning   2 secrets stand in it (github 2)")
