"""Recipes that are policy gradients: each a diff from a neighbour, each constant with its source on the line."""

from karl_fast.objective.axes.advantage import (
    Anchored,
    BestOfK,
    Centre,
    Given,
    GroupDecoupled,
    LeaveOneOut,
    MeanScaled,
    Raw,
    Whitened,
    ZScore,
)
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import (
    Cap,
    Clip,
    Delight,
    Flip,
    GeometricClip,
    NoClip,
    ProbabilityBand,
    ProbabilityMask,
    SoftGate,
    VariancePenalty,
)
from karl_fast.objective.axes.correction import NoCorrection, RolloutAnchor
from karl_fast.objective.axes.entropy import NoEntropy
from karl_fast.objective.axes.filter import Both, DropConstantGroups, DropTruncated, KeepAll, MixedGroups
from karl_fast.objective.axes.kl import K3, DriftPenalty, K1InReward, K1PerToken, NoKL
from karl_fast.objective.axes.kondo_gate import Gated
from karl_fast.objective.axes.labels import NoLabels
from karl_fast.objective.axes.ratio import OnPolicy, SequenceRatio, SequenceTokenRatio, TokenRatio
from karl_fast.objective.axes.set_score import BestCandidate, SetScore
from karl_fast.objective.axes.tree import TreeCalls, TreeTokens
from karl_fast.objective.families.policy_gradient import PolicyGradient
from karl_fast.objective.recipe_type import Recipe

REINFORCE = Recipe.of(
    "REINFORCE",
    PolicyGradient,
    "Williams 1992",
    filter=(KeepAll(), "[paper]"),
    advantage=(Raw(), "no baseline [paper]"),
    ratio=(OnPolicy(), "[paper]"),
    clip=(NoClip(), "[paper]"),
    kl=(NoKL(), "[paper]"),
    entropy=(NoEntropy(), "[paper]"),
    correction=(NoCorrection(), "none in the paper; `rl` takes one where arithmetics differ [ours]"),
    labels=(NoLabels(), "[paper]"),
    tree=(TreeTokens(), "one rollout in the paper; a tree counts as one [ours]"),
    aggregate=(SequenceSum(), "the log-probability of the whole rollout [paper]"),
)

RLOO = REINFORCE.but(
    "RLOO",
    "Ahmadian et al. 2024 (arXiv:2402.14740)",
    advantage=(LeaveOneOut(), "[paper]"),
    kl=(K1InReward(0.05), "in the reward [paper]; 0.05: beta, rloo_config.py:495 of TRL @f2cd577 [code]"),
)

PASS_AT_K = REINFORCE.but(
    "PassAtK",
    "Tang et al. 2025 (arXiv:2503.19595)",
    advantage=(BestOfK(4), "best of k less the best of the others [paper]; k 4 of any group [ours]"),
)

MAXRL = REINFORCE.but(
    "MaxRL",
    "arXiv:2602.02710",
    advantage=(MeanScaled(1e-8), "eps 1e-8 in rl-experiments [code]"),
)

DG = REINFORCE.but(
    "DG",
    "Osband 2026 (arXiv:2603.14608)",
    advantage=(Centre(), "a baseline [note]; of the group [ours]"),
    clip=(Delight(1.0), "eta 1 in rl-experiments [code]"),
    aggregate=(TokenMean(), "rl-experiments [code]"),
)

KONDO = DG.but(
    "Kondo gate",
    "arXiv:2603.20526",
    advantage=(
        Gated(Centre(), keep=0.5, temperature=1.0),
        "keep_ratio 0.5 in rl-experiments @daf350a, whose mean is of what is kept [code]; of all tokens [ours]",
    ),
)

