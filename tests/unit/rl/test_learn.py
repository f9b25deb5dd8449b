"""Steps: what they compute does not depend on how it is cut up, and the ratios are real ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.objective import Preference, names, recipe
from karl_fast.objective.axes.advantage import Centre
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.entropy import EntropyBonus
from karl_fast.objective.axes.kl import ForwardKL, NoKL, ReverseKL
from karl_fast.objective.axes.kondo_gate import Gated
from karl_fast.rl import learner as rl_learner
from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import Decoder
from karl_fast.rl.learner import (
    Passes,
    PolicyLearner,
    PreparedBatch,
    Preparer,
    build_batch,
    reads_old_logp,
    reads_turns,
    reads_vectors,
)
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rewards import RewardFunctions, Weighted
from karl_fast.rl.rollout import Prompt, pack

if TYPE_CHECKING:
    from types import ModuleType

    from karl_fast.objective import Objective
    from karl_fast.rl.rollout import Rollout


@pytest.fixture
def policy(reversal: ModuleType) -> Any:
    import mlx.core as mx

    mx.random.seed(1)
    return reversal.policy(seed=1)


@pytest.fixture
def rollouts(policy: Any, reversal: ModuleType) -> list[Rollout]:
    prompts = [Prompt(str(n), n, ({"role": "user", "content": " ".join("12345"[: n + 2])},)) for n in range(3)]
    rewards = RewardFunctions([Weighted("reward", reversal.reward)])
    found, _ = Collector(Decoder(policy, 1.0), rewards, Sampling(6, budget=RolloutBudget(7)))(
        prompts, first=0, seed=3, version=0
    )
    assert len({rollout.length for rollout in found}) > 3
    return found


def learner(policy: Any, name: str | Objective, **passes: Any) -> PolicyLearner:
    from karl_fast.modeling import optimizer as optimizers
    from karl_fast.train.settings import Training

    optimizer = optimizers.build_optimizer(Training(optimizer="sgd", learning_rate=0.1))
    optimizer.init(policy.model.trainable_parameters())
    objective = recipe(name).objective if isinstance(name, str) else name
    forward = Forward(policy, 1.0, divergence=objective.reads_divergence)
    return PolicyLearner(forward, objective, optimizer, Passes(**{"max_grad_norm": 0.0} | passes))


def weights(policy: Any) -> dict[str, Any]:
    from mlx.utils import tree_flatten

    return {name: np.array(value) for name, value in tree_flatten(policy.model.parameters())}


def learned(
    policy: Any, rollouts: list[Rollout], name: str | Objective, **passes: Any
) -> tuple[PreparedBatch, Any, dict[str, Any]]:
    """What one batch makes of the policy, which is then as it was."""
    before = policy.model.parameters()
    from mlx.utils import tree_map

    kept = tree_map(lambda one: one + 0, before)
    one = learner(policy, name, **passes)
    prepared = one.prepare(rollouts, version=0, seed=5)
    found = one.learn(prepared, seed=5, set_learning_rate=lambda _: None)
    after = weights(policy)
    policy.model.update(kept)
    return prepared, found, after


@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "dapo", "gspo", "sampo", "rloo", "cispo", "tpo", "flowrl-vargrad"])
def test_micro_batches_make_the_step_of_the_whole(policy: Any, rollouts: list[Rollout], name: str) -> None:
    _, _, whole = learned(policy, rollouts, name, micro_batch=18)
    _, _, parts = learned(policy, rollouts, name, micro_batch=4)
    start = weights(policy)
    assert any(np.abs(whole[key] - start[key]).max() > 1e-7 for key in start)
    for key, value in whole.items():
        np.testing.assert_allclose(parts[key], value, atol=2e-6)


def test_gradients_of_micro_batches_add_up_in_float32(
    policy: Any, rollouts: list[Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy in bfloat16: a sum of its micro-batches in its type would be that of the first one."""
    import mlx.core as mx
    from mlx.utils import tree_map

    policy.model.update(tree_map(lambda one: one.astype(mx.bfloat16), policy.model.parameters()))
    one = learner(policy, "rloo", micro_batch=1)
    prepared = one.prepare(rollouts, version=0, seed=5)
    sizes, plain, taken = iter([256.0, *[1.0] * len(rollouts)]), rl_learner.objective_gradient, dict[str, Any]()

    def sized(*arguments: Any) -> Any:
        evaluation, columns, values = plain(*arguments)
        size = next(sizes)
        return evaluation, columns, {name: mx.full(value.shape, size, value.dtype) for name, value in values.items()}

    monkeypatch.setattr(rl_learner, "objective_gradient", sized)
    monkeypatch.setattr(one.optimizer, "update", lambda _, gradient: taken.update(gradient))
    one.learn(prepared, seed=5, set_learning_rate=lambda _: None)
    assert int(prepared.mask.any(1).sum()) == 18
    assert {str(value.dtype): float(value.max()) for value in taken.values()} == {"mlx.core.bfloat16": 272.0}


