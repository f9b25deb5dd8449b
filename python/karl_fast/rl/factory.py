"""The parts of a run, each made from its settings and checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _seen_hashes
from karl_fast._safe_text import told
from karl_fast._user_code import function, within
from karl_fast.errors import TemplateError, UsageError
from karl_fast.modeling import adapters, load, optimizer
from karl_fast.modeling.checkpoint import Checkpoints
from karl_fast.reward.engine.records import overrides
from karl_fast.reward.functions import Function
from karl_fast.rl.run_dir import adapter_weights, hash_inputs
from karl_fast.rl.collect_rollouts import Collector, Sampling
from karl_fast.rl.config import load_recipe
from karl_fast.rl.episode import RolloutBudget
from karl_fast.rl.held_out import HeldOut
from karl_fast.rl.language_model import LanguageModel, Snapshot
from karl_fast.rl.learner import PolicyLearner
from karl_fast.rl.log_z_trainer import Partition, learns_log_z
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.next_token import Decoder
from karl_fast.rl.prepare_batch import Passes
from karl_fast.rl.rewards import ENVIRONMENT, RewardFunctions, Weighted
from karl_fast.rl.settings import Online
from karl_fast.train.settings import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.objective import Recipe
    from karl_fast.objective.base import Objective
    from karl_fast.reward.scorer import Scorer
    from karl_fast.rl.environment import Environment
    from karl_fast.rl.memory import Sizes
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.rollout import Prompt


def build_recipe(settings: Online) -> Recipe:
    """Return the recipe, if rollouts suffice for it."""
    found = load_recipe(settings.recipe)
    for why, hint in _unavailable_inputs(found.objective):
        raise UsageError(f"{found.name} {why}", "recipe", hint=hint)
    if settings.group_size == 1 and any(point.of_groups for point in found.objective.axes().values()):
        why = f"group_size is 1, and {found.name} compares the rollouts of a group"
        raise UsageError(
            why, "group_size", "recipe", hint="with 2 or more a rollout has others to be better than; 8 is the default"
        )
    return found


def _unavailable_inputs(objective: Objective) -> Iterator[tuple[str, str]]:
    """Yield inputs of an objective that this loop does not provide, each with an alternative."""
    from karl_fast.objective import WeightedLikelihood
    from karl_fast.objective.axes.advantage import Given
    from karl_fast.objective.axes.set_score import SetScore

    kinds = {type(point) for point in objective.axes().values()}
    if isinstance(objective, WeightedLikelihood):
        yield "learns from logged rows", "it is a recipe of karl-fast train"
    if Given in kinds:
        yield (
            "takes the advantages of a critic, which this loop does not train",
            "reinforce-plus-plus has the same ratio, clip and mean, and advantages of rewards alone; grpo those of a "
            "group",
        )
    if SetScore in kinds:
        yield (
            "learns from rollouts that are sets of candidates with a vector of rewards each; here a rollout is one "
            "candidate, with one reward",
            "grpo learns from the weighted sum of several rewards",
        )


def build_environment(settings: Online, began: Path) -> Callable[[], Environment] | None:
    """Return a function that makes an environment for each rollout."""
    return None if settings.environment is None else _load_function(settings.environment, began)


def _load_function(place: str, began: Path) -> Callable[..., Any]:
    """Load a function by its name, relative to where the run began: the file of another may have left that folder."""
    with within(began):
        return function(place)


def build_reward_functions(settings: Online, began: Path) -> RewardFunctions:
    """Return the reward functions with their weights, and the environment's reward."""
    functions = [Weighted(_component_name(name), _load_scorer(name, began), weight) for name, weight in settings.rewards.items()]
    if not functions and settings.environment is None:
        raise UsageError("rewards names no function, and there is no environment", "rewards", "environment")
    names = [one.name for one in functions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"rewards names two functions {twice}: a component needs a name of its own", "rewards")
    there = [*names, *([ENVIRONMENT] if settings.environment is not None else [])]
    if settings.outcome is not None and settings.outcome not in there:
        raise UsageError(f"outcome is {settings.outcome!r}, wanted one of {', '.join(there)}", "outcome")
    return RewardFunctions(
        functions,
        timeout_seconds=settings.timeout_seconds,
        environment=None if settings.environment is None else settings.environment_weight,
        outcome=settings.outcome,
    )