PPO_CLIP = Recipe.of(
    "PPO-clip",
    PolicyGradient,
    "Schulman et al. 2017 (arXiv:1707.06347)",
    filter=(KeepAll(), "[paper]"),
    advantage=(Given(), "of a critic [paper]"),
    ratio=(TokenRatio(), "an action is a token [ours]"),
    clip=(Clip(0.2, 0.2), "epsilon 0.2 [paper]"),
    kl=(NoKL(), "[paper]"),
    entropy=(NoEntropy(), "eq. 9 has a bonus, without a number; none in verl and TRL [code]"),
    correction=(NoCorrection(), "none in the paper; `rl` takes one where arithmetics differ [ours]"),
    labels=(NoLabels(), "[paper]"),
    tree=(TreeTokens(), "one rollout in the paper; a tree counts as one [ours]"),
    aggregate=(TokenMean(), "the mean over time steps [paper]"),
)

REINFORCE_PLUS_PLUS = PPO_CLIP.but(
    "REINFORCE++",
    "Hu et al. 2025 (arXiv:2501.03262)",
    advantage=(
        Whitened(1.0, ddof=1, eps=1e-8),
        "over all tokens [paper]; ddof and eps of verl @b178a3c [code]",
    ),
    kl=(
        K1PerToken(0.01),
        "of each token [paper]; 0.01: kl.init_coef, train_ppo_ray.py:419, OpenRLHF @3c3be62 [code]",
    ),
)

GRPO = Recipe.of(
    "GRPO",
    PolicyGradient,
    "Shao et al. 2024 (arXiv:2402.03300)",
    filter=(KeepAll(), "[paper]"),
    advantage=(
        ZScore(ddof=1, eps=1e-6),
        "[paper]; ddof and eps of verl core_algos.py:267 @b178a3c [code]",
    ),
    ratio=(TokenRatio(), "eq. 3 [paper]"),
    clip=(Clip(0.2, 0.2), "eq. 3 [paper], without a number; 0.2 is the default of verl and TRL [code]"),
    kl=(K3(0.04), "eq. 4, section 4.2: 0.04 [paper]"),
    entropy=(NoEntropy(), "[paper]"),
    correction=(NoCorrection(), "none in the paper; `rl` takes one where arithmetics differ [ours]"),
    labels=(NoLabels(), "[paper]"),
    tree=(TreeTokens(), "one rollout in the paper; a tree counts as one [ours]"),
    aggregate=(SequenceMean(), "1/|o_i| within the mean over i, eq. 3 [paper]"),
)

DR_GRPO = GRPO.but(
    "Dr. GRPO",
    "Liu et al. 2025 (arXiv:2503.20783)",
    advantage=(Centre(), "no division by the deviation [paper]"),
    kl=(NoKL(), "[paper]"),
    aggregate=(ConstantLength(3000), "a constant [paper]; generate_max_length 3000 of understand-r1-zero [code]"),
)

DAPO = GRPO.but(
    "DAPO",
    "Yu et al. 2025 (arXiv:2503.14476)",
    filter=(Both(DropConstantGroups(), DropTruncated()), "eq. 11 and section 3.4 [paper]"),
    clip=(Clip(0.2, 0.28), "section 4.1: 0.2 and 0.28 [paper]"),
    kl=(NoKL(), "section 2.3 [paper]"),
    aggregate=(TokenMean(), "eq. 12 [paper]; over the batch as in verl [code]"),
)

CISPO = DAPO.but(
    "CISPO",
    "MiniMax 2025 (arXiv:2506.13585)",
    clip=(Cap(5.0), "one-sided [paper]; a cap of 4 to 8 in ScaleRL (arXiv:2510.13786) [paper], 5 in TRL [code]"),
)

ASPO = DAPO.but(
    "ASPO",
    "arXiv:2510.06062",
    clip=(Flip(0.2, 0.28, bound=3.0), "mask, flip, soft dual clip [note]; 3 is verl's dual clip [code]"),
)

GSPO = GRPO.but(
    "GSPO",
    "Zheng et al. 2025 (arXiv:2507.18071)",
    ratio=(SequenceRatio(), "the geometric mean [paper]"),
    clip=(Clip(3e-4, 4e-4), "3e-4 and 4e-4 [paper]"),
    kl=(NoKL(), "[paper]"),
)

