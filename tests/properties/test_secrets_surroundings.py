"""Law 9 where a secret has no form of its own: keys in lines, whole values, weak passwords, commands, tables."""

from __future__ import annotations

import json
import random
import re

import pytest

from karl_fast import _core
from tests.properties import generator, secret_cases
from tests.properties.test_secrets_everywhere import shape

DASHES = "-----"


def base64(seed: int, form: str) -> str:
    return generator.secret(form, random.Random(seed))


def key_lines(seed: int = 3) -> list[str]:
    return ["MII" + base64(seed, "{b61}"), *[base64(seed + n, "{b64}") for n in range(1, 7)], base64(seed, "{b38}==")]


def key(seed: int = 3) -> list[str]:
    name = "RSA " + "PRIVATE KEY"
    return [f"{DASHES}BEGIN {name}{DASHES}", *key_lines(seed), f"{DASHES}END {name}{DASHES}"]


@pytest.mark.parametrize("mark", list("&,;}<>|)]"))
@pytest.mark.parametrize("syntax", sorted(secret_cases.WHOLE))
def test_a_value_is_replaced_whole(syntax: str, mark: str) -> None:
    text = secret_cases.WHOLE[syntax](f"Tr0ub4dor{mark}3xyz")
    clean = _core.redacted(text)
    assert not [part for part in ("3xyz", "Tr0ub4dor") if part in clean], clean
    assert clean.count("[REDACTED:named-password]") == 1
    assert [line[:3] for line in clean.splitlines()] == [line[:3] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://a.io/?user=x&password=Tr0ub4,3xyz&next=1", "https://a.io/?user=x&password=#&next=1"),
        ("Server=a;Password=Tr0ub4&3xyz;Encrypt=true", "Server=a;Password=#;Encrypt=true"),
        ("<password>Tr0ub4&amp;3;x}yz</password>", "<password>#</password>"),
        ("{password: Tr0ub4dor!3xyz, user: x}", "{password: #, user: x}"),
        ("DB_PASSWORD=Tr0ub4'3xyz\nA=1", "DB_PASSWORD=#\nA=1"),
        ("DB_PASSWORD=Tr0ub4\\$3xyz\nA=1", "DB_PASSWORD=#\nA=1"),
        ("f(password=Tr0ub4dor3, user=x)", "f(password=#, user=x)"),
        ("A_TOKEN=aB3dE5fG7hJ9kL1m && run", "A_TOKEN=# && run"),
        ('password = "Tr0ub4dor !3 xyZ9"', 'password = "#"'),
    ],
)
def test_a_value_ends_where_its_syntax_says(text: str, clean: str) -> None:
    assert re.sub(r"\[REDACTED:[a-z-]+\]", "#", _core.redacted(text)) == clean


@pytest.mark.parametrize("frame", sorted(secret_cases.FRAMES))
@pytest.mark.parametrize("nested", [False, True])
def test_a_private_key_is_replaced_in_any_surroundings(frame: str, nested: bool) -> None:
    lines = [secret_cases.FRAMES[frame](n, line) for n, line in enumerate(key(), 1)]
    text = "before\n" + "\n".join(lines) + "\nafter"
    clean = _core.redacted(json.dumps({"out": text}) if nested else text)
    assert not [line for line in key_lines() if line in clean]
    assert clean.count("[REDACTED:private-key]") == 1
    out = json.loads(clean)["out"] if nested else clean
    assert out.startswith("before\n")
    assert out.endswith("\nafter")


