"""Share of rollouts that differ between batches: one row at a time, and 32.

    python benches/rl/share.py [--rollouts 1000] [--tokens 32] [--record]

A random model of 0.7 million weights, contexts of 16 to 64 tokens, temperature 1. The noise of a token does not depend
on the batch: two rollouts differ where rounding decides between two tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
from generation import SMALL, built

import record


def main() -> None:
    from karl_fast.rl.generate import generate_turns
    from karl_fast.rl.language_model import LanguageModel

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    policy = LanguageModel(SimpleNamespace(model=built(SMALL, 512), tokenizer=None, ends=frozenset(), config={}))
    random = np.random.default_rng(3)
    contexts = [random.integers(8, 512, length).tolist() for length in random.integers(16, 64, given.rollouts)]
    budgets = [given.tokens] * given.rollouts
    alone, together = (
        generate_turns(policy, contexts, budgets, temperature=1.0, rows=rows, seed=5) for rows in (1, 32)
    )
    pairs = list(zip(alone, together, strict=True))
    equal = [(one, other) for one, other in pairs if np.array_equal(one.tokens, other.tokens)]
    found = {
        "rollouts": given.rollouts,
        "tokens": given.tokens,
        "different": len(pairs) - len(equal),
        "logp_difference_max": max(float(np.abs(one.logp - other.logp).max()) for one, other in equal),
    }
    print(json.dumps(found))
    if given.record:
        record.put("generation", "share", {"machine": record.facts()} | found)


if __name__ == "__main__":
    main()
