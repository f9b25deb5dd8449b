"""Logged trees: sub-agents have the reward of the session that called them, and a tree weighs as one row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import Settings, sample
from karl_fast.errors import LogError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def row(name: str, reward: float | None = None, caller: str | None = None) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"do {name}"}, {"role": "assistant", "content": name}]
    parent = None if caller is None else {"id": caller, "tool_call_id": "call"}
    return {"id": name, "reward": reward, "messages": messages, "parent": parent}


FOREST = [
    *(row("a", 0.5), row("a1", 9.0, "a"), row("a2", None, "a"), row("a21", None, "a2")),
    *(row("b", 0.5), row("lone", 0.25, "gone"), row("mute"), row("mute1", 1.0, "mute")),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in FOREST))
    return path


def weights(log: Path, **how: Any) -> dict[str, float]:
    """Share of the weight of each row that can be drawn, by its id."""
    drawn = sample(log, None, sampler="all", split=(1.0, 0.0, 0.0), **how)
    stamps = [json.loads(line)["karl_fast"] for line in drawn.lines()]
    return {stamp["id"]: float(np.exp(stamp["log_weight"])) for stamp in stamps}


def test_a_tree_weighs_as_one_row_with_the_reward_of_its_root(log: Path) -> None:
    shares = weights(log, parent="parent.id", inverse_temperature=2.0)
    tree = {name: share for name, share in shares.items() if name.startswith("a")}
    assert sorted(tree) == ["a", "a1", "a2", "a21"]
    assert len(set(tree.values())) == 1
    assert sum(tree.values()) == pytest.approx(shares["b"])
    assert shares["lone"] / shares["b"] == pytest.approx(np.exp(2 * (0.25 - 0.5)))
    assert "mute" not in shares
    assert "mute1" not in shares  # its own reward is not that of its tree


def test_a_caller_that_is_no_name_is_none(log: Path) -> None:
    odd = [row("c", 0.5) | {"parent": {"id": ["a"]}}, row("d", 0.5) | {"parent": {"id": {"x": 1}}}]
    before = weights(log, parent="parent.id", inverse_temperature=2.0)
    log.write_text("".join(json.dumps(each) + "\n" for each in [*FOREST[:3], *odd, *FOREST[3:]]))
    shares = weights(log, parent="parent.id", inverse_temperature=2.0)
    assert shares["c"] == shares["d"] == pytest.approx(shares["b"])
    assert shares["a21"] / shares["b"] == pytest.approx(before["a21"] / before["b"])


def test_without_it_rows_have_their_own_rewards(log: Path) -> None:
    assert sorted(weights(log, inverse_temperature=0.0)) == ["a", "a1", "b", "lone", "mute1"]


def test_the_manifest_counts_trees_and_names_the_setting(log: Path, tmp_path: Path) -> None:
    drawn = sample(log, tmp_path / "data", parent="parent.id", k=3, inverse_temperature=1.0)
    expected = {"path": "parent.id", "trees": 2, "callees": 4, "without_caller": 1}
    assert drawn.manifest["trees"] == expected
    assert drawn.manifest["settings"]["parent"] == "parent.id"
    rewards = {json.loads(line)["karl_fast"]["reward"] for line in drawn.lines()}
    assert rewards <= {0.5, 0.25}


def test_the_weight_of_a_tree_does_not_depend_on_its_shape(tmp_path: Path) -> None:
    totals = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        count = int(random.integers(2, 9))
        callers = ["root", *(f"n{random.integers(0, number)}" if number else "root" for number in range(count - 1))]
        forest = [row("root", 0.5), row("other", 0.1), *(row(f"n{n}", None, callers[n]) for n in range(count))]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in forest))
        shares = weights(path, parent="parent.id", inverse_temperature=3.0)
        totals.append(1 - shares["other"] / sum(shares.values()))
    assert totals == pytest.approx([1 / (1 + np.exp(-1.2))] * 5)


@pytest.mark.parametrize(
    "how",
    [
        {"score": "centre"},
        {"score": "zscore", "ddof": 1},
        {"score": "leave-one-out"},
        {"score": "advantage"},
        {"score": "advantage", "baseline": "partition"},
        {"score": "zscore", "partition_by": "group"},
    ],
    ids=str,
)
def test_a_root_is_compared_with_other_roots_however_many_rows_their_trees_have(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    """A group of four attempts, two of which called others: with and without the rows of these."""
    attempts = [row("a", 0.9), row("b", 0.2), row("c", 0.4), row("d", 0.4)]
    callees = [row("a1", None, "a"), row("a2", 7.0, "a"), row("a21", None, "a2"), row("c1", 0.0, "c")]
    paths = tmp_path / "roots.jsonl", tmp_path / "trees.jsonl"
    for path, rows in zip(paths, (attempts, [*callees[:2], *attempts, *callees[2:]]), strict=True):
        path.write_text("".join(json.dumps(each | {"group": "g"}) + "\n" for each in rows))
    alone = weights(paths[0], inverse_temperature=1.5, **how)
    shares = weights(paths[1], parent="parent.id", inverse_temperature=1.5, **how)
    trees = {name: sum(share for other, share in shares.items() if other[0] == name) for name in alone}
    total, whole = sum(alone.values()), sum(trees.values())
    assert {name: share / whole for name, share in trees.items()} == pytest.approx(
        {name: share / total for name, share in alone.items()}
    )
    assert shares["a1"] == pytest.approx(shares["a21"])


def test_what_an_excluded_session_called_is_excluded(tmp_path: Path) -> None:
    log, held_out = tmp_path / "log.jsonl", tmp_path / "held-out.txt"
    rows = [row("a", 0.9), row("a1", None, "a"), row("b", 0.2), row("c", 0.4)]
    log.write_text("".join(json.dumps(each | {"group": "g"}) + "\n" for each in rows))
    held_out.write_text("do a\n")
    for score in ("raw", "zscore"):
        shares = weights(log, parent="parent.id", exclude=str(held_out), score=score, inverse_temperature=1.0)
        assert sorted(shares) == ["b", "c"]


def test_what_cannot_be_a_tree_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no record has that field"):
        sample(log, None, parent="caller", k=1)
    with pytest.raises(UsageError, match="three times"):
        sample(karl_fast.read(log), None, parent="parent.id", k=1)
    circle = tmp_path / "circle.jsonl"
    circle.write_text("".join(json.dumps(each) + "\n" for each in [row("a", 1.0, "b"), row("b", 1.0, "a")]))
    with pytest.raises(LogError, match="circle"):
        sample(circle, None, parent="parent.id", k=1)
    with pytest.raises(UsageError, match="parent"):
        Settings(parent="")