def test_chunked_head_gives_the_whole_gradient(policy: Any, rollouts: list[Rollout]) -> None:
    policy.model.logits.freeze()
    policy.model.norm.freeze()
    _, _, plain = learned(policy, rollouts, "grpo")
    policy.trained_head = False
    try:
        _, _, chunks = learned(policy, rollouts, "grpo")
    finally:
        del policy.trained_head
    for key, value in plain.items():
        np.testing.assert_allclose(chunks[key], value, atol=2e-6)


def test_only_the_first_step_is_on_policy(policy: Any, rollouts: list[Rollout]) -> None:
    prepared, found, _ = learned(policy, rollouts, "grpo", epochs=3, minibatches=2)
    assert len(found.losses) == 6
    first, last = found.drifts[0], found.drifts[-1]
    names = ("ratio", "ratio_std", "ratio_ess", "kl_old")
    assert tuple(first[name] for name in names) == pytest.approx((1.0, 0.0, 1.0, 0.0), abs=1e-5)
    assert last["ratio_std"] > 1e-3
    assert last["kl_old"] > 0
    apart = np.abs(found.logp - prepared.batch.logp_old)
    assert apart[prepared.mask].max() > 1e-3
    assert not apart[~prepared.mask].any()


def test_old_log_probabilities_are_recomputed(policy: Any, rollouts: list[Rollout]) -> None:
    wrong = [replace(rollout, logp=rollout.logp - 1.0) for rollout in rollouts]
    prepared = learner(policy, "grpo", epochs=2).prepare(wrong, version=0, seed=0)
    assert np.abs(prepared.batch.need("logp_old") - prepared.packed.logp)[prepared.mask].min() > 0.9
    # Of rollouts of an earlier policy, what they came with is what there is.
    older = learner(policy, "grpo").prepare(wrong, version=3, seed=0)
    assert np.array_equal(older.batch.need("logp_old")[older.mask], older.packed.logp[older.mask])
    assert older.batch.ages is not None
    assert (older.batch.ages == 3).all()


