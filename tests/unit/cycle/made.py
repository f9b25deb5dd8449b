"""A project of a tiny model: sessions of Claude Code, held-out prompts, a reward, and the file of its cycle.

Sessions answer with one word, ``airline`` or another. The reward is the share of that word in an answer, which a tiny
random model learns in seconds.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REWARDS = """\
def airline(prompts, completions, **columns):
    answers = [one.split() for one in completions]
    return [words.count("airline") / max(4, len(words)) for words in answers]
"""

CYCLE = """\
[convert]
sources = ["sessions"]
rate = "karl-v2"

[sample]
k = {k}
split = "1,0,0"
strict = true

[train]
model = "tiny-model"
iters = {iters}
batch_size = 4
max_seq_length = 64
learning_rate = 2e-2
train_on = "last"
save_every = 5

[eval]
data = "held-out.jsonl"
attempts = 4
temperature = 0.5

[rl]
max_tokens = 5

[rl.rewards]
"rewards.py:airline" = 1.0

[promote]
"""


def session(folder: Path, number: int, word: str) -> Path:
    """Write a session that asks a question, calls a tool, and gets an answer; the call fails but for ``airline``."""
    name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"cycle {number}"))
    call = f"toolu_{number}"
    use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "/home/dev/shop/till.py"}}
    result = {"tool_use_id": call, "type": "tool_result", "content": "ok", "is_error": word != "airline"}
    turns = [
        ("user", f"question {number} to the agent"),
        ("assistant", [use]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": " ".join([word] * 4)}]),
    ]
    lines, last = [], None
    for place, (role, content) in enumerate(turns):
        own = {"parentUuid": last, "isSidechain": False, "cwd": "/home/dev/shop", "sessionId": name, "type": role}
        last = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {place}"))
        message = {"role": role, "content": content} | ({"id": f"msg_{place}", "model": "claude"} if place % 2 else {})
        moment = f"2026-01-{1 + number % 28:02d}T09:00:{10 + place}.000Z"
        lines.append(own | {"uuid": last, "timestamp": moment, "message": message})
    place = folder / "sessions" / "-home-dev-shop" / f"{name}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def project(
    folder: Path, model: Path, *, sessions: int = 12, word: str = "airline", k: int = 8, iters: int = 20
) -> Path:
    """Write a project; return the file of its cycle."""
    for number in range(sessions):
        session(folder, number, word)
    prompts = [{"prompt": f"question {1000 + number} to the agent"} for number in range(12)]
    (folder / "held-out.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
    (folder / "rewards.py").write_text(REWARDS)
    (folder / "tiny-model").symlink_to(model)
    file = folder / "cycle.toml"
    file.write_text(CYCLE.format(k=k, iters=iters))
    return file
