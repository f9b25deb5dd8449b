"""Compiled passes: the numbers of the plain ones, under the weights of each call, with few traces."""

from __future__ import annotations

import shutil
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import ModelError
from karl_fast.rl import rl
from karl_fast.rl import setup as parts
from karl_fast.rl.compiled import MOST_TRACES, CompiledModel, round_size
from karl_fast.rl.generate import Decoder, Generation, Turn, TurnRequest, generate_turns, rollout_key
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rollout import Packed, Prompt
from tests.external_gradients import pulled
from tests.unit.rl.conftest import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from karl_fast.rl.policy import Policy
    from karl_fast.rl.settings import Online


@pytest.fixture
def compiling(nothing_compiled: None) -> Iterator[None]:
    """With `mx.compile` on, which the other tests go without: on a CPU it calls a C++ compiler."""
    import mlx.core as mx

    if not mx.metal.is_available() and shutil.which("g++") is None:
        pytest.skip("mx.compile needs g++ on a CPU")
    mx.enable_compile()
    yield
    mx.disable_compile()


def packed(rows: int = 4, length: int = 9, seed: int = 0, width: int | None = None) -> Packed:
    """Random tokens, of which each row has some at its end; padded to a width."""
    random, width = np.random.default_rng(seed), width or length
    tokens = random.integers(1, 8, (rows, width + 1)).astype(np.int32)
    first, places = random.integers(1, length - 1, rows), np.arange(width)
    mask = (places >= first[:, None]) & (places < length)
    return Packed(tokens, mask, np.where(mask, 0, -1), np.zeros(mask.shape, dtype=np.float32))


def squares(forward: Forward, given: Packed, weights: Any) -> tuple[float, dict[str, Any]]:
    """A loss that feels each log-probability otherwise, and its gradient."""
    return pulled(forward.trace(given.tokens, given.mask), lambda logp: (logp * logp * weights).sum())


def pass_of(policy: Policy, given: Packed, *, compile: bool = True) -> list[Any]:
    """Log-probabilities of both policies, the loss, and its gradient."""
    import mlx.core as mx

    forward = Forward(policy, 0.7, compile=compile)
    weights = mx.array(np.random.default_rng(5).random(given.mask.sum()).astype(np.float32))
    own, reference = forward.logp(given), forward.logp(given, reference=True)
    value, gradient = squares(forward, given, weights)
    return [own, reference, np.array(value), *(np.array(one) for one in gradient.values())]


def assert_same_as_plain(policy: Policy) -> None:
    import mlx.core as mx

    given = packed(rows=6, length=41, seed=1, width=44)  # 41 is rounded up to 42, and so are the targets
    assert round_size(41) == 42
    assert round_size(int(given.mask.sum())) > given.mask.sum() > 32
    compiled = pass_of(policy, given)
    mx.disable_compile()
    plain = pass_of(policy, given, compile=False)
    assert np.abs(plain[0] - plain[1]).max() > 1e-3  # the reference is another policy
    for number, (one, other) in enumerate(zip(compiled, plain, strict=True)):
        # Small numbers are differences of large ones, which a BLAS adds up as it likes; gradients magnify that.
        share = 5e-6 if number < 3 else 1e-4
        assert np.abs(one - other).max() <= share * np.abs(other).max()


@pytest.mark.usefixtures("compiling")
def test_compiled_adapters_equal_plain_passes(language: Policy) -> None:
    assert_same_as_plain(language)


@pytest.mark.usefixtures("compiling")
def test_compiled_whole_model_equals_plain_passes(reversal: ModuleType) -> None:
    import mlx.core as mx
    from mlx.utils import tree_map

    mx.random.seed(1)
    policy = reversal.Reversal(longest=64)
    policy.model.update(tree_map(lambda one: one + 0.02, policy.model.trainable_parameters()))
    assert_same_as_plain(policy)


@pytest.mark.usefixtures("compiling")
def test_call_uses_current_weights_and_keeps_them(reversal: ModuleType) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_map

    mx.random.seed(1)
    policy, given = reversal.policy(seed=1), packed()
    forward = Forward(policy, 1.0, compile=True)
    first = forward.logp(given)
    before, _ = squares(forward, given, 1)
    policy.model.update(tree_map(lambda one: one * 1.5, policy.model.trainable_parameters()))
    assert np.abs(forward.logp(given) - first).max() > 1e-3
    assert squares(forward, given, 1)[0] != pytest.approx(before, rel=1e-3)
    assert all(np.isfinite(np.array(one)).all() for _, one in tree_flatten(policy.model.parameters()))
    there = [one for _, one in tree_flatten(policy.model.parameters())]
    squares(forward, given, 1)
    assert all(map(is_, there, (one for _, one in tree_flatten(policy.model.parameters()))))


