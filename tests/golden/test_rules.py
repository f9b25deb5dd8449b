"""Each golden number of update rules is compared by a test, and each rule of rl-experiments has a recipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from karl_fast.objective import recipe
from tests.golden.test_files import golden

ROOT = Path(__file__).parents[2]
FILE = "update_rules"

RULES = {
    **{"CE": "sft", "REINFORCE": "reinforce", "PG": "pg", "TrajPG": "traj-pg", "ASPO": "aspo", "R2VPO": "r2vpo"},
    **{"DG": "dg", "Kondo": "kondo-gate", "LogGrowth": "log-growth", "DGToken": "dg-token", "ReplayDG": "dg"},
    **{"FreshDG": "fresh-dg", "DGEntropyGuard": "dg-entropy-guard", "UncertaintyDG": "uncertainty-dg"},
    **{"FilteredDG": "filtered-dg", "RewardVarianceDG": "reward-variance-dg", "SelfDistillDG": "self-distill-dg"},
    **{"SCOPELite": "scope-lite", "GRPO": "grpo-rl-experiments", "DrGRPO": "dr-grpo", "DAPO": "dapo"},
    **{"DAPOLite": "dapo-lite", "TPO": "tpo", "TPONoAnchor": "tpo-no-anchor", "GroupPG": "group-pg"},
    **{"TPOFullAction": "tpo-full-action", "TPOToken": "tpo-token", "GRPOToken": "grpo-token", "TEMPO": "tempo"},
    **{"MaxRL": "maxrl", "PMDMean": "pmd-mean"},
}
"""The registry of rl-experiments, where DAPO and its lite form are one, and the recipe of each rule."""


def test_golden_numbers_are_all_compared(tmp_path: Path) -> None:
    """By a session of the tests that open the file, which records the cases whose outputs they read."""
    files = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path != Path(__file__) and f'"{FILE}"' in path.read_text("utf-8")
    ]
    listed = tmp_path / "cases"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.golden.recorder", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"KARL_FAST_CASES": str(listed)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
    unread = {case["id"] for case in golden(FILE)["cases"]} - set(listed.read_text("utf-8").split("\n"))
    assert not unread, f"no test compares {', '.join(sorted(unread))} of {FILE}.json"


def test_rules_of_rl_experiments_are_recipes_with_a_test() -> None:
    """A test names each recipe, and the page of objectives each rule."""
    texts = [path.read_text("utf-8") for path in (ROOT / "tests" / "unit" / "objective").glob("test_*.py")]
    page = (ROOT / "docs" / "objectives.md").read_text("utf-8").partition("### Rules of rl-experiments")[2]
    for rule, name in RULES.items():
        assert re.search(rf"\b{rule}\b", page), rule
        assert recipe(name)
        assert any(f'"{name}"' in text for text in texts), f"no test names {name}"
