"""Online and offline are one loop: what `karl-fast rl` drew is inspected, sampled and trained on as any other log."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.modeling.load import load
from karl_fast.train.chat_template import Renderer
from karl_fast.train.examples import prepare_examples, render_rows
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import Training
from tests.unit.rl.conftest import lines
from tests.unit.rl.test_commands import run
from tests.unit.train.conftest import made

if TYPE_CHECKING:
    from pathlib import Path

WORLD = '''
class Echo:
    """Two turns; what they are worth is how many letters were said, of ten. It dies of the third prompt."""

    role = "user"

    def reset(self, prompt):
        self.said, self.dies = "", prompt["place"] == 2

    def step(self, text):
        if self.dies:
            raise OSError
        self.said += text
        return "more", len(self.said) > 400

    def score(self):
        return min(1.0, sum(map(str.isalpha, self.said)) / 40)
'''
TOML = """
model = "tiny"
prompts = "prompts.jsonl"
out = "drawn"
environment = "world.py:Echo"
rounds = 2
prompts_per_round = 4
group_size = 4
max_tokens = 24
max_turns = 2
max_turn_tokens = 12
max_context = 128
learning_rate = 1e-4
"""
BETA = 3.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log of an online run, and what `sample` makes of it."""
    folder = tmp_path_factory.mktemp("loop")
    made(folder / "tiny")
    prompts = [{"prompt": f"Say a word, {name}.", "place": n, "domain": "words"} for n, name in enumerate("abcd")]
    (folder / "prompts.jsonl").write_text("".join(f"{json.dumps(prompt)}\n" for prompt in prompts))
    (folder / "world.py").write_text(WORLD)
    (folder / "rl.toml").write_text(TOML)
    run(folder, "rl", "--config", "rl.toml", "-q")
    words = ["--sampler", "all", "--inverse-temperature", str(BETA), "--split", "1,0,0", "--allow-secrets"]
    run(folder, "sample", "drawn/rollouts.jsonl", "-o", "data", *words, "-q")
    return folder


@pytest.fixture
def drawn(place: Path) -> dict[str, dict[str, Any]]:
    """The lines of the log that have a reward, by id."""
    found = lines(place / "drawn" / "rollouts.jsonl")
    assert (len(found), sum(line["reward"] is None for line in found)) == (32, 8)
    return {line["id"]: line for line in found if line["reward"] is not None}


@pytest.fixture
def rows(place: Path) -> list[dict[str, Any]]:
    return lines(place / "data" / "train.jsonl")


def test_every_rollout_is_inspected(place: Path) -> None:
    report = json.loads(run(place, "inspect", "drawn/rollouts.jsonl", "--json", "-q").stdout)
    account = report["accounting"]
    assert (account["rows_read"], account["rows_kept"], account["dropped"]) == (32, 24, {"missing_reward": 8})


def test_what_is_sampled_is_what_was_drawn(drawn: dict[str, dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    assert {row["karl_fast"]["id"] for row in rows} == set(drawn)
    rewards = np.array([line["reward"] for line in drawn.values()])
    assert len(set(rewards.tolist())) > 4
    log_z = math.log(np.exp(BETA * rewards).sum())
    for row in rows:
        stamp, line = row["karl_fast"], drawn[row["karl_fast"]["id"]]
        last = max(n for n, one in enumerate(line["messages"]) if one["role"] == "assistant")
        assert row["messages"] == line["messages"][: last + 1]
        assert (stamp["reward"], stamp["group"]) == (line["reward"], line["group"])
        assert stamp["log_weight"] == pytest.approx(BETA * line["reward"] - log_z, abs=1e-9)


def test_what_is_learned_is_what_the_policy_said(
    place: Path, drawn: dict[str, dict[str, Any]], rows: list[dict[str, Any]]
) -> None:
    loaded = load(str(place / "tiny"))
    settings = Training(recipe="boltzmann", max_seq_length=2048)
    examples, account = prepare_examples(
        rows, render_rows(rows, Renderer(loaded.tokenizer, loaded.ends)), settings, "train.jsonl"
    )
    assert account.rows == account.kept == len(drawn)
    weights = OfflineObjective(settings, examples).weights
    assert weights is not None
    for example, weight in zip(examples, weights, strict=True):
        row = rows[example.row]
        said = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        learned = loaded.tokenizer.decode(example.text.tokens[example.text.learned].tolist())
        assert learned == "".join(f"{text}<|im_end|>" for text in said)
        assert len(said) == len(drawn[row["karl_fast"]["id"]]["tokens"]["spans"])
        assert weight == pytest.approx(math.exp(row["karl_fast"]["log_weight"]) * len(rows))


def test_policy_learns_offline_from_online_rollouts(place: Path) -> None:
    words = ["--recipe", "boltzmann", "--iters", "40", "--learning-rate", "1e-2"]
    run(place, "train", "data", "--model", "tiny", "--adapter-path", "adapter", *words, "-q")
    losses = [line["loss"] for line in lines(place / "adapter" / "metrics.jsonl") if line.get("loss") is not None]
    assert len(losses) == 40
    assert np.mean(losses[-6:]) < 0.8 * np.mean(losses[:6])
