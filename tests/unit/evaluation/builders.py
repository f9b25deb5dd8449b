"""Adapters that remember what they learned from, and logs of attempts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karl_fast import _seen_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def adapter(folder: Path, learned: Iterable[str] = (), groups: Iterable[str] = ()) -> Path:
    """A folder that passes as an adapter, with the hashes of the prompts it learned from."""
    folder.mkdir(parents=True)
    (folder / "adapters.safetensors").write_bytes(folder.name.encode())
    _seen_hashes.write_seen(
        folder, _seen_hashes.hash_prompts(([{"role": "user", "content": text}] for text in learned), groups)
    )
    return folder


def row(prompt: str, reward: float | None, group: str | None = None) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": "done"}]
    return {"group": group or prompt, "reward": reward, "messages": messages}


def logs(folder: Path, new: Sequence[float], old: Sequence[float], prefix: str = "held out") -> Path:
    """Two logs of one attempt at each prompt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rewards in (("rollouts.jsonl", new), ("against.jsonl", old)):
        rows = [row(f"{prefix} {number}", reward) for number, reward in enumerate(rewards)]
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows))
    return folder