@pytest.mark.parametrize("name", ["grpo", "dapo", "gspo", "sampo", "cispo", "flowrl-vargrad"])
def test_one_step_needs_no_recomputed_log_probabilities(
    policy: Any, rollouts: list[Rollout], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = [replace(one, reward=1.0, outcome=1.0) if one.group == 2 else one for one in rollouts]
    prepared, found, short = learned(policy, same, name, micro_batch=6)
    assert prepared.on_policy
    assert all((one["ratio"], one["ratio_std"], one["kl_old"]) == (1.0, 0.0, 0.0) for one in found.drifts)
    monkeypatch.setattr(Preparer, "_one_step", False)
    prepared, plain, whole = learned(policy, same, name, micro_batch=6)
    assert not prepared.on_policy
    np.testing.assert_allclose(found.logp_old, plain.logp_old, atol=2e-6)
    assert (found.logp_old[prepared.packed.mask] < 0).all()
    assert found.losses == pytest.approx(plain.losses, abs=2e-6)
    for key, value in whole.items():
        np.testing.assert_allclose(short[key], value, atol=2e-6)


@pytest.mark.parametrize("passes", [{}, {"epochs": 2, "micro_batch": 5}])
def test_passes_started_before_rewards_are_used(policy: Any, rollouts: list[Rollout], passes: dict[str, int]) -> None:
    one, other = learner(policy, "grpo", **passes), learner(policy, "grpo", **passes)
    unrewarded = [rollout.but(reward=float("nan"), outcome=float("nan")) for rollout in rollouts]
    one.prepare.begin(unrewarded, version=0)
    begun, plain = (each.prepare(rollouts, version=0, seed=0) for each in (one, other))
    for name in ("logp_old", "logp_ref", "rewards"):
        np.testing.assert_array_equal(getattr(begun.batch, name), getattr(plain.batch, name))
    one.prepare.begin(unrewarded, version=0)
    fewer = one.prepare(rollouts[6:], version=0, seed=0)  # a round may learn from others than were drawn
    assert len(fewer.mask) == len(rollouts) - 6
    assert np.isfinite(fewer.batch.need("rewards")).all()


def test_replayed_rollouts_have_their_own_log_probabilities(policy: Any, rollouts: list[Rollout]) -> None:
    older = [replace(one, version=-1) if one.group == 0 else one for one in rollouts]
    assert not learner(policy, "grpo").prepare(older, version=0, seed=0).on_policy
    assert not learner(policy, "grpo", minibatches=2).prepare(rollouts, version=0, seed=0).on_policy


@pytest.mark.parametrize("name", names())
def test_scores_without_old_log_probabilities_ignore_them(policy: Any, rollouts: list[Rollout], name: str) -> None:
    objective = recipe(name).objective
    if isinstance(objective, Preference) or reads_old_logp(objective) or reads_vectors(objective):
        return  # no such columns here
    if objective.reads_candidates:
        return  # drawn by the policy, with their own log-probabilities
    if name == "PPO_CLIP":
        return
    rollouts = [
        one.but(token_rewards=np.linspace(0, 1, one.length), labels=np.full(one.length, 3), baseline=0.5)
        for one in rollouts
    ]
    packed = pack(rollouts)
    anything = packed.logp - np.arange(packed.logp.size, dtype=np.float32).reshape(packed.logp.shape) % 7
    more = {"version": 0, "seed": 0, "turns": reads_turns(objective)}
    one, other = (
        objective.score(build_batch(rollouts, packed, given, packed.logp, **more)) for given in (None, anything)
    )
    for field, value in vars(one).items():
        if field != "logp_old" and value is not None:
            np.testing.assert_array_equal(np.array(value), np.array(getattr(other, field)))


def test_batch_carries_the_tokens_that_were_drawn(rollouts: list[Rollout]) -> None:
    packed = pack(rollouts)
    batch = build_batch(rollouts, packed, None, None, version=0, seed=0, turns=False)
    own = [np.concatenate([one.tokens[start:end] for start, end in one.spans]) for one in rollouts]
    np.testing.assert_array_equal(batch.need("tokens")[batch.mask], np.concatenate(own))


def test_age_of_replayed_rollouts_reaches_the_loss(rollouts: list[Rollout]) -> None:
    packed, objective = pack(rollouts), recipe("fresh-dg").objective
    older = [replace(one, version=one.version - 5) if one.group == 0 else one for one in rollouts]
    batches = [build_batch(held, packed, None, None, version=0, seed=0, turns=False) for held in (rollouts, older)]
    now, aged = (objective(packed.logp, objective.score(batch)).coefficients for batch in batches)
    replayed = np.array([one.group == 0 for one in rollouts])
    np.testing.assert_allclose(aged[replayed], np.exp(-0.1) * now[replayed], rtol=1e-6)
    np.testing.assert_array_equal(aged[~replayed], now[~replayed])
    assert np.abs(now[replayed]).max() > 0


def test_scores_by_old_log_probabilities_are_named() -> None:
    assert [name for name in names() if reads_old_logp(recipe(name).objective)] == [
        "RLOO",
        "KONDO",
        "REINFORCE_PLUS_PLUS",
        "TPO_FULL_ACTION",
        "TPO",
        "TPO_NO_ANCHOR",
        "OPD",
        "OPD_PG",
        "OPD_GRPO",
    ]


def test_an_advantage_within_another_is_looked_at_too() -> None:
    grpo = recipe("grpo").objective
    gated = replace(grpo, advantage=EntropyModulated(Gated(grpo.advantage)))
    by_turn = replace(grpo, advantage=Gated(EntropyModulated(grpo.advantage)))
    assert reads_old_logp(gated)
    assert reads_turns(by_turn)


def test_tokens_of_others_are_not_learned(policy: Any, rollouts: list[Rollout]) -> None:
    _, _, plain = learned(policy, rollouts, "grpo")
    longer = [
        replace(
            rollout,
            tokens=np.append(rollout.tokens, [3, 4]).astype(np.int32),
        )
        for rollout in rollouts
    ]
    _, _, found = learned(policy, longer, "grpo")
    for key, value in plain.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6)


def test_the_reference_is_the_policy_before_training(policy: Any, rollouts: list[Rollout]) -> None:
    from mlx.utils import tree_map

    one = learner(policy, "grpo", epochs=2)
    before = one.prepare(rollouts, version=0, seed=0)
    np.testing.assert_array_equal(before.batch.need("logp_ref"), before.batch.need("logp_old"))
    policy.model.update(tree_map(lambda value: value * 1.1, policy.model.parameters()))
    after = one.prepare(rollouts, version=0, seed=0)
    np.testing.assert_allclose(after.batch.need("logp_ref"), before.batch.need("logp_ref"), atol=1e-6)
    assert np.abs(after.batch.need("logp_old") - before.batch.need("logp_old")).max() > 1e-3


