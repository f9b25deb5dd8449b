"""Distillation: a teacher's numbers at the student's tokens, whatever its prompt; what is refused; runs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

from karl_fast.errors import UsageError
from karl_fast.modeling.chunked_logp import Support
from karl_fast.modeling.optimizer import global_norm
from karl_fast.rl import rl
from karl_fast.rl import teacher as module
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.memory import Sizes, estimate_round, estimate_teacher
from karl_fast.rl.rollout import Prompt, Rollout, pack
from karl_fast.rl.settings import Alarms, Online
from karl_fast.rl.teacher import Teacher, check_same_vocabulary, hides_prompts, teacher_messages
from tests.tolerances import of_float32_sums
from tests.unit.modeling.parts import adapted, built
from tests.unit.rl.conftest import EXAMPLES, lines
from tests.unit.rl.test_run import left

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ("logp", "divergence")
EXPERT = f"{EXAMPLES / 'reversal.py'}:wide"


class Numbers(LanguageModel):
    """A model whose prompts are token ids in the text of a message."""

    def encode(self, messages: Any) -> list[int]:
        return [int(word) for message in messages for word in message["content"].split()]


def language(seed: int) -> Numbers:
    mx.random.seed(seed)
    model = adapted(built("qwen3")).eval()
    return Numbers(SimpleNamespace(model=model, tokenizer=None, ends=frozenset([3]), config={}))


@pytest.fixture(scope="module")
def student() -> Numbers:
    return language(1)


@pytest.fixture(scope="module")
def expert() -> Numbers:
    return language(2)


def words(tokens: Any) -> str:
    return " ".join(map(str, tokens))


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    """Three rollouts of a prompt of 40 tokens and one of another, of one or two turns; teacher prompts of 60 and 3."""
    draw = np.random.default_rng(4)
    prompts = [draw.integers(4, 97, size).astype(np.int32) for size in (40, 25)]
    shown = [draw.integers(4, 97, size) for size in (60, 3)]
    asked = [
        Prompt(str(n), n, ({"role": "user", "content": words(own)},), {"teacher_prompt": words(more)})
        for n, (own, more) in enumerate(zip(prompts, shown, strict=True))
    ]
    found = []
    for number, (prompt, spans, length) in enumerate(
        [(0, ((40, 60),), 60), (0, ((40, 45), (50, 63)), 63), (0, ((40, 51),), 51), (1, ((25, 30), (34, 41)), 41)]
    ):
        tokens = np.concatenate([prompts[prompt], draw.integers(4, 97, length - len(prompts[prompt])).astype(np.int32)])
        own = sum(end - start for start, end in spans)
        columns = {"logp": np.zeros(own, np.float32), "entropy": np.zeros(own, np.float32)}
        parts: Any = {"messages": (), "states": (), "turn_rewards": (), "finish": "stop", "version": 0}
        found.append(Rollout(f"r{number}", asked[prompt], prompt, tokens, spans, **columns, **parts))
    return found


def taught_logits(policy: Any, rollout: Rollout, temperature: float) -> Any:
    """The teacher's logits in front of each token of the policy, from its own prompt, by one pass. [length, V]"""
    prompt, first = policy.encode(teacher_messages(rollout.prompt)), rollout.spans[0][0]
    tokens = mx.array([[*prompt, *rollout.tokens[first:].tolist()]])
    logits = policy.head(policy.body(tokens))[0] / temperature
    places = [len(prompt) - first + at - 1 for start, end in rollout.spans for at in range(start, end)]
    return logits[mx.array(places)]


def log_softmax(logits: Any) -> Any:
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


