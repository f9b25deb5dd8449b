"""Changes of a JSON text that keep every other byte."""

from __future__ import annotations

import json

import pytest

from karl_fast.collection.triggers.hooks import add_member, find_value, remove_member

TEXTS = [
    "{}",
    "{ }\n",
    '{"a":1}',
    '{\n  "a": 1,\n  "hooks": {}\n}\n',
    '{\n\t"a" : "\\u00e9\\"}",\n\t"hooks": {"Stop": [ ], "Other": [1 , 2]}\n}',
    '\r\n{\r\n    "hooks": {\r\n        "Stop": [{"x": [1.50, 1e5]}]\r\n    }\r\n}\r\n',
    '{"hooks": {"Stop": [{"y": "]"}], "b": null}, "é": true}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_added_member_is_removed_without_trace(text: str) -> None:
    before, changed = json.loads(text), text
    wanted = json.loads(text)
    steps = []
    if "hooks" not in before:
        changed = add_member(changed, {}, key="hooks")
        steps.append(("hooks",))
    if "Stop" not in before.get("hooks", {}):
        changed = add_member(changed, [], "hooks", key="Stop")
        steps.append(("hooks", "Stop"))
    changed = add_member(changed, {"new": [1, {"deep": "\n"}]}, "hooks", "Stop")
    stop = wanted.setdefault("hooks", {}).setdefault("Stop", [])
    steps.append(("hooks", "Stop", len(stop)))
    stop.append({"new": [1, {"deep": "\n"}]})
    assert json.loads(changed) == wanted
    assert list(json.loads(changed)) == list(wanted)
    # Only what was added is new.
    rest = iter(changed)
    assert all(char in rest for char in text)
    for step in reversed(steps):
        changed = remove_member(changed, *step)
    assert changed == text


def test_the_first_of_several_goes() -> None:
    assert remove_member('{"a": [1, 2, 3]}', "a", 0) == '{"a": [2, 3]}'
    assert remove_member('{"a": [1, 2, 3]}', "a", 1) == '{"a": [1, 3]}'


def test_a_path_that_is_not_there_is_none() -> None:
    assert find_value('{"a": {"b": [1]}}', "a", "b", 1) is None
    assert find_value('{"a": 1}', "a", "b") is None
    assert find_value(' {"a": 1}') == 1
