"""Recipes of a laboratory of update rules, rl-experiments: importance-weighted gradients, gated ones, token credit.

The baseline there is the expected reward where a task knows it, else the probability of a repeated draw
(``sum_a pi(a)^2``); here it is the mean of the group, as in `DG`. Constants are those of its file
``rl_sandbox/losses.py`` @daf350a. The rules CE and ReplayDG are other recipes on other data: the page of objectives
lists them.
"""

from karl_fast.objective.axes.advantage import (
    AllActions,
    Centre,
    Damped,
    ExpectedBaseline,
    PrefixTree,
    RemainingMean,
    TokenCentre,
    ZScore,
)
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, FreshDelight, GuardedDelight, InverseProbability, UncertainDelight
from karl_fast.objective.axes.filter import DropConstantGroups, KeepAll, MaxDeviation
from karl_fast.objective.axes.kl import K3
from karl_fast.objective.axes.labels import GatedLabels, SuffixLabels
from karl_fast.objective.axes.ratio import SequenceProduct, TokenRatio
from karl_fast.objective.families.target_policy import Tilted
from karl_fast.objective.families.token_candidates import DrawnTokens, TokenGradients, TokenTargets
from karl_fast.objective.recipe_type import Recipe
from karl_fast.objective.recipes.grpo_gspo_dapo_sampo import DAPO, DG, GRPO, REINFORCE

PG = REINFORCE.but(
    "PG",
    "rl-experiments, importance-weighted policy gradient",
    advantage=(Centre(), "a baseline [code]; of the group [ours]"),
    ratio=(TokenRatio(), "each token its own, an approximation on sequences [code]"),
    clip=(Cap(10.0), "iw_cap 10, detached [code]"),
    aggregate=(TokenMean(), "[code]"),
)

TRAJ_PG = PG.but(
    "TrajPG",
    "rl-experiments, importance-weighted policy gradient of trajectories",
    ratio=(SequenceProduct(), "the product over the rollout, exact below the cap [code]"),
)

GROUP_PG = REINFORCE.but(
    "GroupPG",
    "rl-experiments, ablation of TPO (arXiv:2604.06159)",
    advantage=(ZScore(ddof=0, eps=1e-6), "TPO's score; 1e-6 is the least deviation there [code], added here [ours]"),
)

TPO_FULL_ACTION = GROUP_PG.but(
    "TPOFullAction",
    "rl-experiments, TPO (arXiv:2604.06159) of a bandit",
    advantage=(AllActions(Centre(), actions=10), "10 actions, eta 1, less a baseline [code]; of the group [ours]"),
)

GRPO_RL_EXPERIMENTS = GRPO.but(
    "GRPO rl-experiments",
    "rl-experiments, after the baseline of TPO (arXiv:2604.06159)",
    advantage=(ZScore(ddof=0, eps=1e-8), "[code]"),
    aggregate=(TokenMean(), "[code]"),
)

TPO_TOKEN = Recipe.of(
    "TPOToken",
    TokenTargets,
    "rl-experiments, TPO (arXiv:2604.06159) of the tokens after each prefix",
    filter=(KeepAll(), "[code]"),
    draw=(DrawnTokens(8), "as many as rollouts of a group, 8 in its runs [code]"),
    target=(Tilted(1.0), "of the rewards of the tokens, ddof 0, eta 1 [code]"),
)

GRPO_TOKEN = Recipe.of(
    "GRPOToken",
    TokenGradients,
    "rl-experiments, GRPO of the tokens after each prefix",
    filter=(KeepAll(), "[code]"),
    draw=(DrawnTokens(8), "as many as rollouts of a group, 8 in its runs [code]"),
    advantage=(ZScore(ddof=0, eps=1e-8), "[code]"),
    clip=(Clip(0.2, 0.2), "[code]"),
    kl=(K3(0.04), "of the policy that drew [code]"),
)

DAPO_LITE = DAPO.but(
    "DAPOLite",
    "rl-experiments, of Yu et al. 2025 (arXiv:2503.14476)",
    filter=(DropConstantGroups(), "mixed groups are drawn; nothing is cut, so nothing is dropped for it [code]"),
    advantage=(ZScore(ddof=0, eps=1e-8), "[code]"),
)

FRESH_DG = DG.but(
    "FreshDG",
    "rl-experiments, DG of replayed rollouts",
    clip=(FreshDelight(1.0, decay=0.02), "eta 1, age_decay 0.02; of the batch [code], of each rollout [ours]"),
)

DG_ENTROPY_GUARD = DG.but(
    "DGEntropyGuard",
    "rl-experiments",
    clip=(GuardedDelight(1.0, strength=0.5), "guard_strength 0.5; less 1 / vocabulary [code], which is 0 here [ours]"),
)

UNCERTAINTY_DG = DG.but(
    "UncertaintyDG",
    "rl-experiments",
    clip=(UncertainDelight(1.0, scale=1.0), "eta 1, uncertainty_scale 1 [code]"),
)

FILTERED_DG = DG.but(
    "FilteredDG",
    "rl-experiments",
    filter=(MaxDeviation(0.5), "uncertainty_threshold 0.5 [code]; outcomes in [0, 1] never deviate by more"),
)

REWARD_VARIANCE_DG = DG.but(
    "RewardVarianceDG",
    "rl-experiments",
    advantage=(Damped(Centre(), scale=1.0), "variance_scale 1, of the standard deviation [code]"),
)

DG_TOKEN = DG.but(
    "DGToken",
    "rl-experiments",
    advantage=(
        RemainingMean(),
        "the share of right tokens among those to come [code]; less the group's [ours]",
    ),
)

DG_EXPECTED = DG.but(
    "DG expected",
    "rl-experiments, of Osband 2026 (arXiv:2603.14608)",
    advantage=(ExpectedBaseline(), "the expected reward, where the task knows it [code]"),
)

SELF_DISTILL_DG = DG.but(
    "SelfDistillDG",
    "rl-experiments",
    advantage=(TokenCentre(), "1 for a right token [code]; less the group's [ours]"),
    labels=(GatedLabels(0.5, 1.0), "alpha 0.5, eta 1 [code]"),
)

SCOPE_LITE = DG.but(
    "SCOPELite",
    "rl-experiments",
    labels=(SuffixLabels(0.5), "alpha 0.5 [code]"),
)

LOG_GROWTH = DG.but(
    "LogGrowth",
    "rl-experiments, for rewards of 0 and 1 and answers of one token",
    clip=(InverseProbability(), "1 / pi for a success, 1 elsewhere [code]"),
)

TEMPO = PG.but(
    "TEMPO",
    "arXiv:2509.18314",
    advantage=(PrefixTree(1e-8), "of the tree of prefixes [paper]; 0 for a deviation under 1e-8 [code]"),
)