@pytest.mark.parametrize("prefill", [2048, 16])
def test_teacher_scores_the_tokens_of_the_student_behind_its_own_prompt(
    expert: Numbers, rollouts: list[Rollout], monkeypatch: pytest.MonkeyPatch, prefill: int
) -> None:
    monkeypatch.setattr(module, "PREFILL", prefill)
    packed = pack(rollouts)
    teacher = Teacher(expert, 0.8)
    found = teacher.logp(teacher.view(rollouts, packed, packed.mask), packed.mask)
    wanted = []
    for rollout in rollouts:
        own = mx.array(rollout.own(rollout.tokens))
        wanted.append(mx.take_along_axis(log_softmax(taught_logits(expert, rollout, 0.8)), own[:, None], axis=-1)[:, 0])
    np.testing.assert_allclose(found[packed.mask], np.array(mx.concatenate(wanted)), atol=2e-5)
    assert not found[~packed.mask].any()


def forward_of(student: Numbers, teacher: Teacher, length: int | None = None, *, share: bool = False) -> Forward:
    forward = Forward(student, 0.8, segment_length=length, teacher=teacher)
    forward.__dict__["_carry_obstacle"] = None if share or length else "a reason"
    return forward


@pytest.mark.parametrize("support", [None, Support(5, "student"), Support(5, "teacher", renormalise=True)], ids=repr)
@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_gradient_is_that_of_all_logits_at_once(
    student: Numbers, expert: Numbers, rollouts: list[Rollout], direction: str, support: Support | None
) -> None:
    import mlx.nn as nn

    from karl_fast.modeling.chunked_logp import divergences
    from karl_fast.modeling.optimizer import join_leaves

    packed = pack(rollouts)
    teacher = Teacher(expert, 0.8, direction=direction, support=support)
    other = mx.concatenate([taught_logits(expert, rollout, 0.8) for rollout in rollouts])
    slopes = np.random.default_rng(0).normal(size=int(packed.mask.sum())).astype(np.float32)

    def naive() -> mx.array:
        logits = student.head(student.body(mx.array(packed.tokens[:, :-1])))
        chosen = logits.reshape(-1, logits.shape[-1])[mx.array(np.flatnonzero(packed.mask))] / 0.8
        return (mx.array(slopes) * divergences(chosen, other, direction, support)).sum()

    _, wanted = nn.value_and_grad(student.model, naive)()
    trace = forward_of(student, teacher).trace(
        packed.tokens, packed.mask, NAMES, view=teacher.view(rollouts, packed, packed.mask)
    )
    values = trace.outputs()
    gradient = trace.pull({"logp": np.zeros_like(slopes), "divergence": slopes})
    whole = join_leaves(wanted)
    assert np.abs(values["divergence"]).max() > 0.01
    far: Any = global_norm({name: gradient[name] - one for name, one in whole.items()}) / global_norm(whole)
    assert far.item() < of_float32_sums(4 * 60)


@pytest.mark.parametrize(("length", "share"), [(16, False), (None, True), (16, True)])
def test_segments_and_common_prefixes_change_nothing(
    student: Numbers, expert: Numbers, rollouts: list[Rollout], length: int | None, share: bool
) -> None:
    longer = [
        rollout.but(
            tokens=np.concatenate([np.resize(rollout.tokens[:9], 150).astype(np.int32), rollout.tokens]),
            spans=tuple((start + 150, end + 150) for start, end in rollout.spans),
        )
        for rollout in rollouts
    ]
    packed = pack(longer)
    teacher = Teacher(expert, 0.8, direction="reverse")
    mask = packed.mask & (np.arange(packed.mask.shape[1]) % 7 != 0)  # a filter that leaves tokens out
    view = teacher.view(longer, packed, mask)
    slopes = {name: np.random.default_rng(1).normal(size=int(mask.sum())).astype(np.float32) for name in NAMES}

    def passed(forward: Forward) -> tuple[Any, Any, Any]:
        trace = forward.trace(packed.tokens, mask, NAMES, view=view)
        values, flat = trace.outputs(), forward.flat(packed.tokens, mask, NAMES, view=view)()
        gradient = trace.pull(slopes)
        mx.eval(gradient)
        return values, flat, gradient

    wanted, _, whole = passed(forward_of(student, teacher))
    values, flat, gradient = passed(forward_of(student, teacher, length, share=share))
    for name in NAMES:
        np.testing.assert_allclose(values[name], wanted[name], atol=5e-5)
        np.testing.assert_allclose(flat[name], wanted[name], atol=5e-5)
    far: Any = global_norm({name: gradient[name] - one for name, one in whole.items()}) / global_norm(whole)
    assert far.item() < of_float32_sums(4 * 60)


