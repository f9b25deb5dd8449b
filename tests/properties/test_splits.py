"""Splits: by group, else by prompt; near their quotas; with few changes when a log grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.export.training_rows import empty_split, open_source
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.export.manifest import Manifest
    from karl_fast.settings.schema import Shape

Record = dict[str, Any]


def asked(prompts: int, each: int) -> list[Record]:
    """Rollouts without a group, several of each prompt."""
    made = [rows.record(n, None, n % 5 / 4) for n in range(prompts * each)]
    for number, one in enumerate(made):
        one["messages"][0]["content"] = f"prompt {number % prompts}"
    return made


def sides(out: Path, key: Any) -> dict[str, set[Any]]:
    """What the rows of each file have in common."""
    return {
        path.stem: {key(json.loads(line)) for line in path.read_text("utf-8").splitlines()}
        for path in out.glob("*.jsonl")
    }


def quotas(manifest: Manifest) -> dict[str, tuple[float, int, int]]:
    return {name: (one["wanted"], one["rows"], one["groups"]) for name, one in manifest["export"]["quotas"].items()}


@pytest.mark.parametrize("shape", ["chat", "prompt-completion", "text", "raw", "kto", "sharegpt", "openai"])
@pytest.mark.parametrize("sampler", ["gumbel", "systematic", "all"])
def test_equal_prompts_without_group_share_a_side(tmp_path: Path, shape: Shape, sampler: Any) -> None:
    log = rows.write(tmp_path / "log.jsonl", asked(20, 6))
    choices: dict[str, Any] = {} if sampler == "all" else {"k": 90}
    manifest = karl_fast.sample(
        log, tmp_path / "out", shape=shape, sampler=sampler, split=(0.6, 0.2, 0.2), **choices
    ).manifest
    prompt_of = {f"r{n}": n % 20 for n in range(120)}
    found = sides(tmp_path / "out", lambda row: prompt_of[row["id"] if shape == "raw" else row["karl_fast"]["id"]])
    assert set(found) == {"train", "valid", "test"}
    assert sum(map(len, found.values())) == len(set().union(*found.values()))
    for name, (wanted, count, groups) in quotas(manifest).items():
        assert abs(count - wanted) <= 6
        assert groups == len(found[name])
        assert count == manifest["export"]["splits"][name]


def test_prompts_in_equivalent_forms_share_a_side(tmp_path: Path) -> None:
    """Texts, messages, orders of keys and secrets that are replaced: what the exported rows ask is equal."""
    made = [
        {"prompt": f"p{n % 8}", "completion": f"a{n}"}
        if n % 3
        else {"prompt": [{"content": f"p{n % 8}", "role": "user"}], "completion": f"a{n}"}
        for n in range(96)
    ]
    log = rows.write(tmp_path / "log.jsonl", [{"id": n, "reward": n % 2} | one for n, one in enumerate(made)])
    karl_fast.sample(log, tmp_path / "out", k=96, split=(0.5, 0.5, 0.0))
    found = sides(tmp_path / "out", lambda row: row["messages"][0]["content"])
    assert len(found["train"]) + len(found["valid"]) == 8


def test_a_system_prompt_alone_is_no_prompt(tmp_path: Path) -> None:
    """Where the assistant speaks first, all rows would else be one group, and no row would be valid."""
    system, hello = {"role": "system", "content": "be brief"}, {"role": "assistant", "content": "hello"}
    made = [one | {"messages": [system, hello, *one["messages"]]} for one in asked(60, 1)]
    manifest = karl_fast.sample(rows.write(tmp_path / "log.jsonl", made), None, k=60).manifest
    assert quotas(manifest)["valid"] == (6.0, 6, 6)


def test_non_conversations_are_dealt_by_content(tmp_path: Path) -> None:
    made = [{"id": n, "reward": n % 2, "text": f"t{n % 10}"} for n in range(80)]
    karl_fast.sample(rows.write(tmp_path / "log.jsonl", made), tmp_path / "out", k=80, split=(0.5, 0.5, 0.0))
    found = sides(tmp_path / "out", lambda row: row["text"])
    assert not found["train"] & found["valid"]
    strange = [{"id": n, "reward": n % 2, "x": n} for n in range(80)]
    log = rows.write(tmp_path / "more.jsonl", strange)
    assert quotas(karl_fast.sample(log, None, k=80, shape="raw").manifest)["valid"] == (8.0, 8, 8)


def test_few_groups_split_validly_for_every_seed(tmp_path: Path) -> None:
    """By a coin for each group seven of twelve seeds had none, and one had 17 rows."""
    log = rows.write(tmp_path / "log.jsonl", rows.records(160, groups=16))
    for seed in range(12):
        manifest = karl_fast.sample(log, None, k=48, seed=seed).manifest
        wanted, count, groups = quotas(manifest)["valid"]
        assert wanted == 4.8
        assert 4 <= count <= 7, seed
        assert groups >= 1
        assert manifest["draw"]["rows"] == 48


@pytest.mark.parametrize(("sizes", "valid"), [([40], 0), ([36, 4], 4), ([30, 10], 10), ([20, 20], 20)])
def test_a_group_that_is_larger_than_the_quota(tmp_path: Path, sizes: list[int], valid: int) -> None:
    made = [rows.record(100 * at + n, f"g{at}") for at, size in enumerate(sizes) for n in range(size)]
    manifest = karl_fast.sample(rows.write(tmp_path / "log.jsonl", made), None, k=40).manifest
    assert manifest["export"]["splits"] == {"train": 40 - valid, "valid": valid, "test": 0}


def test_a_split_that_misses_its_quota_is_told(tmp_path: Path) -> None:
    from karl_fast.cli.reports.warnings import warn_about_sample

    log = rows.write(tmp_path / "log.jsonl", [rows.record(n, "g") for n in range(60)])
    warned = " ".join(warn_about_sample(karl_fast.sample(log, None, k=60).manifest))
    assert "valid has 0 rows of 6 wanted" in warned
    log = rows.write(tmp_path / "log.jsonl", rows.records(60, groups=30))
    assert "wanted: the rows" not in " ".join(warn_about_sample(karl_fast.sample(log, None, k=60).manifest))


@pytest.mark.parametrize("k", range(1, 16))
def test_an_empty_split_is_reported_for_any_size(tmp_path: Path, k: int) -> None:
    from karl_fast.cli.reports.warnings import warn_about_sample

    manifest = karl_fast.sample(rows.write(tmp_path / "log.jsonl", rows.records(40, groups=10)), None, k=k).manifest
    assert manifest["export"]["splits"]["valid"] == 0
    told = [warning for warning in warn_about_sample(manifest) if warning.startswith("valid ")]
    assert len(told) == 1
    assert "--split" in told[0]


def test_copies_count_as_rows_and_stay_together(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", asked(12, 2))
    manifest = karl_fast.sample(log, tmp_path / "out", k=200, sampler="multinomial", inverse_temperature=2.0).manifest
    found = sides(tmp_path / "out", lambda row: row["messages"][0]["content"])
    assert not found["train"] & found["valid"]
    wanted, count, _ = quotas(manifest)["valid"]
    assert wanted == 20
    assert 0 < count <= 40


def test_one_pass_deals_as_two_do(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", asked(40, 5))
    how = ["--sampler", "weighted-reservoir", "--inverse-temperature", "1", "-k", "120", "--split", "0.7,0.2,0.1"]
    assert karl("sample", log, *how, "-o", "two", folder=tmp_path).returncode == 0
    assert karl("sample", "-", *how, "-o", "one", folder=tmp_path, input=log.read_text("utf-8")).returncode == 0
    one, two = (json.loads((tmp_path / name / "manifest.json").read_text("utf-8")) for name in ("one", "two"))
    assert one["run"]["streamed"]
    assert not two["run"]["streamed"]
    assert rows.files(tmp_path / "one") == rows.files(tmp_path / "two")
    for manifest in (one, two):
        del manifest["export"]["files"]["README.md"]  # the card names the sampler
    assert one["export"] == two["export"]
    found = sides(tmp_path / "one", lambda row: row["messages"][0]["content"])
    assert sum(map(len, found.values())) == len(set().union(*found.values()))


def test_few_groups_move_when_a_log_grows(tmp_path: Path) -> None:
    """Of 200 groups that are drawn from before and after, 3 % at most change sides; by chance it would be 18 %."""
    changed = stayed = 0
    made = rows.records(2200, groups=220)
    for seed in range(10):
        sides_of: list[dict[str, str]] = []
        for count in (200, 220):
            log = rows.write(tmp_path / "log.jsonl", [one for one in made if int(one["group"][1:]) < count])
            out = tmp_path / f"out-{seed}-{count}"
            karl_fast.sample(log, out, fraction=0.5, seed=seed)
            found = sides(out, lambda row: row["karl_fast"]["group"])
            sides_of.append({group: name for name, groups in found.items() for group in groups})
        before, after = sides_of
        both = before.keys() & after.keys()
        changed += sum(before[group] != after[group] for group in both)
        stayed += len(both)
    assert changed / stayed < 0.03, f"{changed} of {stayed}"


def trajectory(name: str, session: str | None, parent: str | None = None, **more: Any) -> Record:
    """A line as `convert` writes it."""
    head = {"karl_fast_trajectory": 1, "id": name, "group": None, "reward": 1.0}
    called = None if parent is None else {"id": parent, "tool_call_id": None}
    messages = [{"role": "user", "content": f"do {name}"}, {"role": "assistant", "content": "done"}]
    return head | {"parent": called, "session": session, "messages": messages} | more


@pytest.mark.parametrize("shape", ["chat", "raw"])
def test_sub_agents_and_forks_share_a_side(tmp_path: Path, shape: Shape) -> None:
    lines = []
    for n in range(30):
        root = f"s{n}"
        warm = [{"role": "user", "content": "Warmup"}, {"role": "assistant", "content": "ready"}]
        lines += [
            trajectory(root, root, group=f"branch-{n}" if n % 2 else None),
            trajectory(f"{root}/agent", root, root, messages=warm),
            trajectory(f"{root}/agent/deep", f"{root}/agent", f"{root}/agent"),
            trajectory(f"fork-of-{root}", root, group=f"other-{n}"),
        ]
    log = rows.write(tmp_path / "log.jsonl", lines)
    karl_fast.sample(log, tmp_path / "out", sampler="all", split=(0.7, 0.3, 0), shape=shape, allow_secrets=True)

    def session(row: Record) -> str:
        return str(row["id"] if shape == "raw" else row["karl_fast"]["id"]).removeprefix("fork-of-").split("/")[0]

    found = sides(tmp_path / "out", session)
    assert set(found) == {"train", "valid"}
    assert min(map(len, found.values())) >= 6, "a prompt that many sub-agents share joins no sessions"
    assert not found["train"] & found["valid"]


def test_sessions_change_no_split_of_rows_without_one(tmp_path: Path) -> None:
    lines = [trajectory(f"r{n}", None, group=f"g{n % 12}") for n in range(60)]
    plain = [
        {key: value for key, value in line.items() if key in ("id", "group", "reward", "messages")} for line in lines
    ]
    for name, made in (("a", lines), ("b", plain)):
        log = rows.write(tmp_path / f"{name}.jsonl", made)
        karl_fast.sample(log, tmp_path / name, sampler="all", split=(0.7, 0.3, 0))
    assert rows.files(tmp_path / "a") == rows.files(tmp_path / "b")


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize(("count", "groups"), [(12, None), (20, 12), (20, 4), (48, 3), (300, 40)])
def test_the_hint_for_an_empty_split_works(tmp_path: Path, split: str, count: int, groups: int | None) -> None:
    records = [rows.record(n, f"g{n % groups}" if groups else None) for n in range(count)]
    for n, record in enumerate(records):
        record["messages"][0]["content"] = f"q{n}"
    log = rows.write(tmp_path / "log.jsonl", records)
    karl_fast.sample(log, tmp_path / "set", k=count, split=(1.0, 0.0, 0.0))
    error = empty_split(open_source(tmp_path / "set"), split)
    shares = str(error.hint).partition("--split ")[2].split()[0]
    karl_fast.sample(log, tmp_path / "again", k=count, split=tuple(map(float, shares.split(","))))
    assert len(open_source(tmp_path / "again").rows(split)) >= 4


def test_rows_of_one_group_have_no_hint(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", [rows.record(n, "g") for n in range(20)])
    karl_fast.sample(log, tmp_path / "set", k=20)
    error = empty_split(open_source(tmp_path / "set"), "test")
    assert str(error.hint) == "draw more rows, or rows of more groups: no --split of these leaves it enough"
