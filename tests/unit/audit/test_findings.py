"""Findings: an honest dump has none, and each injected fault has its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.audit.reward_hacking import ALPHA, measure_forms, ranks_within
from karl_fast.audit.rollouts import read_rollouts
from karl_fast.audit.token_sums import token_sums
from karl_fast.errors import LogError, UsageError
from tests import rows
from tests.unit.audit import dumps

if TYPE_CHECKING:
    from pathlib import Path


def test_an_honest_dump_has_no_fault(tmp_path: Path) -> None:
    records = dumps.honest()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == []
    assert found.headline.startswith("There is something to learn: the rewards of ")
    assert found.headline.endswith("None of the tests finds anything wrong with it.")
    assert found.staleness is not None
    assert (found.staleness["mean"], found.staleness["largest"]) == (1.0, 1.0)


FALSE_ALARMS = 5
"""Of 100 dumps; at a level of 0.01 more of them come once in 1,900 suites, and seeds are fixed."""


def test_shuffled_rewards_raise_no_alarm(tmp_path: Path) -> None:
    """Rewards in random order within their groups, over dumps whose harder prompts have longer answers."""
    rows.write(tmp_path / "dump.jsonl", dumps.honest())
    rollouts, rng, alarms = read_rollouts(karl_fast.read(tmp_path / "dump.jsonl")), np.random.default_rng(11), 0
    for seed in range(100):
        order = np.lexsort((rng.random(len(rollouts)), rollouts.groups))
        rewards = np.empty(len(rollouts))
        rewards[np.argsort(rollouts.groups, kind="stable")] = rollouts.rewards[order]
        tests = measure_forms(replace(rollouts, rewards=rewards), seed=seed)
        assert len(tests) == 2  # length and repetition; no answer has markup
        alarms += any(test.adjusted < ALPHA for test in tests)
    assert alarms <= FALSE_ALARMS


def test_a_reward_that_pays_length_is_found(tmp_path: Path) -> None:
    records = dumps.honest()
    for record in records:
        record["reward"] += 0.02 * record["completion_tokens"]
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == ["length_hack"]
    assert "reward follows length" in found.headline


def test_shaping_by_length_is_found_at_an_equal_outcome(tmp_path: Path) -> None:
    """The outcome decides most of the reward; what is left over follows the length."""
    records = dumps.honest()
    for record in records:
        record["correct"] = record["reward"] > 0
        record["reward"] += 0.001 * record["completion_tokens"]
    found = dumps.audit(tmp_path, records)
    assert found.signal.outcome == "correct"
    length = next(test for test in found.forms if test.form == "length")
    assert length.at_equal_outcome
    assert length.rho > 0.99
    assert "length_hack" in dumps.wrong(found)


def test_ranks_are_those_of_each_group() -> None:
    values, codes = np.array([3.0, 1.0, 1.0, 9.0, 7.0]), np.array([0, 0, 0, 1, 1])
    assert ranks_within(values, codes).tolist() == [1.0, -0.5, -0.5, 0.5, -0.5]


def test_another_policy_at_the_sampler_is_found(tmp_path: Path) -> None:
    records, rng = dumps.honest(), np.random.default_rng(3)
    for record in records:
        drawn = np.array(record["rollout_log_probs"])
        record["old_log_probs"] = (drawn + rng.normal(0, 0.4, len(drawn))).tolist()
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == ["mismatch"]
    gaps = np.concatenate([np.subtract(r["old_log_probs"], r["rollout_log_probs"]) for r in records])
    assert found.mismatch is not None
    assert found.mismatch["k3"] == pytest.approx(float(np.mean(np.exp(gaps) - 1 - gaps)), rel=1e-5)
    assert found.mismatch["chi2"] == pytest.approx(float(np.mean(np.exp(2 * gaps)) - 1), rel=1e-4)
    assert found.mismatch["beyond"] == pytest.approx(float((np.abs(gaps) > np.log(2)).mean()), abs=1e-3)


def test_a_token_without_a_number_does_not_spoil_the_sums() -> None:
    drawn = [np.array([-1.0, -np.inf, -2.0], np.float32), None]
    sums = token_sums(drawn, [np.array([-1.0, -1.0, -1e9], np.float32), np.array([-1.0], np.float32)])
    assert sums.tokens.tolist() == [2.0, 0.0]
    assert np.isfinite(sums.k3).all()
    assert sums.beyond.tolist() == [1.0, 0.0]


def test_old_rollouts_are_found(tmp_path: Path) -> None:
    records = dumps.honest()
    for record in records:
        record["policy_version"] = record["step"] - 6
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == ["stale"]


def test_groups_without_a_signal_and_their_compute(tmp_path: Path) -> None:
    records = dumps.honest()
    for place, record in enumerate(records):
        solved = {0: 1.0, 1: 0.0}.get(place // 8 % 4)
        record["reward"] = place % 2 if solved is None else solved
        record["completion_tokens"] = 300 if solved == 0 else 100
    found = dumps.audit(tmp_path, records)
    kinds = found.signal.kinds
    assert (kinds["all_solved"].groups, kinds["none_solved"].groups, kinds["mixed"].groups) == (12, 12, 24)
    assert kinds["none_solved"].compute == pytest.approx(300 / 600)
    assert any(finding.kind == "no_signal" and "never solved" in finding.advice for finding in found.findings)


def test_nothing_to_learn_is_the_first_sentence(tmp_path: Path) -> None:
    records = [record | {"reward": 0.5} for record in dumps.honest()]
    found = dumps.audit(tmp_path, records)
    assert found.headline.startswith("There is nothing to learn")
    assert found.findings[0].kind == "no_signal"


def test_a_dump_without_rewards_says_so_first(tmp_path: Path) -> None:
    found = dumps.audit(tmp_path, [record | {"reward": None} for record in dumps.honest()])
    assert found.headline.startswith("No row has a reward: name its path with --reward.")
    assert found.report["accounting"]["dropped"] == {"missing_reward": 384}


def test_prompts_of_one_group_that_differ(tmp_path: Path) -> None:
    records = dumps.honest()
    for record in records[:4]:
        record["prompt"] = "another question"
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == ["unlike_prompts"]
    assert found.prompts.first_unlike == ["0-0"]


def test_prompts_of_two_splits(tmp_path: Path) -> None:
    records = dumps.honest()
    for place, record in enumerate(records):
        record["split"] = "valid" if place % 80 == 0 else "train"
    found = dumps.audit(tmp_path, records)
    assert "between_splits" in dumps.wrong(found)
    assert found.prompts.between_rows == len(records[::80])


def test_prompts_without_groups_are_taken_for_groups(tmp_path: Path) -> None:
    records = dumps.honest()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    for record in records:
        del record["group"]
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == []
    assert "no_groups" in [finding.kind for finding in found.findings]
    assert found.signal.groups == 48
    assert found.advantages is not None
    assert found.advantages.reproduced
    for record in records:
        record["prompt"] += record["id"]
    assert dumps.audit(tmp_path, records).headline.startswith("Without groups")


def test_splits_by_the_names_of_files(tmp_path: Path) -> None:
    records = dumps.honest()
    rows.write(tmp_path / "train_rollouts.jsonl", records[:200])
    rows.write(tmp_path / "eval_rollouts.jsonl", [record | {"id": f"e{record['id']}"} for record in records[192:]])
    found = karl_fast.audit([tmp_path / "train_rollouts.jsonl", tmp_path / "eval_rollouts.jsonl"])
    assert found.prompts.between_splits == 1
    assert found.prompts.between_rows == 8
    assert "between_splits" in dumps.wrong(found)


def test_a_run_of_ours_knows_its_mismatch(tmp_path: Path) -> None:
    """`rollouts.jsonl` has the sampler's log-probabilities alone; the metrics beside it have the gap."""
    records = dumps.honest()
    for record in records:
        del record["old_log_probs"]
    rows.write(tmp_path / "rollouts.jsonl", records)
    metrics = [{"round": n, "mismatch_k3": 0.01 * n, "mismatch_chi2": 0.1, "mismatch_max": 2.0} for n in range(6)]
    rows.write(tmp_path / "metrics.jsonl", metrics)
    found = karl_fast.audit(tmp_path)
    assert found.mismatch is not None
    assert found.mismatch["k3"] == pytest.approx(0.025)
    assert dumps.wrong(found) == ["mismatch"]
    assert len(found.mismatch["steps"]) == 6


