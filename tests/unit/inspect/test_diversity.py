"""Diversity of the answers of a log before a draw, and of a data set after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.diversity.answers import ROWS, of_answers
from karl_fast.export.compare import compare
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path


def said(number: int, group: str | None, text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "q a b c"}, {"role": "assistant", "content": text}]
    return rows.record(number, group, number % 2) | {"messages": messages} | more


def test_numbers_are_those_of_a_small_case() -> None:
    found = of_answers([("g", "a b a"), ("g", "a b a"), ("h", "c"), (None, "d e"), ("h", ""), ("i", {"no": 1})])
    assert found is not None
    assert found["rows"] == 4
    assert found["distinct_1"] == pytest.approx(5 / 9)
    assert found["distinct_2"] == pytest.approx(3 / 5)
    assert found["self_bleu"] == pytest.approx(2 / 4)  # the first two are each other's reference
    assert found["unique"] == 0.5


@pytest.mark.parametrize("answers", [[], [("g", "")], [("g", None)], [("g", [{"role": "tool", "content": "a"}])]])
def test_without_words_there_is_none(answers: list[Any]) -> None:
    assert of_answers(answers) is None


def test_one_answer_has_none_to_be_compared_with() -> None:
    found = of_answers([("g", "a")])
    assert found == {"rows": 1, "distinct_1": 1.0, "distinct_2": None, "self_bleu": None, "unique": None}


def test_a_log_and_what_is_drawn_from_it(tmp_path: Path) -> None:
    """The log has an answer that is equal in half of its rows; the draw takes only the other half."""
    records = [said(n, f"g{n % 4}", f"word{n} other{n}" if n % 2 else "same old") for n in range(64)]
    rows.write(tmp_path / "log.jsonl", records)
    before = karl_fast.inspect(tmp_path / "log.jsonl").report["diversity"]
    assert before["rows"] == 64
    assert before["distinct_1"] == pytest.approx((2 + 64) / 128)
    assert before["unique"] == pytest.approx((1 + 1 / 16) / 2)
    for name, choices in {"best": {"min_reward": 1.0}, "all": {}}.items():
        karl_fast.sample(tmp_path / "log.jsonl", tmp_path / name, sampler="all", **choices)  # type: ignore[arg-type]
    found = compare(tmp_path / "best", tmp_path / "all")
    assert found["a"]["diversity"] == {
        "rows": 32,
        "distinct_1": 1.0,
        "distinct_2": 1.0,
        "self_bleu": 0.0,
        "unique": 1.0,
    }
    assert found["b"]["diversity"] == pytest.approx(before)


def test_a_large_log_compares_only_some_rows(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [said(n, "g", f"w{n}") for n in range(ROWS + 50)])
    found = karl_fast.inspect(tmp_path / "log.jsonl").report["diversity"]
    assert found["rows"] == ROWS
    assert found["distinct_1"] == 1.0
