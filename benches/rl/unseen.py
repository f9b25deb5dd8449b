"""Error of the curriculum's guesses of prompts that a run has not asked: by the learned log Z, and by a half.

    python benches/rl/unseen.py [--rounds 200] [--record] [--smoke]

All 4,096 prompts of four symbols, the policy of `examples/rl/reversal.py`, the recipe and the curriculum `paced`, 8
prompts of 8 rollouts a round. An attempt succeeds by chance, with the first symbol over 7, whatever it says, so that
the difficulty of a prompt is known. `guess` is the mean distance of the guess of a prompt from that chance, over all
prompts that were never asked, and `half` that of a half.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

if TYPE_CHECKING:
    from karl_fast.rl.setup import OnlineRun

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "rl"
CHANCE = random.Random(5)


def reward(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
    """Return successes by chance."""
    return [float(CHANCE.random() < chance(prompt)) for prompt in prompts]


def chance(messages: Any) -> float:
    """Return how likely an attempt at a prompt succeeds."""
    return int(messages[-1]["content"][0]) / 7


def prepared(folder: Path, rounds: int) -> OnlineRun:
    """Make the run."""
    from karl_fast.rl import Online, setup
    from karl_fast.train.settings import Training

    symbols = (" ".join(f"{number:04o}") for number in range(8**4))
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in symbols), encoding="utf-8")
    settings = Online(
        model=f"{EXAMPLES / 'reversal.py'}:policy",
        prompts=str(prompts),
        out=str(folder / "out"),
        rewards={f"{Path(__file__).resolve()}:reward": 1.0},
        recipe="paced",
        curriculum="paced",
        rounds=rounds,
        prompts_per_round=8,
        group_size=8,
        max_tokens=4,
        save_every=rounds,
        log_z_learning_rate=1e-2,
        training=Training(learning_rate=1e-4),
    )
    return setup.prepare(settings)


def measured(run: OnlineRun) -> dict[str, Any]:
    """Make all rounds, and return the errors."""
    from karl_fast.rl.run import SilentViewer, run_rounds

    run_rounds(run, SilentViewer())
    run.close()
    known = run.curriculum
    assert known.head is not None
    unseen = [prompt for prompt in run.prompt_set.prompts if prompt.number not in known.rates]
    wanted = np.array([chance(prompt.messages) for prompt in unseen])
    guesses = np.clip(known.head(unseen), 0.0, 1.0)
    return {
        "rounds": run.settings.rounds,
        "asked": len(known.rates),
        "unseen": len(unseen),
        "guess": round(float(np.abs(guesses - wanted).mean()), 3),
        "half": round(float(np.abs(0.5 - wanted).mean()), 3),
        "correlation": round(float(np.corrcoef(guesses, wanted)[0, 1]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(prepared(Path(folder), 3 if given.smoke else given.rounds))
    print(json.dumps(found))
    if given.record and not given.smoke:
        record.put("curriculum", "unseen", {"machine": record.facts()} | found)


if __name__ == "__main__":
    main()
