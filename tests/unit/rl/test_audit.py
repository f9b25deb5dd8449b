"""An audit of real runs: of the reward of the example, and of one that pays for length beside it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import karl_fast
from tests.unit.rl.conftest import EXAMPLES
from tests.unit.train.conftest import ran

if TYPE_CHECKING:
    from pathlib import Path

PAID = '''
def paid(prompts, completions, completion_ids=None, **columns):
    """Return a bonus for each token of an answer."""
    return [0.2 * len(ids) for ids in completion_ids]
'''


@pytest.mark.parametrize("pays_length", [False, True])
def test_a_reward_that_pays_length_is_found_in_its_run(tmp_path: Path, pays_length: bool) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "rl", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rl" / "paid.py").write_text(PAID, "utf-8")
    config = tmp_path / "rl" / "reversal.toml"
    more = '"paid.py:paid" = 1.0\n' if pays_length else ""
    config.write_text(config.read_text("utf-8") + more, "utf-8")
    done = ran(["rl", "--config", str(config), "--out", str(tmp_path / "run"), "--rounds", "8", "-q"], tmp_path)
    assert done.returncode == 0, done.stderr
    found = karl_fast.audit(tmp_path / "run")
    kinds = [finding.kind for finding in found.findings if finding.weight >= 0.5]
    assert ("length_hack" in kinds) == pays_length
    assert "mismatch" not in kinds  # one engine samples and learns
    assert found.mismatch is not None
    assert found.mismatch["k3"] < 1e-6
    assert found.signal.groups == 64
    assert len(found.diversity.steps) == 8
    assert found.rollouts.unit == "tokens"
