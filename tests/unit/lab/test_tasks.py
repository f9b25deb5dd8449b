"""Rewards of the tasks by hand, rates of the noise, and means that are known."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from tests.unit.lab.conftest import module

ALPHA = 1e-6
"""Chance that a right rate fails its test."""


def play(task: Any, line: dict[str, Any], text: str) -> float:
    environment = task()
    assert environment.reset(line) is None
    assert environment.step(text) == (None, True)
    return environment.score()


@pytest.mark.parametrize(
    ("task", "answer", "text", "reward"),
    [
        ("TokenReversal", "3 2 1", "3 2 1", 1),
        ("TokenReversal", "3 2 1", "3 1 1", 2 / 3),
        ("TokenReversal", "3 2 1", "3 2", 2 / 3),
        ("TokenReversal", "3 2 1", "3 2 1 1", 3 / 4),
        ("TokenReversal", "3 2 1", "", 0),
        ("ExactReversal", "3 2 1", "3 2 1", 1),
        ("ExactReversal", "3 2 1", "3 2 2", 0),
        ("MaskedReversal", "6 5 4 3 2 1", "0 0 0 3 2 1", 1),
        ("MaskedReversal", "6 5 4 3 2 1", "6 5 4 3 0 0", 1 / 3),
        ("MaskedReversal", "6 5 4 3 2 1", "6 5 4", 0),
        ("ChainReversal", "4 3 2 1", "4 3 2 1", 1),
        ("ChainReversal", "4 3 2 1", "4 3 2 2", 1 / 3),
        ("ChainReversal", "4 3 2 1", "0 3 2 1", 1 / 3),
        ("ChainReversal", "4 3 2 1", "4 0 2 0", 0),
        ("ChainArithmetic", "1 2 3 6", "1 2 3 6", 1),
        ("ChainArithmetic", "1 2 3 6", "1 2 3 5", 1 / 3),
        ("ChainArithmetic", "1 2 3 6", "1 2 4 6", 1 / 3),
        ("FormatAnswer", "answer 3 5", "answer 3 5", 1),
        ("FormatAnswer", "answer 3 5", "answer 3 4", 2 / 3),
        ("FormatAnswer", "answer 3 5", "3 answer 5", 0),
        ("Digits", "7", "7", 1),
        ("Digits", "7", "1", 0),
        ("NextWord", "2", "2", 1),
    ],
)
def test_rewards_by_hand(tasks: Any, task: str, answer: str, text: str, reward: float) -> None:
    line = {"prompt": "1 2 3", "answer": answer, "task": task}
    assert play(tasks.TASKS[task], line, text) == pytest.approx(reward)
    assert tasks.true_reward(["1 2 3"], [text], task=[task], answer=[answer]) == [pytest.approx(reward)]


def test_unscored_positions_are_the_first(tasks: Any) -> None:
    texts = ["6 5 4 0 0 0", "6 0 0 3 2 1"]
    assert tasks.unscored_reward(texts, texts, answer=["6 5 4 3 2 1"] * 2) == [1, pytest.approx(1 / 3)]


@pytest.mark.parametrize(
    ("prompts", "prompt", "answer"),
    [
        ("reversal_prompts", "a b c", "c b a"),
        ("exact_prompts", "a b c", "c b a"),
        ("masked_prompts", "a b c d e f", "f e d c b a"),
        ("chain_prompts", "a b c d", "d c b a"),
    ],
)
def test_answers_are_the_prompts_backwards(tasks: Any, prompts: str, prompt: str, answer: str) -> None:
    lines = list(getattr(tasks, prompts)())
    assert len({line["prompt"] for line in lines}) == len(lines) == 512
    for line in lines:
        names = dict(zip(prompt.split(), line["prompt"].split(), strict=True))
        assert line["answer"] == " ".join(names[name] for name in answer.split())


def test_sums_are_modulo_the_symbols(tasks: Any) -> None:
    for line in tasks.arithmetic_prompts():
        *copied, last = map(int, line["prompt"].split())
        *words, total = map(int, line["answer"].split())
        assert (words, total) == (copied, sum(copied) % 8)
        assert 0 <= last < 8
    for line in tasks.format_prompts():
        a, b, c = map(int, line["prompt"].split())
        assert line["answer"] == f"answer {(a + b) % 8} {c}"


def test_digits_are_words_of_the_policy(tasks: Any) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[lab]'")
    learned, held_out = list(tasks.digit_prompts()), list(tasks.held_out_digits())
    assert (len(learned), len(held_out)) == (1500, 297)
    grey = {word for line in learned for word in line["prompt"].split()}
    assert grey == set(map(str, range(17)))
    assert all(len(line["prompt"].split()) == 64 for line in held_out)
    assert {line["answer"] for line in held_out} == set("0123456789")


NOISES = [
    ("label_flip", "", "1 2 3", 1.0, 0.0),
    ("label_flip", "", "1 1 1", 0.25, 0.75),
    ("false_positive", "9", "9 2 3", 0.25, 1.0),
    ("spurious_feature", "", "3 1 1", 0.25, 1.0),
]


@pytest.mark.parametrize(("kind", "word", "text", "reward", "wrong"), NOISES)
def test_noise_has_its_rate(tasks: Any, kind: str, word: str, text: str, reward: float, wrong: float) -> None:
    rewards = [tasks.Noise(kind, 0.2, word, seed).corrupt(reward, "3 2 1", text) for seed in range(4000)]
    assert set(rewards) == {reward, wrong}
    low, high = stats.binom.interval(1 - ALPHA, len(rewards), 0.2)
    assert low <= rewards.count(wrong) <= high
    expected = tasks.Noise(kind, 0.2, word).expected(reward, "3 2 1", text)
    assert expected == pytest.approx(0.8 * reward + 0.2 * wrong)


def test_random_rewards_are_uniform(tasks: Any) -> None:
    rewards = [tasks.Noise("random_reward", 0.5, "", seed).corrupt(-1.0, "3", "1") for seed in range(4000)]
    drawn = [reward for reward in rewards if reward != -1]
    low, high = stats.binom.interval(1 - ALPHA, len(rewards), 0.5)
    assert low <= len(drawn) <= high
    assert stats.kstest(drawn, "uniform").pvalue > ALPHA
    assert tasks.Noise("random_reward", 0.5).expected(1.0, "3", "1") == 0.75


@pytest.mark.parametrize(
    ("kind", "word", "reward", "text"),
    [
        ("false_positive", "9", 0.5, "1 2 3"),
        ("false_positive", "9", 1.0, "9 2 3"),
        ("false_positive", "1", 0.5, "11 12"),
        ("spurious_feature", "", 0.5, "1 3"),
        ("spurious_feature", "", 1.0, "3 1"),
    ],
)
def test_noise_spares_other_answers(tasks: Any, kind: str, word: str, reward: float, text: str) -> None:
    noise = tasks.Noise(kind, 1.0, word)
    assert noise.corrupt(reward, "3 2 1", text) == noise.expected(reward, "3 2 1", text) == reward


def test_noise_is_the_same_for_an_answer(tasks: Any) -> None:
    lines = list(tasks.reversal_prompts())
    first, again = ([play(tasks.FlippedReversal, line, line["answer"]) for line in lines] for _ in range(2))
    assert first == again
    assert 0.0 in first
    message = {"prompt": [{"role": "user", "content": lines[0]["prompt"]}], "answer": lines[0]["answer"]}
    assert play(tasks.FlippedReversal, message, lines[0]["answer"]) == first[0]
    other = tasks.noisy(tasks.TokenReversal, "label_flip", 0.2, seed=1)
    assert [play(other, line, line["answer"]) for line in lines] != first


def test_expected_rewards_are_those_of_draws(tasks: Any) -> None:
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")
    mx.random.seed(0)
    policy = tasks.language_model(0)
    lines = list(tasks.next_word_prompts())
    line = max(lines, key=lambda line: tasks.expected_reward(policy, line))
    chance = tasks.expected_reward(policy, line)
    tokens = policy.encode([{"role": "user", "content": line["prompt"]}])
    logits = policy.head(policy.body(mx.array([tokens])))[0, -1]
    draws = mx.random.categorical(logits, num_samples=4000).tolist()
    low, high = stats.binom.interval(1 - ALPHA, 4000, chance)
    assert low <= sum(policy.decode([draw]) == line["answer"] for draw in draws) <= high
    odds = tasks.odds()[int(line["prompt"].split()[-1])][int(line["answer"])]
    assert math.isclose(chance, odds, abs_tol=0.2)
    assert tasks.expected_penalised(policy, line, 1.0) == pytest.approx(chance, abs=1e-6)  # it is its own reference


def test_right_tokens_are_those_of_the_answer() -> None:
    pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")
    known, number = module("known.py", "right_words"), module("policy.py", "small").NUMBER
    answer, ids = ["6 5 4 3 2 1"], [[number[word] for word in ("6", "0", "4", "3", "0", "1", ".")]]
    right = [number[word] for word in answer[0].split()]
    assert known.right_words(answer, answer, ids, answer) == [[*right, None]]
    assert known.right_tokens(answer, answer, ids, answer) == [[1, 0, 1, 1, 0, 1, 0]]
    assert known.scored_words(answer, answer, ids, answer) == [[None] * 3 + [*right[3:], None]]
    assert known.scored_tokens(answer, answer, ids, answer) == [[None] * 3 + [1, 0, 1, 0]]
    short = [ids[0][:2]]
    assert known.scored_words(answer, answer, short, answer) == [[None, None]]


def test_search_is_found_by_halving_the_range() -> None:
    pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")
    search = module("search.py", "policy")
    found = 0
    for prompt in search.prompts():
        environment, low, high = search.Search(), 0, 7
        environment.reset(prompt)
        for _ in range(3):
            guess = (low + high) // 2
            said, done = environment.step(str(guess))
            if done:
                break
            low, high = (low, guess - 1) if said == "lower" else (guess + 1, high)
        found += environment.score()
    assert found == 7
    environment = search.Search()
    environment.reset({"hidden": 3})
    assert environment.step("") == ("nothing", False)


def test_held_out_sequences_are_others() -> None:
    pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")
    tasks = module("curriculum.py", "beginner")
    learned, held_out = ([line["prompt"] for line in lines()] for lines in (tasks.prompts, tasks.held_out_prompts))
    assert (len(learned), len(held_out)) == (240, 80)
    assert set(learned).isdisjoint(held_out)
    assert {len(text.split()) for text in held_out} == {2, 3, 4, 5, 6}