def test_prompts_that_the_teacher_tells_apart_are_not_shared(student: Numbers, expert: Numbers) -> None:
    messages = ({"role": "user", "content": "5 6"},)
    prompts = [Prompt(str(n), n, messages, {"teacher_prompt": shown}) for n, shown in enumerate(("7", "8"))]
    assert hides_prompts(prompts)
    assert not hides_prompts(prompts[:1])
    forward = Forward(student, 1.0, teacher=Teacher(expert, 1.0, hides_prompts=True))
    assert forward.sharing() is False
    assert "several prompts" in str(forward.sharing.remark())


def prompts_with(tmp_path: Path, *, answers: bool = True, wrong: bool = False) -> str:
    """Prompts of two symbols, each with its answer, or a wrong one, for the teacher."""
    path = tmp_path / f"prompts-{answers}-{wrong}.jsonl"
    rows = []
    for number in range(16):
        symbols = [number // 4, number % 4]
        shown = symbols[:: 1 if wrong else -1]
        row = {"prompt": words(symbols)} | ({"teacher_prompt": words([*shown, *symbols])} if answers else {})
        rows.append(json.dumps(row))
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


def test_divergence_from_a_teacher_falls(online: Callable[..., Online], tmp_path: Path) -> None:
    rl(online(recipe="opd-reverse-kl", teacher=EXPERT, rounds=30, save_every=30))
    found = [line["divergence"] for line in lines(tmp_path / "out" / "metrics.jsonl")]
    assert np.mean(found[-5:]) < 0.5 * np.mean(found[:5])


@pytest.mark.parametrize("recipe", ["opd", "opd-reverse-kl", "opd-top-k"])
def test_a_teacher_needs_no_reward(online: Callable[..., Online], tmp_path: Path, recipe: str) -> None:
    result = rl(online(recipe=recipe, teacher=EXPERT, rewards={}, rounds=12, group_size=1, max_tokens=3))
    assert result.steps == 12  # no alarm for equal or missing rewards
    line = lines(tmp_path / "out" / "metrics.jsonl")[-1]
    assert line["missing"] == {}
    assert "outcome" not in line
    assert line["learned"] == 4


def test_a_reward_beside_a_teacher_is_needed(online: Callable[..., Online]) -> None:
    with pytest.raises(UsageError, match="rewards names no function"):
        rl(online(recipe="opd-grpo", teacher=EXPERT, rewards={}))


def test_student_never_reads_the_prompt_of_the_teacher(online: Callable[..., Online], tmp_path: Path) -> None:
    """What it draws in the first round, and how likely that was, does not depend on what the teacher sees."""
    kept = []
    for wrong in (False, True):
        out = tmp_path / str(wrong)
        given: Any = {"prompts": prompts_with(tmp_path, wrong=wrong), "recipe": "opd-reverse-kl", "teacher": "policy"}
        rl(online(**given, rounds=2, out=str(out)))
        rows = lines(out / "rollouts.jsonl")
        kept.append([[(row["tokens"], row["messages"]) for row in rows if row["round"] == turn] for turn in (0, 1)])
    first, second = zip(*kept, strict=True)
    assert first[0] == first[1]
    assert second[0] != second[1]


@pytest.mark.parametrize("variant", ["policy", "start", EXPERT])
def test_resumed_run_is_that_which_was_not_stopped(online: Callable[..., Online], tmp_path: Path, variant: str) -> None:
    given: Any = {"prompts": prompts_with(tmp_path), "recipe": "opd-reverse-kl", "teacher": variant}
    given |= {"epochs": 2, "minibatches": 2, "micro_batch": 5, "alarms": Alarms(step_kl_ceiling=0)}
    rl(online(**given, rounds=5, out=str(tmp_path / "whole")))
    rl(online(**given, rounds=3, out=str(tmp_path / "cut")))
    rl(online(**given, rounds=5, out=str(tmp_path / "cut")), resume=True)
    assert left(tmp_path / "whole") == left(tmp_path / "cut")


def test_start_and_policy_are_two_teachers(online: Callable[..., Online], tmp_path: Path) -> None:
    found = {}
    for name in ("policy", "start"):
        given: Any = {"prompts": prompts_with(tmp_path), "recipe": "opd-reverse-kl", "teacher": name}
        rl(online(**given, rounds=3, out=str(tmp_path / name)))
        found[name] = [line["divergence"] for line in lines(tmp_path / name / "metrics.jsonl")]
    assert found["policy"][0] == found["start"][0]
    assert found["policy"][2] != found["start"][2]


def test_micro_batches_make_the_divergence_of_the_whole(online: Callable[..., Online], tmp_path: Path) -> None:
    found = []
    for size in (32, 5):
        out = tmp_path / str(size)
        rl(online(recipe="opd-forward-kl", teacher=EXPERT, rounds=1, micro_batch=size, out=str(out)))
        found.append(lines(out / "metrics.jsonl")[0]["divergence"])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"recipe": "opd"}, "OPD learns from a teacher, and there is none", "name a better model"),
        ({"recipe": "grpo", "teacher": EXPERT}, "and GRPO does not learn from one", "opd-reverse-kl"),
        ({"recipe": "opd", "teacher": "policy"}, "the prompt 0 has no teacher_prompt", "give each line of the prompts"),
        ({"recipe": "opd", "teacher": "start", "teacher_adapter": "x"}, "teacher is start, the policy itself", None),
    ],
)
def test_what_does_not_go_together_is_refused(
    online: Callable[..., Online], tmp_path: Path, given: Any, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        rl(online(**given))
    assert hint is None or hint in str(error.value.hint)
    assert not (tmp_path / "out").exists()


def test_teacher_prompt_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="the teacher_prompt of prompt 7 is neither a text nor messages"):
        teacher_messages(Prompt("7", 7, ({"role": "user", "content": "x"},), {"teacher_prompt": 3}))


