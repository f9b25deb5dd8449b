"""Beside KARL itself: ``KARL_CHECKOUT=/path/to/karl python -m tests.properties.differential_karl [records]``.

Scores made-up records by KARL's own engine and by ours, from the dict, from its JSON and as a line of a log, and prints
how many were equal, how many raised the same class, and the first that differed. Without a checkout it does nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from random import Random
from typing import Any

from karl_fast import reward
from tests.properties.karl_records import record


def outcome_of(call: Any, given: Any) -> Any:
    """The result, floats by their bits; or the class of what was raised."""
    try:
        return repr(call(given))
    except (TypeError, AttributeError, ArithmeticError, ValueError) as error:
        return type(error).__name__


def score_of(result: str) -> str:
    """The reward in the text of a result, to the last bit."""
    return result.partition("'reward_score': ")[2].partition(",")[0]


def main() -> None:
    checkout = os.environ.get("KARL_CHECKOUT")
    if not checkout:
        print("KARL_CHECKOUT is not set: nothing to stand beside")
        return
    sys.path.insert(0, checkout)
    karl: Any = importlib.import_module("karl.reward_engine")
    version = "v2" if hasattr(karl, "W_MOTION") else "v1"
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    random, seen = Random(7), {"equal": 0, "raised alike": 0, "differed": 0}
    for _ in range(count):
        made = record(random, random.choice((0.0, 0.0, 0.02, 0.1, 0.5)))
        text = json.dumps(made)
        wanted = outcome_of(karl.compute_reward, json.loads(text))
        found = outcome_of(lambda given: reward.compute_reward(given, version=version), made)
        raw = outcome_of(lambda given: reward.compute_reward(given, version=version), text.encode())
        line = float(reward.compute_rewards(text.encode(), version=version)[0])
        alike = "raised alike" if wanted.endswith("Error") else "equal"
        same = found == raw == wanted and (line != line if alike == "raised alike" else score_of(wanted) == repr(line))
        seen[alike if same else "differed"] += 1
        if not same and seen["differed"] < 6:
            print(f"{text}\n  KARL {wanted}\n  dict {found}\n  JSON {raw}\n  line {line}")
    print(f"{version}, {count:,} records: {seen}")
    sys.exit(seen["differed"] > 0)


if __name__ == "__main__":
    main()