def _load_scorer(named: str, began: Path) -> Scorer:
    """Return a reward function by its name, or a built-in signal.

    Raises:
        UsageError: it names neither.
    """
    try:
        with within(began):
            return Function.of(named).call
    except UsageError as error:
        raise UsageError(f"rewards: {error}", "rewards", hint=error.hint) from error


def _component_name(place: str) -> str:
    """Return the name of a component: the function's without its file, or the signal's."""
    return place.rpartition(":")[2]


def load_policy(settings: Online) -> tuple[Policy, dict[str, Any]]:
    """Return the policy, and the configuration of its adapter."""
    import mlx.core as mx

    mx.set_cache_limit(int(settings.training.cache_limit * 1e9))
    mx.random.seed(settings.training.seed)
    if ".py:" in settings.model:
        if settings.adapter:
            raise UsageError(f"{settings.model} makes its own weights: adapter needs a model of mlx-lm", "adapter")
        if settings.kv_cache != "full":
            raise UsageError(f"{settings.model} makes its own caches: kv_cache needs a model of mlx-lm", "kv_cache")
        own = function(settings.model)(seed=settings.training.seed)
        own.model.eval()
        mx.eval(own.model.parameters())
        return own, {"fine_tune_type": "full", "model": settings.model}
    loaded = load.load(settings.model)
    config = load.adapt(loaded.model, settings.training)
    kept = _load_start_adapter(loaded.model, settings, config)
    loaded.model.eval()  # for good: dropout would make every ratio a matter of chance
    mx.eval(loaded.model.parameters())
    return LanguageModel(loaded, kept, eight_bits=settings.kv_cache == "8-bit"), config | {"model": settings.model}


def unadapted_experts(policy: Any, settings: Online, config: dict[str, Any]) -> str | None:
    """Return a remark on routed experts without an adapter; None where there are none."""
    if settings.training.lora_keys is not None:
        return None  # whoever names the layers knows which are left out
    return adapters.unadapted_experts(policy.model, config)


def _load_start_adapter(model: Any, settings: Online, config: dict[str, Any]) -> Snapshot | None:
    """Load the adapter that a run starts from; return the reference, None for the model without adapters."""
    base = Snapshot(model) if config["fine_tune_type"] == "full" else None
    if not settings.adapter:
        return base
    adapters.begin(model, adapter_weights(settings.adapter), config)
    return base if settings.reference == "base" else Snapshot(model)


def describe_start(settings: Online, config: dict[str, Any]) -> str | None:
    """Return the assumptions about an adapter without a configuration, if the run starts from one."""
    return adapters.unrecorded(adapter_weights(settings.adapter), config) if settings.adapter else None


def read_seen_hashes(settings: Online) -> _seen_hashes.Seen:
    """Return the hashes of what the adapter that a run starts from was trained on."""
    return (_seen_hashes.read(Path(settings.adapter)) if settings.adapter else None) or _seen_hashes.Seen()


def load_evaluated_policy(settings: Online, adapter: str | None) -> Policy:
    """Return the policy of a run with the weights of an adapter, or with those that it begins with, to be evaluated."""
    import mlx.core as mx

    from karl_fast.modeling.adapters import put

    mx.set_cache_limit(int(settings.training.cache_limit * 1e9))
    if ".py:" not in settings.model:
        loaded = load.load(settings.model, adapter or settings.adapter or None)
        loaded.model.eval()
        return LanguageModel(loaded)
    mx.random.seed(settings.training.seed)
    own: Policy = function(settings.model)(seed=settings.training.seed)
    if adapter is not None:
        put(own.model, Path(adapter))
    own.model.eval()
    mx.eval(own.model.parameters())
    return own


def prompt_length(policy: Policy, prompt: Prompt) -> int:
    """Return how many tokens a prompt has.

    Raises:
        TemplateError: the chat template does not take it.
    """
    try:
        return len(policy.encode(prompt.messages))
    except Exception as error:  # of a template
        raise TemplateError(f"the chat template does not take the prompt {prompt.id}: {told(error)}") from error