@pytest.mark.usefixtures("compiling")
def test_similar_lengths_share_a_trace(reversal: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, traced = reversal.Reversal(longest=64), list[tuple[int, ...]]()
    body = policy.body

    def counted(tokens: Any, cache: Any = None) -> Any:
        traced.append(tokens.shape)
        return body(tokens, cache)

    monkeypatch.setattr(policy, "body", counted)
    forward = Forward(policy, 1.0, compile=True)
    forward.chunk_rows()
    traced.clear()
    for length in range(40, 49):
        forward.logp(packed(rows=2, length=length, width=48))
    assert 0 < len(traced) < 9
    assert {shape[1] for shape in traced} <= {40, 42, 44, 46, 48}


@pytest.mark.usefixtures("compiling")
def test_a_draw_says_what_an_uncompiled_one_says(language: Policy) -> None:
    import mlx.core as mx

    asked: dict[str, Any] = {"temperature": 0.8, "rows": 4, "seed": 3, "compile": True}
    compiled = generate_turns(language, [[1, 2, 3]] * 4, [6] * 4, **asked)
    mx.disable_compile()
    plain = generate_turns(language, [[1, 2, 3]] * 4, [6] * 4, **asked)
    for one, other in zip(compiled, plain, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        np.testing.assert_allclose(one.logp, other.logp, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one.entropy, other.entropy, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("compiling")
def test_positions_are_traced_once_with_current_weights(reversal: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx
    from mlx.utils import tree_map

    policy, traced = reversal.policy(seed=1), list[tuple[int, ...]]()
    body = policy.body
    monkeypatch.setattr(
        policy, "body", lambda tokens, cache=None: (traced.append(tokens.shape), body(tokens, cache))[1]
    )
    contexts, decoder = [[1, 2, 3, 8], [4, 5, 6, 8]] * 3, Decoder(policy, 0.8, compile=True, places=True)

    def drawn() -> list[Turn]:
        found: dict[int, Turn] = {}
        asks = [TurnRequest(row, context, 4, rollout_key(3, row)) for row, context in enumerate(contexts)]
        Generation(decoder, 6)(asks, lambda ask, turn: found.update({ask.rollout: turn}))
        return [found[row] for row in range(6)]

    assert not decoder.ragged  # its caches have nothing to count by
    traced.clear()
    said = [drawn() for _ in range(2)]
    assert traced == [(1, 1), (2, 4), (6, 1), (6, 1), (6, 1)]  # the first to see what its caches hold
    policy.model.update(tree_map(lambda one: one * 1.5, policy.model.trainable_parameters()))
    said.append(drawn())
    assert len(traced) == 5
    mx.disable_compile()
    plain = generate_turns(policy, contexts, [4] * 6, temperature=0.8, rows=6, seed=3)
    for first, again, later, one in zip(*said, plain, strict=True):
        assert first.tokens.tolist() == again.tokens.tolist()
        assert later.tokens.tolist() == one.tokens.tolist()
        np.testing.assert_allclose(later.logp, one.logp, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(later.entropy, one.entropy, rtol=1e-5, atol=1e-6)


class Counting:
    """A cache that counts by what all of its kind begin with, and keeps nothing of it until it is used."""

    offset, keys, values = 0, None, None

    def update(self, keys: Any, values: Any) -> Any:
        import mlx.core as mx

        self.offset += keys.shape[2]
        if self.keys is not None:
            keys, values = (mx.concatenate(pair, axis=2) for pair in ((self.keys, keys), (self.values, values)))
        self.keys, self.values = keys, values
        return keys, values


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("other", ["counts", "one is never used"])
def test_caches_of_another_kind_are_not_compiled(
    reversal: ModuleType, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    policy = reversal.policy(seed=1)
    assert Decoder(policy, 1.0, compile=True, places=True)._whole
    assert not Decoder(policy, 1.0, compile=True)._whole
    if other == "counts":
        monkeypatch.setattr(policy, "caches", lambda: [Counting() for _ in policy.model.blocks])
    else:
        monkeypatch.setattr(policy, "caches", lambda: [reversal.Cache() for _ in range(len(policy.model.blocks) + 1)])
    assert not Decoder(policy, 1.0, compile=True, places=True)._whole


def test_positions_are_compiled_where_they_repeat(online: Callable[..., Online], reversal: ModuleType) -> None:
    policy = reversal.policy(seed=1)
    alike = [Prompt(str(n), n, ({"role": "user", "content": f"{n} 2"},)) for n in range(3)]
    longer = Prompt("3", 3, ({"role": "user", "content": "1 2 3"},))
    whole = lambda prompts, **over: parts.build_decoder(online(**{"compile": True} | over), policy, prompts)._whole  # noqa: E731
    assert whole(alike)
    assert not whole([*alike, longer])
    assert not whole(alike, max_tokens=parts.SHORT_TOKENS + 1)
    assert not whole(alike, compile=False)


@pytest.mark.usefixtures("compiling")
def test_a_model_that_a_pass_changes_is_refused() -> None:
    import mlx.core as mx
    import mlx.nn as nn

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = nn.Linear(2, 2), mx.array(0.0)
            self.freeze(keys="seen", recurse=False)

        def __call__(self, x: Any) -> Any:
            self.seen = self.seen + 1
            return self.layer(x)

    model = Counted()
    with pytest.raises(ModelError, match=r"changes seen of the model.*compile cannot be true"):
        CompiledModel(model, on=True)(lambda x: model(x))(mx.ones((1, 2)))


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize(("name", "epochs"), [("grpo", 1), ("sampo", 2), ("tpo", 1), ("flowrl", 1)])
def test_a_run_learns_what_an_uncompiled_one_learns(online: Callable[..., Online], name: str, epochs: int) -> None:
    asked = {"rounds": 2, "recipe": name, "epochs": epochs}
    runs = [online(compile=compile, out=f"{online().out}-{compile}", **asked) for compile in (True, False)]
    for settings in runs:
        rl(settings)
    compiled, plain = ([*map(numbers, lines(f"{one.out}/metrics.jsonl"))] for one in runs)
    assert [one.keys() for one in compiled] == [one.keys() for one in plain]
    for one, other in zip(compiled, plain, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4)


@pytest.mark.usefixtures("compiling")
def test_resumed_compiled_run_has_the_same_bytes(online: Callable[..., Online]) -> None:
    asked = {"compile": True, "save_every": 1}
    whole, parts = (f"{online().out}-{name}" for name in ("whole", "parts"))
    rl(online(rounds=3, out=whole, **asked))
    rl(online(rounds=1, out=parts, **asked))
    rl(online(rounds=3, out=parts, **asked), resume=True)
    for name in ("rollouts.jsonl", "adapters.safetensors"):
        assert Path(whole, name).read_bytes() == Path(parts, name).read_bytes()


def numbers(line: dict[str, Any]) -> dict[str, float]:
    """What a round learned, without what it took."""
    return {name: value for name, value in line.items() if name in ("loss", "grad_norm", "kl", "entropy", "reward")}


@pytest.mark.usefixtures("compiling")
def test_traces_are_not_kept_without_end() -> None:
    import mlx.core as mx
    import mlx.nn as nn

    compiled = CompiledModel(nn.Linear(2, 2), on=True)
    first = compiled(scaled, 2.0)
    for size in range(1, MOST_TRACES + 3):
        assert compiled(scaled, 2.0)(mx.ones(size)).tolist() == [2.0] * size
    assert compiled(scaled, 2.0) is not first


def test_sizes_are_rounded_by_at_most_a_sixteenth() -> None:
    sizes = np.arange(1, 5000)
    found = np.array([round_size(int(size)) for size in sizes])
    assert (found >= sizes).all()
    assert (found <= sizes * 17 / 16).all()
    assert found[:32].tolist() == sizes[:32].tolist()
    assert len({size for size in found.tolist() if 1024 < size <= 2048}) == 16
    assert [round_size(size) for size in found.tolist()] == found.tolist()
    assert round_size(0) == 0


def test_other_arguments_have_their_own_function() -> None:
    import mlx.core as mx
    import mlx.nn as nn

    compiled = CompiledModel(nn.Linear(2, 2), on=True)
    double, half = compiled(scaled, 2.0), compiled(scaled, 0.5)
    assert compiled(scaled, 2.0) is double
    assert (double(mx.array(3.0)).item(), half(mx.array(3.0)).item()) == (6.0, 1.5)


def scaled(factor: float, value: Any) -> Any:
    """A product."""
    return factor * value
