"""Prompts and their order, replay, records, alarms, and settings from a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast._user_code import load_function
from karl_fast.errors import AlarmError, CheckpointError, FileError, UsageError
from karl_fast.objective.axes import filter as filters
from karl_fast.rl import load
from karl_fast.rl.curriculum import Curriculum, ReplayBuffer
from karl_fast.rl.metrics import HINTS, KINDS, AlarmMonitor, group_metrics, outcome_range
from karl_fast.rl.rollout import Prompt, Rollout, RolloutLog, parse_rollout, rollout_line
from karl_fast.rl.settings import Alarms, Online, Replay, load_recipe, read_prompts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

LEVELS = ("easy", "medium", "hard")


def asked(count: int = 6) -> list[Prompt]:
    message = {"role": "user", "content": "q"}
    return [Prompt(f"p{n}", n, (message,), {"difficulty": LEVELS[n % 3]}) for n in range(count)]


def rollout(prompt: Prompt, group: int, outcome: float, version: int = 0, name: str = "x") -> Rollout:
    spans, logp = ((2, 4), (5, 6)), np.array([-0.1234567, -2.5, -0.1], dtype=np.float32)
    said = ({"role": "assistant", "content": "a\u2028b"}, {"role": "tool", "content": "t"})
    floats = (logp, np.zeros_like(logp))
    told = (said, ("s", "t"), (0.0, 0.5), "stop", version, outcome, outcome, {"one": outcome})
    return Rollout(name, prompt, group, np.arange(6, dtype=np.int32), spans, *floats, *told)


def test_shuffle_covers_prompts_once_per_pass() -> None:
    order = Curriculum(asked(), "shuffle", 3, per_round=4)
    numbers = [prompt.number for _ in range(6) for prompt in order.choose(4, 0)]
    passes = [numbers[start : start + 6] for start in range(0, 24, 6)]
    assert all(sorted(one) == list(range(6)) for one in passes)
    assert len({tuple(one) for one in passes}) > 1
    again = Curriculum(asked(), "shuffle", 3, per_round=4)
    again.choose(4, 0)
    order.restore(again.state())
    assert order.choose(4, 1) == again.choose(4, 1)


def test_stages_go_from_easy_to_hard() -> None:
    order = Curriculum(asked(), "stages", 0, per_round=3)  # two rounds an epoch, two epochs a stage
    levels = [{prompt.columns["difficulty"] for prompt in order.choose(3, round)} for round in range(20)]
    assert levels[:4] == [{"easy"}] * 4
    assert set.union(*levels[4:8]) == {"easy", "medium"}
    assert set.union(*levels[8:12]) == {"medium", "hard"}
    assert levels[12:] == [{"hard"}] * 8
    with pytest.raises(UsageError, match="difficulty None"):
        Curriculum([Prompt("a", 0, ())], "stages", 0, per_round=1)


def test_a_pass_rate_near_a_half_comes_first() -> None:
    order = Curriculum(asked(), "pass-rate", 0, per_round=2)
    outcomes = {0: (0.0, 0.0), 1: (1.0, 1.0), 2: (1.0, 0.0), 3: (0.0, 0.0), 4: (1.0, 0.0, 0.0), 5: (1.0, 1.0)}
    rollouts = [rollout(asked()[n], n, value) for n, values in outcomes.items() for value in values]
    order.learn(rollouts, np.zeros(len(rollouts)))
    assert [prompt.number for prompt in order.choose(2, 1)] == [2, 4]


def test_intercept_is_mean_outcome_minus_drift() -> None:
    order = Curriculum(asked(), "paced", 0, per_round=2)
    rollouts = [rollout(asked()[0], 0, value) for value in (1.0, 0.0, 1.0, float("nan"))]
    order.learn(rollouts, np.array([0.2, -0.4, 0.1, 9.0]))
    assert order.rates[0] == pytest.approx(2 / 3 - 0.05 * (0.2 - 0.4 + 0.1) / 3)


def headed(values: dict[int, float], count: int, asked_of: list[list[int]]) -> Curriculum:
    """A curriculum whose head knows a value of each prompt; what it is asked of is kept."""

    def head(prompts: Sequence[Prompt]) -> NDArray[np.float64]:
        asked_of.append([prompt.number for prompt in prompts])
        return np.array([values[prompt.number] for prompt in prompts])

    return Curriculum(asked(count), "paced", 0, per_round=2, head=head)


def test_head_guesses_unseen_prompts_minus_its_error() -> None:
    asked_of: list[list[int]] = []
    order = headed({0: 0.1, 1: 0.5, 2: 0.4, 3: 0.7, 4: 0.2, 5: -0.3}, 6, asked_of)
    first = order.choose(2, 0)
    assert asked_of == []  # nothing was seen: all count as a half
    assert [order.estimate(prompt) for prompt in first] == [0.5, 0.5]
    order.rates = {0: 0.0, 1: 0.2}  # the head is 0.2 too high on average
    assert [prompt.number for prompt in order.choose(2, 1)] == [3, 1]
    assert sorted(asked_of[0][:2]) == [0, 1]
    assert sorted(asked_of[0][2:]) == [2, 3, 4, 5]
    guesses = [order.estimate(prompt) for prompt in asked()]
    assert guesses == pytest.approx([0.0, 0.2, 0.2, 0.5, 0.0, 0.0])
    assert 3 not in {prompt.number for prompt in order.choose(2, 1, draw_number=1)}  # another draw asks another prompt
    assert 3 in {prompt.number for prompt in order.choose(2, 2)}


def test_few_unseen_prompts_are_guessed_and_others_wait() -> None:
    asked_of: list[list[int]] = []
    order = headed({number: number / 100 for number in range(100)}, 100, asked_of)
    order.rates = {number: number / 100 for number in range(10)}
    chosen = {prompt.number for prompt in order.choose(2, 1)}
    (numbers,) = asked_of
    assert len(numbers) == 2 + 8 * 2
    nearest = sorted(numbers[2:], key=lambda number: abs(number / 100 - 0.5))[:2]
    assert chosen == {*nearest}


def test_replay_keeps_mixed_and_drops_old_groups() -> None:
    buffer = ReplayBuffer(Replay(groups=2, max_age=3, capacity=3))
    for group in range(5):
        values = (0.0, 0.0) if group == 2 else (0.0, 1.0)
        buffer.add([rollout(asked()[0], group, value, version=group) for value in values], lambda _: 0.5)
    assert list(buffer.groups) == [1, 3, 4]
    found, report = buffer.draw(version=5, seed=0)
    assert {one.group for one in found} == {3, 4}
    assert report == {"replay_groups": 2.0, "replay_age": 1.5, "replay_ess": 2.0}
    assert ReplayBuffer(Replay()).draw(version=5, seed=0) == ([], {})


def test_accuracy_error_replays_the_worst_estimates() -> None:
    means = {0: (0.0, 1.0), 1: (1.0, 0.9), 2: (0.0, 0.2), 3: (0.4, 0.6)}
    estimates = (0.5, 0.5, 0.9, 0.1)  # errors of 0, .45, .8, .4

    def taken(seed: int, **choices: Any) -> set[int]:
        buffer = ReplayBuffer(Replay(groups=2, **choices))
        for group, values in means.items():
            rollouts = [rollout(asked()[group], group, value) for value in values]
            buffer.add(rollouts, lambda prompt: estimates[prompt.number])
        assert buffer.errors == pytest.approx({0: 0.0, 1: 0.45, 2: 0.8, 3: 0.4})
        return {one.group for one in buffer.draw(version=0, seed=seed)[0]}

    assert {frozenset(taken(seed, priority="accuracy-error")) for seed in range(20)} == {frozenset({1, 2})}
    assert len({frozenset(taken(seed)) for seed in range(20)}) > 1


def test_accuracy_error_needs_estimate_and_no_rate() -> None:
    with pytest.raises(UsageError, match="curriculum is shuffle, wanted paced or pass-rate"):
        Online(replay=Replay(groups=1, priority="accuracy-error"))
    assert Online(replay=Replay(groups=1, priority="accuracy-error"), curriculum="paced")
    with pytest.raises(UsageError, match=r"replay\.rate is of the priority age"):
        Replay(groups=1, priority="accuracy-error", rate=0.1)


def test_rollout_round_trips_bit_exactly() -> None:
    prompt = asked()[1]
    for value in (0.1, float("nan")):
        before = rollout(prompt, 3, value)
        text = rollout_line(before, 2)(before.logp, learned=True)
        after = parse_rollout(text, {prompt.id: prompt})
        assert rollout_line(after, 2)(after.logp, learned=True) == text
        assert json.dumps(json.loads(text), ensure_ascii=False) == text
        assert before.spans == after.spans
        for name in ("tokens", "logp"):
            left, right = getattr(before, name), getattr(after, name)
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes()
        assert (after.messages, after.states, after.turn_rewards) == (before.messages, ("s", "t"), (0.0, 0.5))
    held = json.loads(text)
    assert held["reward"] is None
    assert held["tokens"]["spans"] == [[2, 4], [5, 6]]
    with pytest.raises(CheckpointError):
        parse_rollout(text[:-9], {prompt.id: prompt})


@pytest.mark.parametrize(
    "spans",
    [
        [[None, 4], [5, 6]],
        [[2, 4], [5, 99]],
        [[4, 2], [5, 6]],
        [[2, 5], [4, 6]],
        [[5, 6], [2, 4]],
        [[-2, 4], [5, 6]],
        [[0, 2], [5, 6]],
        [[2, 2], [5, 6]],
        [[2.0, 4], [5, 6]],
        [[True, 3], [5, 6]],
        [[2, 3], [5, 6]],
        [[2, 5], [5, 6]],
        [[2], [5, 6]],
        [2, 4],
    ],
)
def test_spans_that_no_rollout_has_are_damage(spans: Any) -> None:
    prompt = asked()[1]
    one = rollout(prompt, 3, 0.5)
    held = json.loads(rollout_line(one, 2)(one.logp, learned=True))
    parse_rollout(json.dumps(held), {prompt.id: prompt})
    held["tokens"]["spans"] = spans
    with pytest.raises(CheckpointError):
        parse_rollout(json.dumps(held), {prompt.id: prompt})


def metrics(**over: Any) -> dict[str, Any]:
    return {
        "round": 1,
        "groups_mixed": 0.5,
        "skipped": 0,
        "missing": {},
        "rollouts": 8,
        "learned": 8,
        "dropped": {},
        "entropy": 1.0,
        "kl": 0.1,
    } | over


@pytest.mark.parametrize(
    ("alarms", "rounds"),
    [
        (Alarms(entropy_floor=0.5), [{"entropy": 0.4}]),
        (Alarms(kl_ceiling=0.2), [{"kl": 0.3}]),
        (Alarms(step_kl_ceiling=0.5), [{"kl_old": 0.68}]),
        (Alarms(flat_rounds=3), [{"groups_mixed": 0.0}] * 3),
        (Alarms(idle_rounds=3), [{"learned": 0, "dropped": {"DropTruncated": 8}}] * 3),
        (Alarms(skipped_steps=3), [{"skipped": 1}, {"skipped": 2}]),
        (Alarms(missing_share=0.5), [{"missing": {"one: nan": 3, "two: raised": 2}}]),
    ],
)
def test_alarm_fires_exactly_at_its_bound(alarms: Alarms, rounds: list[dict[str, Any]]) -> None:
    monitor = AlarmMonitor(alarms)
    for over in (*[{}] * 5, *rounds[:-1]):
        monitor.check(metrics(**over))
    with pytest.raises(AlarmError) as raised:
        monitor.check(metrics(**rounds[-1]))
    assert raised.value.hint
    quiet = AlarmMonitor(Alarms(step_kl_ceiling=0, flat_rounds=0, idle_rounds=0, skipped_steps=0, missing_share=1.0))
    for over in rounds * 20:
        quiet.check(metrics(**over))


def test_rounds_between_take_an_alarm_back() -> None:
    monitor = AlarmMonitor(Alarms(flat_rounds=2, skipped_steps=2))
    for over in [{"groups_mixed": 0.0}, {}, {"groups_mixed": 0.0, "skipped": 1}, {}] * 4:
        monitor.check(metrics(**over))


def test_idle_alarm_names_the_filter() -> None:
    """Of 250 rounds of DAPO 144 made no step, in no long row, and each said that most groups were mixed."""
    monitor = AlarmMonitor(Alarms())
    drops = {"DropTruncated": 6, "DropConstantGroups": 2}
    learned = [0 if round % 7 in (0, 2, 4, 6) else 8 for round in range(250)]
    with pytest.raises(AlarmError) as raised:
        list(map(monitor.check, (metrics(groups_mixed=0.88, learned=count, dropped=drops) for count in learned)))
    said = (
        "10 more rounds made no step than made one: DropTruncated drops 6 of 8 rollouts and DropConstantGroups drops 2"
    )
    assert said in str(raised.value)
    assert "overlong_tokens" in str(raised.value.hint)
    mixed = metrics(learned=0, dropped={"MixedGroups": 8})
    with pytest.raises(AlarmError) as raised:
        AlarmMonitor(Alarms(idle_rounds=1)).check(mixed)
    assert "as outcome" in str(raised.value.hint)


def test_each_filter_of_a_recipe_has_a_hint() -> None:
    axis = {name for name, one in vars(filters).items() if isinstance(one, type) and issubclass(one, filters.Filter)}
    assert axis - {"Filter", "KeepAll", "Both"} <= HINTS.keys()


TOML = """
model = "model"
prompts = "prompts.jsonl"
out = "out"
recipe = "Dr_GRPO"
group-size = 6
learning_rate = 1e-3
lora_keys = ["self_attn.q_proj"]
[rewards]
"rewards.py:one" = 0.5
[alarms]
kl_ceiling = 0.1
[replay]
groups = 2
"""


def written(folder: Path, text: str) -> Path:
    (folder / "rl.toml").write_text(text)
    (folder / "prompts.jsonl").write_text(
        '{"prompt": "q", "answer": 3}\n\n{"messages": [{"role": "user", "content": "r"}], "id": "x"}\n'
    )
    return folder / "rl.toml"


def test_file_holds_every_setting_with_relative_paths(tmp_path: Path) -> None:
    found = load(written(tmp_path, TOML), seed=7, group_size=4)
    assert (found.group_size, found.training.seed, found.training.learning_rate) == (4, 7, 1e-3)
    assert (found.alarms.kl_ceiling, found.replay.groups) == (0.1, 2)
    assert found.prompts == str(tmp_path / "prompts.jsonl")
    assert found.model == "model"  # no such folder: a name on the hub
    assert found.rewards == {f"{tmp_path / 'rewards.py'}:one": 0.5}
    assert found.training.lora_keys == ("self_attn.q_proj",)
    read = read_prompts(found.prompts)
    assert [(one.id, one.number, one.columns) for one in read] == [("0", 0, {"answer": 3}), ("x", 1, {"id": "x"})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("grup_size = 3", "grup_size is unknown"),
        ("group_size = 0", "group_size is 0"),
        ("temperature = 0.0", "temperature is 0.0"),
        ("max_turns = 3", "no environment"),
        ('curriculum = "easy"', "curriculum is 'easy'"),
        ("minibatches = 9", "minibatches is more"),
        ("learning_rate = -1.0", "learning_rate is -1.0"),
        ("[alarms]\nfloor = 1", "alarms.floor is unknown"),
        ("[alarms]\nkl_ceiling = -1", "alarms.kl_ceiling is -1"),
        ("[replay]\ngroups = 0.5", "replay.groups is 0.5"),
        ('[rewards]\n"a.py:b" = "much"', "weight of .*a.py:b is 'much'"),
        ("rewards = 3", "rewards is 3"),
        ("recipe = 3", "recipe is 3"),
        ('group_size = "8"', "group_size is '8'"),
        ("temperature = true", "temperature is True"),
        ("compile = 1", "compile is 1"),
        ("= 3", "not TOML"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(written(tmp_path, line))


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("here = 1\ndef one(): pass\n")
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    assert load_function(f"{tmp_path / 'a.py'}:one").__name__ == "one"
    for place, said in (("a.py:two", "no function two"), ("a.py:here", "no function"), ("bad.py:x", "does not run")):
        with pytest.raises(UsageError, match=said):
            load_function(str(tmp_path / place))
    with pytest.raises(UsageError, match="there is no file"):
        load_function(str(tmp_path / "c.py:x"))


@pytest.mark.parametrize(
    "text", ["", "[1]\n", "{\n", '{"prompt": 3}\n', '{"prompt": "q", "id": 1}\n' * 2, "[" * 100_000]
)
def test_a_file_of_no_prompts_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(UsageError):
        read_prompts(tmp_path / "p.jsonl")


def test_a_recipe_has_many_spellings_and_a_file(tmp_path: Path) -> None:
    from karl_fast.objective import to_toml

    assert load_recipe("DR_GRPO") == load_recipe("dr-grpo") == load_recipe("Dr_GRPO")
    (tmp_path / "mine.toml").write_text(to_toml(load_recipe("dapo")))
    assert load_recipe(str(tmp_path / "mine.toml")) == load_recipe("dapo")
    with pytest.raises(UsageError):
        load_recipe("no-such-recipe")


def test_irrelevant_settings_keep_the_identity() -> None:
    one = Online(rounds=3, out="a")
    assert one.to_dict() == replace(one, rounds=9, out="b", show=4).to_dict()
    assert one.to_dict() != replace(one, epochs=2).to_dict()


def test_alarms_count_rounds_as_the_terminal_does() -> None:
    with pytest.raises(AlarmError, match=r"^round 1: "):
        AlarmMonitor(Alarms(flat_rounds=1)).check(metrics(round=0, groups_mixed=0.0))


def test_full_disk_is_named_on_close(tmp_path: Path) -> None:
    journal = RolloutLog(tmp_path / "rollouts.jsonl", 0)
    journal._file.close()
    journal._file = open("/dev/full", "ab")  # noqa: SIM115, PTH123
    for act in (lambda: journal.write(["x"]), journal.finish):
        with pytest.raises(FileError, match=r"rollouts\.jsonl: No space left"):
            act()


def test_constant_groups_are_placed_after_two_outcomes() -> None:
    def of(*outcomes: float) -> list[Rollout]:
        return [rollout(asked()[0], group, outcome) for group, outcome in enumerate(outcomes) for _ in range(2)]

    seen: list[float] = []
    for values, wanted in (
        ((0.0, 0.0), {"other": 1.0}),  # all wrong from the first round: nobody knows yet that 0 is the bottom
        ((math.nan, 0.0), {"missing": 0.5, "other": 0.5}),
        ((1.0, 0.0), {"at_top": 0.5, "at_bottom": 0.5}),
        ((0.0, 0.5), {"at_bottom": 0.5, "other": 0.5}),
        ((2.0, 1.0), {"at_top": 0.5, "other": 0.5}),
    ):
        seen = outcome_range(seen, of(*values))
        found = group_metrics(of(*values), seen)
        assert found == {f"groups_{kind}": wanted.get(kind, 0.0) for kind in KINDS}
    assert outcome_range([], of(math.nan)) == []


def test_but_changes_only_known_fields() -> None:
    one = rollout(asked()[0], 0, 1.0)
    other = one.but(reward=0.5, missing="nan")
    assert (other.reward, other.missing, other.id, other.tokens is one.tokens) == (0.5, "nan", one.id, True)
    assert (one.reward, one.missing) == (1.0, None)
    for wrong in ("rewards", "own", "length"):
        with pytest.raises(TypeError, match=f"a rollout has no field '{wrong}'"):
            one.but(**{wrong: 0.5})
