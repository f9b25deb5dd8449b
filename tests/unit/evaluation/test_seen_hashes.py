"""Hashes of prompts and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast import _seen_hashes
from karl_fast.errors import DataSetError

if TYPE_CHECKING:
    from pathlib import Path


def asked(*messages: tuple[str, object]) -> str:
    return _seen_hashes.prompt_hash([{"role": role, "content": content} for role, content in messages])


def test_a_prompt_is_the_user_before_the_answer() -> None:
    plain = asked(("user", "Fix the test"))
    assert plain == asked(("system", "You are an agent"), ("user", "  Fix the\n test "))
    assert plain == asked(("user", "Fix the test"), ("assistant", "done"), ("user", "thanks"))
    assert plain == asked(("user", [{"type": "text", "text": "Fix the test"}]))
    assert plain != asked(("user", "Fix the tests"))
    assert asked(("system", "a")) != asked(("system", "b"))
    assert len(plain) == 32


def test_ids_parts_and_greetings_make_no_other_prompt() -> None:
    plain = asked(("user", "Fix the test"))
    assert plain == asked(("user", [{"type": "text", "text": "Fix the "}, {"type": "text", "text": "test"}]))
    assert plain == asked(("assistant", "Hello! What is it?"), ("user", "Fix the test"), ("assistant", "done"))
    assert plain != asked(("assistant", "Hello! What is it?"), ("user", "Write it"), ("assistant", "done"))
    assert plain == _seen_hashes.prompt_hash([{"from": "human", "value": "Fix the test", "id": "m1"}])
    shown = [{"role": "user", "content": "e"}, {"role": "assistant", "content": "x", "weight": 0}]
    rows = [[*shown, {"role": "user", "content": text}, {"role": "assistant", "content": "y"}] for text in "pq"]
    assert len(set(map(_seen_hashes.prompt_hash, rows))) == 2


def test_rows_of_every_shape_have_the_same_prompt() -> None:
    messages = [{"role": "user", "content": "add"}, {"role": "assistant", "content": "2"}]
    rows = [{"messages": messages}, {"prompt": "add", "completion": "2"}, {"prompt": messages[:1]}, {"text": "add"}]
    assert len(_seen_hashes.hash_rows(rows).prompts) == 1


def test_groups_named_by_numbers_are_left_out() -> None:
    rows = [{"text": "a", "karl_fast": {"group": "17"}}, {"text": "b", "karl_fast": {"group": "django-17"}}]
    assert _seen_hashes.hash_rows(rows).groups == {_seen_hashes.group_hash("django-17")}
    assert _seen_hashes.group_hash(None) is None


def test_written_hashes_come_back(tmp_path: Path) -> None:
    found = _seen_hashes.hash_rows([{"text": str(number), "group": f"g{number % 3}"} for number in range(9)])
    assert _seen_hashes.read_seen(tmp_path) is None
    _seen_hashes.write_seen(tmp_path, found)
    assert _seen_hashes.read_seen(tmp_path) == found
    assert (len(found.prompts), len(found.groups)) == (9, 3)


@pytest.mark.parametrize("text", ["prompt 12\n", "row " + "0" * 32 + "\n", "prompt " + "g" * 32 + "\n"])
def test_a_damaged_line_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / _seen_hashes.FILE).write_text(text)
    with pytest.raises(DataSetError, match="line 1"):
        _seen_hashes.read_seen(tmp_path)