def test_prompts_of_a_benchmark(tmp_path: Path) -> None:
    """A question inside a template counts, a short one only where it is the whole prompt."""
    records = dumps.honest()
    question = "How many apples has Ann left, if she gave 3 of her 12 away?"
    records[0]["prompt"] = f"Solve the task. {question.upper()} Put the answer in a box."
    records[8]["prompt"] = "short   one"
    records[16]["prompt"] = "a short one, with more"
    lines = [{"question": question}, {"question": "Short one!"}, {"question": "never asked"}]
    (tmp_path / "benchmark.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found = dumps.audit(tmp_path, records, exclude=str(tmp_path / "benchmark.jsonl"))
    assert found.prompts.excluded == 2
    assert sorted(found.prompts.first_excluded) == ["0-0-0", "0-1-0"]
    assert "excluded" in dumps.wrong(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "has no prompt"), ('{"answer": 1}\n', "line 1: no prompt; it holds answer"), ('{"question": \n', "not JSON")],
)
def test_a_file_without_prompts_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "benchmark.jsonl").write_text(text, "utf-8")
    with pytest.raises(LogError, match=said):
        dumps.audit(tmp_path, dumps.honest(), exclude=str(tmp_path / "benchmark.jsonl"))


def course(rewards: str) -> list[dict[str, Any]]:
    """Return a run of 20 steps whose answers become alike, while rewards rise or stay."""
    records = dumps.honest(dumps.Shape(steps=20, groups=4))
    rng = np.random.default_rng(2)
    for record in records:
        step = record["step"]
        if rng.random() < step / 20:
            record["completion"] = "the same " + "words again " * 12
        record["rollout_log_probs"] = (np.array(record["rollout_log_probs"]) * (21 - step) / 20).tolist()
        del record["old_log_probs"]
        if rewards == "rise":
            record["reward"] = float(rng.random() < step / 22)
    return records


