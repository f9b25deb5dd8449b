"""What rollouts become before the gradient line: turns end to end, and states of their own group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from karl_fast.advantage import gigpo
from karl_fast.objective import recipe
from karl_fast.rl.learner import build_batch, needs_reference, reads_turns
from karl_fast.rl.rollout import pack
from tests.unit.rl.test_parts import asked, rollout


def test_credit_by_turn_is_that_of_the_kernel() -> None:
    prompt = asked()[0]
    outcomes = {0: (1.0, 0.0, 1.0), 1: (0.0, 1.0, float("nan"))}
    rollouts = [rollout(prompt, group, value) for group, values in outcomes.items() for value in values]
    rollouts[1] = replace(rollouts[1], states=("s", "other"))
    packed, sampo = pack(rollouts), recipe("sampo").objective
    assert reads_turns(sampo)
    assert not reads_turns(recipe("grpo").objective)
    given = build_batch(rollouts, packed, packed.logp, packed.logp, version=3, seed=0, turns=True)
    # Each rollout has two turns; the second was given 0.5, and has the reward of the whole.
    assert given.turn_rewards is not None
    np.testing.assert_array_equal(given.turn_rewards.reshape(-1, 2)[:, 1], [1.5, 0.5, 1.5, 0.5, 1.5, np.nan])
    assert not given.turn_rewards.reshape(-1, 2)[:5, 0].any()
    assert given.state_ids is not None
    states = given.state_ids.reshape(-1, 2)
    assert len(set(states[:3, 0])) == len(set(states[3:, 0])) == 1
    assert set(states[:3].ravel()).isdisjoint(states[3:].ravel())
    assert states[1, 1] not in states[[0, 2], 1]
    wanted = gigpo(
        given.turn_rewards, given.need("turn_offsets"), given.need("group_ids"), given.state_ids, ddof=1, eps=1e-6
    ).joint.reshape(-1, 2)
    found = np.array(sampo.score(given).advantages)
    for row in (0, 1, 2, 3, 4):
        np.testing.assert_allclose(found[row, [1, 2]], wanted[row, 0], rtol=1e-6)
        np.testing.assert_allclose(found[row, 4], wanted[row, 1], rtol=1e-6)
    assert not found[5].any()


def test_reference_is_computed_only_when_read() -> None:
    looks = {name: needs_reference(recipe(name).objective) for name in ("grpo", "dapo", "flowrl", "paced", "rloo")}
    assert looks == {"grpo": True, "dapo": False, "flowrl": True, "paced": False, "rloo": True}
