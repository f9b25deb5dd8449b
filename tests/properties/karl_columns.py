"""KARL's records as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from karl_fast import reward

FLAGS = {
    "correction": "correction_detected",
    "redo": "redo_detected",
    "build": "build_success",
    "continued": "session_continued",
}
ANSWER = {True: 1, False: 0, None: -1}


class Places(dict[Any, int]):
    """The place of each value, in order of appearance."""

    def __missing__(self, value: Any) -> int:
        return self.setdefault(value, len(self))


def columns(records: list[dict[str, Any]]) -> reward.Calls:
    """The columns of records whose counts are those of their events."""
    events = [one["trajectory"]["events"] for one in records]
    calls = [call for some in events for call in some]
    tools, files, texts = Places(), Places(), Places()

    def place(places: Places, call: dict[str, Any], name: str) -> int:
        value = call.get("key_params", {}).get(name)
        return places[value] if value else -1

    return reward.Calls(
        offsets=np.cumsum([0, *map(len, events)]),
        tools=np.array([tools[call["tool_name"]] for call in calls], dtype=np.int64),
        success=np.array([ANSWER[call["success"]] for call in calls], dtype=np.int64),
        files=np.array([place(files, call, "file_path") for call in calls], dtype=np.int64),
        commands=np.array([place(texts, call, "command") for call in calls], dtype=np.int64),
        names=list(tools),
        texts=list(texts),
        seconds=np.array([one["timing"]["duration_s"] or np.nan for one in records], dtype=np.float64),
        **{
            name: np.array([ANSWER[one["outcome"].get(key)] for one in records], dtype=np.int64)
            for name, key in FLAGS.items()
        },
    )
