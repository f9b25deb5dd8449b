"""Law 9: no secret in a log reaches a data set unasked."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest

import karl_fast
from karl_fast import _core
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from collections.abc import Callable
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
    call = {"id": "c", "type": "function", "function": {"name": "sh", "arguments": json.dumps({"key": secret[:40]})}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": f"the key is {secret} ok?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": f"export KEY={secret}"}]},
        {"role": "assistant", "content": f"done with {secret}"},
    ]
    return rows.write(folder / "log.jsonl", [rows.record(n, messages=turns) for n in range(4)])


@pytest.mark.parametrize(
    "shape", ["chat", "prompt-completion", "prompt-completion-text", "text", "raw", "sharegpt", "openai", "atif"]
)
def test_a_secret_is_replaced_in_every_shape(tmp_path: Path, secret: str, shape: str) -> None:
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
def test_a_secret_in_a_path_is_not_shown(tmp_path: Path, name: str) -> None:
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
        ":root { --pass: #3fb950; --fail:#f85149 }",
        "a { --pass: Hsla120abc!; }",
        "style='--pass: 24px;--fail:#ff0000'",
        "passwd = getpass.getpass()\n    passwd=newValue,\n",
        "class Login(BaseModel):\n    password: LoginInput\n    passwd: Optional\n",
        'WWW-Authenticate: Bearer realm="api:v1:users"',
        "docker run -p 127.0.0.1:5432:5432:tcp and at foo.js:12:34:module:bar",
        "arn:aws:logs:*:*:log-group:MyGroup",
        "src/main.c:5432:10:error:undeclared",
        "PASS=TestOfThat is set in line 3",
        "Passwd: Accepted\n",
        "random seed: one seed for each run of the sampler and its tests",
        "sshpass with the -p option of a command",
        "The seed phrase is a list of words that a wallet makes and that the owner keeps in some safe place forever",
        "data: SGVsbG8gV29ybGQsIHRoaXMgaXMgYSBwbGFpbiB0ZXh0IHdpdGhvdXQgYW55dGhpbmc=",
    ],
)
def test_ordinary_text_is_not_a_secret(text: str) -> None:
    assert _core.redacted(text) == text


WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"

NAMED = {
    "bearer with colons": ("Authorization: Bearer ", "Kq72xW:" + "Zr9qT" * 6, "\n"),
    "bearer with a bar": ("Authorization: Bearer ", "12|" + "Zr9qT" * 8, '"'),
    "mixed case": ("POSTGRES_PASSWORD=", "KvQmTz" + "RxBwLp", "\n"),
    "words": ("SMTP_PASSWORD: ", "Correct" + "HorseBattery", "\n"),
    "literal": ("passwd = '", "hunter" + "TwoBlue", "'"),
    "passwd": ("user=bob\npasswd=", "hunter" + "blue", "\nhost=h\n"),
    "docker": ("docker run -e db_passwd=", "hunter" + "TwoBlue", " image"),
    "user with an at sign": ("postgres://bob%40example.com:", "Tq7%21" + "ayJKwz", "@db.example.com/x"),
    "user with a slash": ("amqp://org%2Fteam:", "Tq7ayJ" + "Kwz9", "@host/x"),
    "apr1": ("bob:", "$apr1$" + "Zr9qTw2b$" + "Kq72xWZr9qTw2bKq72xWZr", "\n"),
    "apr1 in a shell": ('echo "bob:', "\\$apr1\\$" + "Zr9qTw2b\\$" + "Kq72xWZr9qTw2bKq72xWZr", '"'),
    "apr1 in compose": ("bob:", "$$apr1$$" + "Zr9qTw2b$$" + "Kq72xWZr9qTw2bKq72xWZr", "\n"),
    "bcrypt in a shell": ("admin:", "\\$2y\\$05\\$" + "Zr9qT" * 10 + "abc", "\n"),
    "ldap": ("userPassword: {SSHA}", "Kq72xWZr9qTw2bKq72xWZr9qTw2bKq72", "\n"),
    "scram": ("", "SCRAM-SHA-256$4096:" + "Zr9qTw2bKq72xWZr9qTw2b==$" + ("Kq7xWZr9" * 5 + "abc=:") * 2, ""),
    "pgpass": ("db.example.com:5432:shop:bob:", "Tq7ayJ" + "!Kwz9", "\n"),
    "words with a dash": ("DB_PASSWORD=", "horse-" + "Battery-Staple", "\n"),
    "words with an underscore": ("DB_PASSWORD=", "Horse" + "_Battery", "\n"),
    "words behind spaces": ("SMTP_PASSWORD = ", "Horse" + "Battery", "\n"),
    "words in a file of settings": ("passwd: ", "Horse" + "Battery", "\n"),
    "words of a database": ("user: bob\ndb_passwd: ", "Horse" + "Battery", "\nhost: h\n"),
    "words of a bare name": ("PASS=", "Blue" + "OceanWave", "\n"),
    "words after sshpass": ("sshpass -p ", "Hunter" + "TwoGreen", " ssh x"),
    "words after curl": ("curl -u bob:", "Hunter" + "TwoGreen", " https://x"),
    "words after mysql": ("mysql -uroot -p", "Hunter" + "TwoGreen", " db"),
    "words in netrc": ("machine x login bob password ", "Hunter" + "TwoGreen", "\n"),
    "lines of netrc": ("machine x\n  login bob\n  password ", "hunter" + "blue", "\n"),
    "bearer with a user": ("Authorization: Bearer admin:", "Zk9q" + "Lm2PxR", "\n"),
    "bearer with the name of a key": ("Bearer key-1:", "AbCd" + "EfGhIjKl", '"'),
    "pgpass with the name in it": ("localhost:5432:shop:bob:", "MyPg" + "PassWord", "\n"),
    "pgpass of all ports": ("localhost:*:*:postgres:", "secret" + "word", "\n"),
    "grep in pgpass": ("/home/bob/.pgpass:1:db.example.com:5432:shop:bob:", "horse" + "-battery", "\n"),
    "seed of a wallet": ("wallet seed: ", WORDS, "\n"),
    "pgpass of all hosts": ("*:*:*:postgres:", "hunter" + "blue", "\n"),
    "mnemonic": ('MNEMONIC="', WORDS, '"'),
    "seed phrase": ("My seed phrase is: ", WORDS, "\n"),
    "seed phrase in lines": ("seed phrase:\n", "\n".join(WORDS.split()), "\n\n"),
    "seed phrase in a list": ("mnemonic = [", ", ".join(f'"{word}"' for word in WORDS.split()), "]"),
    "seed phrase of an object": ('{"seedPhrase": "', WORDS, '"}'),
    "session of bitwarden": ('BW_SESSION="', "Kq72xWZr9qTw" * 7 + "ab==", '"'),
    "putty": ("Public-Lines: 1\nAAAA\nPrivate-Lines: 1\n", "Kq72xWZr" * 6, "\nPrivate-MAC: 0123456789abcdef\n"),
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_no_part_of_a_secret_is_left(name: str) -> None:
    before, secret, after = NAMED[name]
    clean = _core.redacted(before + secret + after)
    assert clean.startswith(before[: before.rfind("\\")] if secret.startswith("\\") else before)
    assert clean.endswith(after)
    assert "[REDACTED:" in clean
    left = clean.removeprefix(before).removesuffix(after)
    assert not [secret[at : at + 5] for at in range(len(secret) - 4) if secret[at : at + 5] in left], clean


@pytest.mark.parametrize("encode", [str, quote_plus, lambda text: quote_plus(quote_plus(text)), json.dumps])
def test_a_slack_cookie_goes_in_each_encoding(encode: Callable[[str], str]) -> None:
    secret = "xoxd-" + "Kq72xWZr+9qTw/2bKq" * 6 + "=="
    clean = _core.redacted(f"Cookie: d={encode(secret)}; x=1")
    assert clean.count("[REDACTED:slack]") == 1
    assert not [piece for piece in ("2bKq", "Kq72xWZr", "9qTw", "%3D", "==") if piece in clean]


SPOKEN = {
    "settings": "DB_HOST=h\nDB_PASSWORD=Tq7ayJ!Kwz9\n",
    "address": "postgres://bob:Tq7ayJ%21Kwz9@db/x",
    "token": SECRETS["github"],
    "object": json.dumps({"api_key": SECRETS["openai"]}),
    "netrc": "machine h login bob password Tq7ayJ!Kwz9",
    "key": SECRETS["private key"],
}


@pytest.mark.parametrize("name", sorted(SPOKEN))
def test_a_base64_text_with_a_secret_goes(name: str) -> None:
    whole = b64encode(SPOKEN[name].encode()).decode()
    wide = b64encode(SPOKEN[name].encode("utf-16-le")).decode()
    lines = "\n".join(whole[at : at + 76] for at in range(0, len(whole), 76))
    safe = urlsafe_b64encode(SPOKEN[name].encode()).decode().rstrip("=")
    twice = b64encode(whole.encode()).decode()
    for text in (whole, wide, lines, safe, twice, whole.replace("=", "%3D")):
        clean = _core.redacted(f"$ base64 file\n{text}\n")
        assert re.fullmatch(r"\$ base64 file\n\[REDACTED:[a-z0-9-]+\]\n", clean), clean
        row = json.loads(_core.redacted(json.dumps({"output": f"{text}\n"})))
        assert row["output"].startswith("[REDACTED:")


def test_a_partial_mark_hides_no_secret() -> None:
    secret = "AKIA" + "Z7QPLM3NRT5WX2YB"
    assert secret not in _core.redacted(f"{secret} and [REDACTED:\n next {secret} and `[REDACTED:` {secret} done[0]")