def test_adapters_that_stand_aside_are_the_reference(language: Any) -> None:
    import mlx.core as mx

    tokens = mx.array([[1, 5, 9, 12]])
    now = language.body(tokens)
    with language.reference():
        base = language.body(tokens)
    assert np.abs(np.array(now - base)).max() > 1e-4
    assert np.array_equal(np.array(language.body(tokens)), np.array(now))


def test_a_gradient_that_is_not_finite_changes_nothing(policy: Any, rollouts: list[Rollout]) -> None:
    one = learner(policy, "grpo")
    prepared = one.prepare(rollouts, version=0, seed=0)
    before = weights(policy)
    assert prepared.scored.advantages is not None
    infinite = np.full_like(prepared.scored.advantages, np.inf)
    broken = replace(prepared, scored=replace(prepared.scored, advantages=infinite))
    found = one.learn(broken, seed=0, set_learning_rate=lambda _: None)
    assert (found.skipped, found.losses) == (1, [])
    for key, value in weights(policy).items():
        np.testing.assert_array_equal(value, before[key])


def test_groups_that_a_filter_drops_cost_no_step(policy: Any, rollouts: list[Rollout]) -> None:
    same = [replace(rollout, reward=1.0, outcome=1.0) for rollout in rollouts]
    _, found, after = learned(policy, same, "dapo")
    assert found.losses == []
    for key, value in weights(policy).items():
        np.testing.assert_array_equal(value, after[key])


def test_missing_rewards_have_no_part_in_a_step(policy: Any, rollouts: list[Rollout]) -> None:
    nan = float("nan")
    some = [replace(one, reward=nan, outcome=nan) if one.group == 1 else one for one in rollouts]
    prepared, _, found = learned(policy, some, "grpo")
    assert not prepared.mask[6:12].any()
    _, _, without = learned(policy, [one for one in rollouts if one.group != 1], "grpo")
    for key, value in without.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6)


def means(values: Any, mask: Any) -> Any:
    """The mean over rollouts of the mean over their tokens, as GRPO's aggregate has it."""
    return ((values * mask).sum(1) / mask.sum(1)).mean()


@pytest.mark.parametrize("term", ["entropy", "reverse", "forward"])
@pytest.mark.parametrize("micro_batch", [18, 5])
def test_further_term_adds_its_gradient(policy: Any, rollouts: list[Rollout], term: str, micro_batch: int) -> None:
    """Beside the gradient of the plain formula over all logits."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten, tree_map

    policy.model.update(tree_map(lambda one: one * 1.2, policy.model.parameters()))  # away from the reference
    base = replace(recipe("grpo").objective, kl=NoKL())
    point = {"entropy": EntropyBonus(0.5), "reverse": ReverseKL(0.5), "forward": ForwardKL(0.5)}[term]
    other = replace(base, **({"entropy": point} if term == "entropy" else {"kl": point}))
    start = weights(policy)
    _, _, without = learned(policy, rollouts, base, micro_batch=micro_batch)
    prepared, found, after = learned(policy, rollouts, other, micro_batch=micro_batch)
    assert found.losses
    tokens, mask = mx.array(prepared.packed.tokens), mx.array(prepared.mask.astype(np.float32))
    with policy.reference():
        log_q = nn.log_softmax(policy.head(policy.body(tokens[:, :-1])))

    def plain() -> mx.array:
        log_p = nn.log_softmax(policy.head(policy.body(tokens[:, :-1])))
        p, q = mx.exp(log_p), mx.exp(log_q)
        each = {"entropy": p * log_p, "reverse": p * (log_p - log_q), "forward": q * (log_q - log_p)}[term]
        return 0.5 * means(each.sum(-1), mask)

    _, gradient = nn.value_and_grad(policy.model, plain)()
    slopes = {name: np.array(value) for name, value in tree_flatten(gradient)}
    assert max(np.abs(value).max() for value in slopes.values()) > 1e-3
    for name in start:
        np.testing.assert_allclose(after[name] - without[name], -0.1 * slopes.get(name, 0.0), atol=2e-6)


def test_entropies_of_the_draw_modulate_credit(policy: Any, rollouts: list[Rollout]) -> None:
    objective = recipe("grpo").objective
    modulated = replace(objective, advantage=EntropyModulated(Centre()))
    prepared, found, _ = learned(policy, rollouts, modulated)
    assert found.losses
    drawn = np.concatenate([one.entropy for one in rollouts])
    np.testing.assert_array_equal(prepared.batch.need("entropies")[prepared.packed.mask], drawn)
    plain, _, _ = learned(policy, rollouts, replace(objective, advantage=Centre()))
    assert np.abs(prepared.scored.need("advantages") - plain.scored.need("advantages")).max() > 1e-3
