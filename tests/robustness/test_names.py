"""Names from a log: of any number, of any kind, and in any spelling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.export.manifest import dumps
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

LISTED = 10_000


def small(number: int, **more: Any) -> str:
    return json.dumps({"id": number, "reward": number % 2, "text": "t", **more})


def log_of(folder: Path, lines: list[str]) -> Path:
    log = folder / "log.jsonl"
    log.write_text("\n".join(lines) + "\n", "utf-8")
    return log


STRANGE = [["a", "b"], {"name": "a"}, [], [None]]


@pytest.mark.parametrize("domain", STRANGE)
def test_an_unasked_invalid_domain_drops_no_row(tmp_path: Path, domain: object) -> None:
    log = log_of(tmp_path, [small(n, domain=domain if n % 2 else "x") for n in range(20)])
    drawn = karl_fast.sample(log, None, k=20, strict=True).manifest
    assert (drawn["accounting"]["rows_kept"], drawn["accounting"]["dropped"]) == (20, {})
    assert drawn["accounting"]["notes"]["unusable_domains"] == 10
    assert drawn["domains"] == {"x": {"before": 10, "after": 10}}
    assert "unusable domains 10" in " ".join(karl("inspect", log).stdout.split())


@pytest.mark.parametrize("choices", [{"domain": "domain"}, {"per": {"domain": "equal"}}, {"partition_by": "domain"}])
def test_an_asked_invalid_domain_drops_its_row(tmp_path: Path, choices: dict[str, Any]) -> None:
    log = log_of(tmp_path, [small(n, domain=["a"] if n % 2 else "x") for n in range(20)])
    account = karl_fast.sample(log, None, k=4, **choices).manifest["accounting"]
    assert (account["rows_kept"], account["dropped"]) == (10, {"bad_category": 10})


def test_a_manifest_lists_the_largest_domains(tmp_path: Path) -> None:
    lines = [small(n, domain=f"d{n:06}") for n in range(LISTED + 2000)]
    lines += [small(n, domain=f"d{n:06}", again=1) for n in range(LISTED + 1000, LISTED + 2000)]
    manifest = karl_fast.sample(log_of(tmp_path, lines), tmp_path / "out", k=100).manifest
    assert len(manifest["domains"]) == LISTED
    assert all(f"d{n:06}" in manifest["domains"] for n in range(LISTED + 1000, LISTED + 2000))
    assert (manifest["other_domains"], manifest["rows_of_other_domains"]) == (2000, 2000)
    assert sum(one["before"] for one in manifest["domains"].values()) + 2000 == len(lines)
    karl_fast.sample(tmp_path / "log.jsonl", tmp_path / "out", k=10, force=True)


def test_a_manifest_lists_the_largest_strata(tmp_path: Path) -> None:
    lines = [small(n, domain=f"d{n:06}") for n in range(LISTED + 500)]
    strata = karl_fast.sample(log_of(tmp_path, lines), None, k=100, per={"domain": "equal"}).manifest["draw"]["strata"]
    assert (strata["count"], len(strata["by_name"])) == (LISTED + 500, LISTED)


def test_names_in_a_manifest_are_bounded(tmp_path: Path) -> None:
    lines = [small(n, domain=f"{n}-" + "x" * 100_000) for n in range(60)]
    manifest = karl_fast.sample(log_of(tmp_path, lines), None, k=10).manifest
    assert len(dumps(manifest)) < 5 << 20
    assert len(manifest["domains"]) + manifest["other_domains"] == 60
    assert manifest["other_domains"] > 0


def test_lists_of_files_in_a_manifest_are_cut(tmp_path: Path) -> None:
    manifest = karl_fast.sample(log_of(tmp_path, [small(n) for n in range(20)]), None, k=10).manifest
    many = manifest | {"inputs": manifest["inputs"] * (LISTED + 7)}
    many["run"] = many["run"] | {"skipped": [{"path": "x", "reason": "y"}] * (LISTED + 1)}
    cut = json.loads(dumps(many))
    assert (len(cut["inputs"]), len(cut["run"]["skipped"])) == (LISTED, LISTED)
    assert cut["run"]["not_listed"] == {"inputs": 7, "skipped": 1}
    assert json.loads(dumps(manifest)) == json.loads(json.dumps(manifest))
    (tmp_path / "manifest.json").write_text(json.dumps(cut), "utf-8")
    done = karl("sample", "--config", "manifest.json", "--dry-run", folder=tmp_path)
    assert (done.returncode, "no log given" in done.stderr) == (2, True)
    assert karl("sample", "log.jsonl", "--config", "manifest.json", "--dry-run", folder=tmp_path).returncode == 0


NUMBERS = ["1E5", "1e5", "1E+5", "-1.50E-07", "7.50", "12345678901234567890123", "1E400", "-0.0", "100000"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_keeps_its_text_everywhere(tmp_path: Path, number: str) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    call = f'{{"function": {{"name": "f", "arguments": {{"x": {number}}}}}}}'
    line = (
        f'{{"id": {number}, "group": {number}, "domain": {number}, "reward": 1, "messages": [{{"role": "assistant", '
        f'"content": "{key}", "tool_calls": [{call}]}}]}}'
    )
    log = log_of(tmp_path, [line])
    how: dict[str, Any] = {"k": 1, "inverse_temperature": 0.0}
    chat = karl_fast.sample(log, None, **how)
    [row] = chat.lines()
    stamp = json.loads(row)["karl_fast"]
    assert [stamp["id"], stamp["group"], stamp["domain"]] == [number] * 3
    assert f'"arguments":{{"x":{number}}}' in row
    assert list(chat.manifest["domains"]) == [number]
    [raw] = karl_fast.sample(log, None, shape="raw", **how).lines()
    assert raw.startswith(f'{{"id":{number},"group":{number},"domain":{number},')
    assert "REDACTED" in raw
    assert f'"x":{number}' in raw


def test_spellings_of_one_number_are_reported(tmp_path: Path) -> None:
    spelled = ["1", "1.0", "1e0", '"1"', "2"]
    lines = [f'{{"id": {n}, "group": {name}, "reward": {n % 2}, "text": "t"}}' for n, name in enumerate(spelled * 4)]
    report = karl_fast.inspect(log_of(tmp_path, lines)).report
    assert report["groups"]["count"] == 4  # a number and a text that reads as it are one name
    assert report["mixed_numbers"] == {"group": {"numbers": 1, "first": ["1", "1.0", "1e0"]}}
    for command in (("inspect",), ("sample", "-k", 4, "--dry-run")):
        done = karl(*command, "log.jsonl", folder=tmp_path)
        said = " ".join((done.stdout + done.stderr).split())
        assert "warning: 1, 1.0, 1e0 are different groups, for a name is the text in the log" in said
    plain = log_of(tmp_path, [line for line in lines if '"group": 1' not in line or '"group": 1,' in line])
    assert "mixed_numbers" not in karl_fast.inspect(plain).report