@pytest.mark.parametrize("strings", sorted(secret_cases.STRINGS))
def test_a_private_key_in_strings_keeps_the_strings(strings: str) -> None:
    text = json.dumps(secret_cases.STRINGS[strings](key()))
    clean = _core.redacted(text)
    assert not [line for line in key_lines() if line in clean]
    assert shape(clean) == shape(text)
    assert clean.count("[REDACTED:private-key]") == 1
    assert clean.count('"line"') == text.count('"line"')


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("kind", ["putty", "ssh2", "no begin"])
def test_other_forms_of_private_keys_are_replaced(kind: str, end: str) -> None:
    putty = ["PuTTY-User-Key-File-3: ssh-rsa", "Public-Lines: 1", "AAAA" + base64(9, "{b60}"), "Private-Lines: 8"]
    name = "SSH2 ENCRYPTED " + "PRIVATE KEY ----"
    lines = {
        "putty": [*putty, *key_lines(), "Private-MAC: " + base64(1, "{h64}")],
        "ssh2": [f"---- BEGIN {name}", 'Comment: "a key"', *key_lines(), f"---- END {name}"],
        "no begin": key()[3:],
    }[kind]
    if kind == "no begin" and end == "\\n":
        return
    clean = _core.redacted("x " + end.join(lines))
    assert not [line for line in key_lines()[3:] if line in clean], clean


def test_words_behind_a_key_without_an_end_stay() -> None:
    text = json.dumps([*key()[:-1], "the", "output", "was cut here"])
    assert json.loads(_core.redacted(text))[-3:] == ["the", "output", "was cut here"]


@pytest.mark.parametrize("text", secret_cases.BESIDE)
def test_an_access_key_beside_its_id_goes(text: str) -> None:
    secret = base64(5, "{a18}7aZ/{b17}q")
    clean = _core.redacted(text.format(id="AK" + "IA" + base64(5, "{216}"), key=secret))
    assert (secret in clean, clean.count("[REDACTED:")) == (False, 2), clean


@pytest.mark.parametrize("sign", secret_cases.SIGNS)
def test_a_secret_behind_an_encoded_sign_is_replaced(sign: str) -> None:
    for secret in ["gh" + "p_" + base64(1, "{a36}"), "AK" + "IA" + base64(1, "{216}")]:
        assert secret[6:] not in _core.redacted(f"x{sign}{secret} y")
    assert "Tr0ub4dor" not in _core.redacted(f"DB_PASSWORD{sign}Tr0ub4dor3xyz y")


@pytest.mark.parametrize("value", ["zanzibarfish", "84729104", "Sunflower42"])
@pytest.mark.parametrize("text", secret_cases.WEAK)
def test_a_weak_password_behind_a_name_goes(text: str, value: str) -> None:
    clean = _core.redacted(text.format(value))
    assert clean == text.format("[REDACTED:named-password]")


@pytest.mark.parametrize("text", secret_cases.LISTS)
def test_passwords_in_lists_are_replaced(text: str) -> None:
    clean = _core.redacted(text.format("Tr0ub4dor3!", "Xk9zQ7w!a"))
    assert not [part for part in ("Tr0ub", "Xk9z") if part in clean], clean
    assert "bob" in clean or "bob" not in text


@pytest.mark.parametrize("text", secret_cases.COMMANDS)
def test_passwords_in_commands_are_replaced(text: str) -> None:
    clean = _core.redacted(text.format("Tr0ub4dor3xyz"))
    assert ("Tr0ub" in clean, clean.count("[REDACTED:")) == (False, 1), clean
    assert shape(clean) == shape(text.format("Tr0ub4dor3xyz"))


@pytest.mark.parametrize(
    "text", ["redis://:p4w@h:6379/0", "rediss://default:Xk9z@cache.io:6379", "amqp://bob:x7Qz@mq.io"]
)
def test_short_passwords_of_services_are_replaced(text: str) -> None:
    assert "[REDACTED:url-password]@" in _core.redacted(text)


@pytest.mark.parametrize("value", secret_cases.STANDS_FOR)
def test_what_stands_for_a_value_stays(value: str) -> None:
    forms = ["password = {}", "password: {}", "DB_PASSWORD={}", "api_key: {}", "--password {}", "token={}"]
    for text in (form.format(value) for form in forms):
        assert _core.redacted(text) == text


@pytest.mark.parametrize("text", secret_cases.ORDINARY)
def test_ordinary_lines_stay(text: str) -> None:
    assert _core.redacted(text) == text