def build_learner(settings: Online, recipe: Recipe, policy: Policy) -> PolicyLearner:
    """Return the learner that takes the steps."""
    adam = optimizer.build(settings.training, fixed=policy.model if settings.compile else None)
    direction = recipe.objective.reads_divergence
    how: Any = {"divergence": direction, "segment_length": settings.training.segment_tokens}
    forward = Forward(policy, settings.temperature, compile=settings.compile, **how)
    adam.init(policy.model.trainable_parameters())
    passes = Passes(
        settings.epochs,
        settings.minibatches,
        settings.micro_batch,
        settings.training.max_grad_norm,
        reference=settings.alarms.kl_ceiling is not None,
    )
    return PolicyLearner(forward, recipe.objective, adam, passes, _build_partition(settings, recipe, policy))


def _build_partition(settings: Online, recipe: Recipe, policy: Policy) -> Partition | None:
    import mlx.core as mx

    if not learns_log_z(recipe):
        return None
    size = int(policy.body(mx.array([[0]])).shape[-1])
    return Partition(size, learning_rate=settings.log_z_learning_rate, seed=settings.training.seed)


def positions_remark(policy: Policy, settings: Online, sizes: Sizes) -> str | None:
    """Return a remark if rollouts may be longer than the model's positions, or `max_context` is.

    Raises:
        UsageError: the positions are learned, and rollouts may go beyond them.
    """
    known = getattr(policy, "positions", None)
    if known is None:
        return None
    # MLX gathers past the end of an embedding without an error.
    remark: str | None = known.remark("max_context", settings.max_context, Online.max_context, sizes.tokens)
    return remark


SHORT_TOKENS = 32
"""Maximum turn length for compiled positions: twice as many traces are kept, for full draws and remainders."""


def build_decoder(settings: Online, policy: Policy, prompts: Sequence[Prompt]) -> Decoder:
    """Return the decoder; compile whole positions if few occur each round: short answers to prompts of one length."""
    short = settings.compile and settings.max_tokens <= SHORT_TOKENS and settings.environment is None
    alike = short and len({len(policy.encode(prompt.messages)) for prompt in prompts}) == 1
    return Decoder(policy, settings.temperature, compile=settings.compile, places=alike)


def build_sampling(settings: Online) -> Sampling:
    """Return the settings of the generation of rollouts."""
    turn = settings.max_turn_tokens or settings.max_tokens
    budget = RolloutBudget(settings.max_tokens, settings.max_turns, settings.max_context, turn)
    return Sampling(
        settings.group_size,
        budget,
        settings.rollouts_in_flight,
        settings.timeout_seconds,
        settings.schedule == "overlap",
    )


def build_held_out(settings: Online, collector: Collector, prompts: list[Prompt]) -> HeldOut:
    """Return the evaluation of held-out prompts by the policy of a run."""
    temperature = settings.temperature if settings.eval_temperature is None else settings.eval_temperature
    attempts = replace(collector.sampling, group_size=settings.eval_attempts)
    own = replace(collector, decoder=Decoder(collector.policy, temperature), sampling=attempts)
    asked = json.dumps([[one.messages, dict(one.columns)] for one in prompts], default=str, sort_keys=True)
    identity = hashlib.sha256(f"{settings.eval_attempts} {temperature} {asked}".encode()).hexdigest()[:16]
    return HeldOut(own, prompts, settings.eval_every, settings.patience, settings.training.seed, identity)


def restore_settings(settings: Online, config: dict[str, Any]) -> Online:
    """Return the settings of a resumed run, with the length of segments that it found before in place of ``auto``."""
    before = Checkpoints(Path(settings.out), config, settings.training.keep).settings().get("segment_length")
    if settings.training.segment_length != AUTO or before is None:
        return settings
    return replace(settings, training=replace(settings.training, segment_length=before))


def run_identity(settings: Online, recipe: Recipe) -> dict[str, Any]:
    """Return the settings that a resumed run must share with the run before."""
    same = settings.to_dict() | {"axes": str(recipe)} | hash_inputs(settings)
    same |= overrides() if "karl-v1" in settings.rewards else {}
    return json.loads(json.dumps(same, default=str))  # type: ignore[no-any-return]
