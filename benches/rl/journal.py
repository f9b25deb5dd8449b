"""What `karl-fast rl` keeps of a round, written as plainly as it can be: a line a rollout, and a line of metrics."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from reversing import END, GROUP

if TYPE_CHECKING:
    from collections.abc import Callable


class Journal:
    """The rewards, the log and the metrics of a loop that has none of its own."""

    def __init__(self, folder: str, reward: Callable[..., list[float]]) -> None:
        """`reward` is a function of TRL's signature, which is called once a group."""
        self.folder, self.reward, self.round = Path(folder), reward, 0
        self.said: list[dict[str, Any]] = []
        self.rewards: list[float] = []

    def earned(self, chosen: Any, tokens: Any, mask: Any) -> Any:
        """The reward of each rollout. [B, T], [B, T'], [B, U] -> [B]"""
        width, lengths = chosen.shape[1], mask.sum(1).astype(int).tolist()
        ids = [row[width : width + length] for row, length in zip(tokens.tolist(), lengths, strict=True)]
        asked = [" ".join(map(str, row[:-1])) for row in chosen.tolist()]
        texts = [" ".join(str(token) for token in row if token != END) for row in ids]
        self.rewards = []
        for start in range(0, len(ids), GROUP):
            group = slice(start, start + GROUP)
            prompts = [[{"role": "user", "content": text}] for text in asked[group]]
            self.rewards += self.reward(prompts=prompts, completions=texts[group], completion_ids=ids[group])
        each = zip(asked, tokens.tolist(), texts, lengths, strict=True)
        self.said = [
            {"prompt": prompt, "text": text, "tokens": row[: width + length], "span": [width, width + length]}
            for prompt, row, text, length in each
        ]
        return np.array(self.rewards)

    def keep(self, logp: Any, entropy: Any, mask: Any, **numbers: float) -> None:
        """Write the round. logp, entropy, mask [B, U]; the numbers are the step's."""
        with (self.folder / "rollouts.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(f"{self._line(row, one, logp)}\n" for row, one in enumerate(self.said)))
        rewards, lengths = np.array(self.rewards), mask.sum(1)
        groups = rewards.reshape(-1, GROUP)
        numbers |= {"round": self.round, "reward": float(rewards.mean()), "reward_std": float(rewards.std())}
        numbers |= {"mixed": float((groups.min(1) < groups.max(1)).mean()), "entropy": float(entropy[mask > 0].mean())}
        numbers |= {"tokens": float(lengths.mean()), "tokens_max": float(lengths.max())}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(numbers) + "\n")
        self.round += 1

    def _line(self, row: int, one: dict[str, Any], logp: Any) -> str:
        start, end = one["span"]
        said = {"role": "assistant", "content": one["text"]}
        held = {
            "id": f"{self.round}-{row}",
            "group": str(self.round * len(self.said) // GROUP + row // GROUP),
            "reward": self.rewards[row],
            "messages": [{"role": "user", "content": one["prompt"]}, said],
            "round": self.round,
            "components": {"reward": self.rewards[row]},
            "finish": "stop" if one["tokens"][-1] == END else "length",
            "tokens": {
                "ids": base64.b64encode(np.array(one["tokens"], dtype="<i4").tobytes()).decode(),
                "logp": base64.b64encode(logp[row, : end - start].astype("<f4").tobytes()).decode(),
                "spans": [[start, end]],
            },
        }
        return json.dumps(held)