def test_answers_that_become_alike(tmp_path: Path) -> None:
    found = dumps.audit(tmp_path, course("stay"))
    assert dumps.wrong(found) == ["collapse"]
    found = dumps.audit(tmp_path, course("rise"))
    assert dumps.wrong(found) == []
    assert "convergence" in [finding.kind for finding in found.findings]


def test_fields_under_other_names(tmp_path: Path) -> None:
    records = dumps.honest()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    for record in records:
        record["mine"] = {"adv": record.pop("advantage")}
    assert dumps.audit(tmp_path, records).advantages is None
    found = dumps.audit(tmp_path, records, paths={"advantage": "mine.adv"})
    assert found.advantages is not None
    assert found.advantages.reproduced
    with pytest.raises(UsageError, match="there is no field advantag") as error:
        dumps.audit(tmp_path, records, paths={"advantag": "mine.adv"})
    assert "advantage" in str(error.value.hint)


def test_the_audit_is_the_same_for_any_order_of_records(tmp_path: Path) -> None:
    records = dumps.honest()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    first = dumps.audit(tmp_path, records).to_dict()
    again = dumps.audit(tmp_path, records[::-1]).to_dict()
    for part in first.keys() - {"inputs", "run", "diversity", "mismatch"}:
        assert json.dumps(first[part]) == json.dumps(again[part]), part


ODD = (
    *("[1, 2]", '{"reward": NaN}', '{"reward": 1, "advantage": "high"}', "{"),
    '{"reward": 1, "step": 1' + "0" * 400 + ', "advantage": 1e300}',
    '{"reward": 1, "rollout_log_probs": [1' + "0" * 400 + '], "old_log_probs": [-1e300]}',
    '{"reward": -1e100, "rollout_log_probs": [-1, NaN], "old_log_probs": [-Infinity, -1], "metrics": "{"}',
    '{"reward": 1, "prompt": ["a", 1, {"b": 2}], "completion": {"c": 1}, "logprobs": "!"}',
)


@pytest.mark.parametrize("text", ODD)
def test_odd_records_end_no_audit(text: str, tmp_path: Path) -> None:
    (tmp_path / "dump.jsonl").write_text(text + "\n" + json.dumps(dumps.honest()[0]) + "\n", "utf-8")
    found = karl_fast.audit(tmp_path / "dump.jsonl")
    assert found.report["accounting"]["rows_read"] == 2