class Words:
    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.vocabulary = vocabulary

    def get_vocab(self) -> dict[str, int]:
        return self.vocabulary


def with_words(policy: Numbers, **vocabulary: int) -> Any:
    return SimpleNamespace(tokenizer=Words(vocabulary), head=policy.head, body=policy.body)


def test_other_vocabulary_is_refused_with_what_to_do(student: Numbers) -> None:
    mine = with_words(student, a=1, b=2)
    check_same_vocabulary(mine, with_words(student, a=1, b=2, more=3), "big")
    for other, said in ((with_words(student, a=1, b=5), "number 5"), (with_words(student, a=1), "not there")):
        with pytest.raises(
            UsageError, match=f"the teacher big has another vocabulary: the token 'b' .* {said}"
        ) as error:
            check_same_vocabulary(mine, other, "big")
        assert "karl-fast train" in str(error.value.hint)


def test_plan_of_memory_has_the_teacher(student: Numbers, expert: Numbers) -> None:
    config = {"num_layers": len(student.model.layers)}
    sizes = Sizes.of_run(Online(max_tokens=50, max_context=200), 100)
    plain = estimate_round(student, Online(), config, divergence=True).need(sizes)
    taught = estimate_round(
        student, Online(), config, divergence=True, teacher=estimate_teacher(expert, 300, own=False)
    ).need(sizes)
    own = estimate_round(
        student, Online(), config, divergence=True, teacher=estimate_teacher(student, 300, own=True)
    ).need(sizes)
    assert plain.teacher == own.teacher == 0
    assert taught.teacher == plain.weights  # the same model
    assert "teacher" in str(taught)
    assert taught.total > plain.total