GSPO_TOKEN = GSPO.but(
    "GSPO-token",
    "Zheng et al. 2025 (arXiv:2507.18071), section 4.3",
    ratio=(SequenceTokenRatio(), "[paper]"),
)

SAMPO = GSPO.but(
    "SAMPO",
    "ARLArena 2026 (arXiv:2602.21534)",
    filter=(MixedGroups(), "0 < correct < G, eq. 8 [paper]"),
    advantage=(Anchored(1.0, gamma=0.95, ddof=1, eps=1e-6), "table S1: omega 1, gamma 0.95 [paper]; ddof, eps [code]"),
    clip=(Clip(3e-3, 4e-3), "table S1 (ALFWorld, Sokoban, TIR; WebShop has 3e-2 and 4e-2) [paper]"),
    kl=(K3(0.01), "k3, 0.01 (TIR 0), table S1 [paper]"),
    aggregate=(TokenMean(), "eq. 8 [paper]"),
)

SAPO = GRPO.but(
    "SAPO",
    "arXiv:2511.20347",
    clip=(SoftGate(1.0, 1.05), "tau 1.0 and 1.05 in TRL and verl [code]"),
    kl=(NoKL(), "[note]"),
)

GMPO = GRPO.but(
    "GMPO",
    "Zhao et al. 2025 (arXiv:2507.20673)",
    clip=(GeometricClip(0.4, 0.4), "(e^-0.4, e^0.4) [paper]"),
    kl=(NoKL(), "[note]"),
)

R2VPO = GRPO.but(
    "R2VPO",
    "arXiv:2601.03320",
    clip=(VariancePenalty(0.04), "adaptive in the paper [note]; 0.04 is the class default of rl-experiments [code]"),
    kl=(NoKL(), "[note]"),
)

RLM_GRPO = GRPO.but(
    "RLM-GRPO",
    "rl-experiments @667c1a8, rlm_grpo",
    advantage=(ZScore(ddof=0, eps=1e-8), "of the roots of a group; ddof 0, eps 1e-8 [code]"),
    kl=(K3(0.01), "0.01 [code]"),
    tree=(TreeCalls(), "all segments of the root as much as all segments of its children [code]"),
)

VPO = GRPO.but(
    "VPO",
    "arXiv:2605.22817",
    advantage=(SetScore(ZScore(ddof=0, eps=1e-8), samples=16), "K 16, ddof 0, eps 1e-8 in vpo_sandbox @2c9e417 [code]"),
    kl=(NoKL(), "vpo_sandbox [code]"),
)

MULTI_RLVR = VPO.but(
    "MultiRLVR",
    "rl-experiments @2c9e417, vpo_sandbox: baseline of VPO",
    advantage=(BestCandidate(ZScore(ddof=0, eps=1e-8)), "the best candidate by the weighted reward [code]"),
)

GDPO = GRPO.but(
    "GDPO",
    "GDPO 2026 (arXiv:2601.05242)",
    advantage=(
        GroupDecoupled(ddof=1, eps=1e-4),
        "each reward in its group, then the sum over the batch [paper]; ddof [ours]",
    ),
)

DPPO = GRPO.but(
    "DPPO",
    "Qi et al. 2026 (arXiv:2602.04879)",
    clip=(
        ProbabilityMask(0.2, 0.2, ceiling=20.0),
        "binary total variation [paper]; 0.2 and 0.2 of prime-rl's dppo_mask, 20 of verl's dppo_tv [code]",
    ),
    correction=(RolloutAnchor(), "the policy that drew, not a recomputed one [paper]"),
    kl=(NoKL(), "the mask is the trust region [paper]"),
    aggregate=(TokenMean(), "over the batch [ours]"),
)

IPO = DPPO.but(
    "IPO",
    "prime-rl, loss ipo",
    advantage=(Centre(), "reward less the mean of its group [code]"),
    clip=(ProbabilityBand(0.3), "eps 0.3 [code]"),
    kl=(DriftPenalty(1e-3), "kl_tau 1e-3 [code], the square of K2.5 (arXiv:2602.02276) [paper]"),
)
