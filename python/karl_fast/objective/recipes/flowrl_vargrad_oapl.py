"""Recipes that are balances: FlowRL and its variants, and the off-policy regressions."""

from karl_fast.objective.axes.advantage import Raw, ZScore
from karl_fast.objective.axes.balance import (
    AllTokens,
    BehaviourPolicy,
    InverseTemperature,
    ProductWeight,
    ReferencePolicy,
    RewardUnits,
    Squared,
    Temperature,
    TokenDrift,
    TokenMeanLength,
    TokenSumLength,
    Unweighted,
)
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.log_z import GroupOptimum, Learned, SoftValue
from karl_fast.objective.families.trajectory_balance import TrajectoryBalance
from karl_fast.objective.recipe_type import Recipe

FLOWRL = Recipe.of(
    "FlowRL",
    TrajectoryBalance,
    "Zhu et al. 2025 (arXiv:2509.15207)",
    filter=(KeepAll(), "[paper]"),
    reward=(ZScore(ddof=1, eps=1e-6), "standardised within the group [paper]; ddof and eps of verl [code]"),
    anchor=(ReferencePolicy(), "[paper]"),
    length=(TokenMeanLength(), "1/|y| on both log-probabilities [paper]"),
    scale=(InverseTemperature(15.0), "beta 15 [paper]"),
    log_z=(Learned(), "three layers on the mean hidden state of the prompt [paper]"),
    regression=(Squared(), "[paper]"),
    tokens=(AllTokens(), "[paper]"),
    weight=(ProductWeight(0.8, 1.2), "clip(w, 1 - 0.2, 1 + 0.2), detached [paper]"),
)

FLOWRL_RELEASED = FLOWRL.but(
    "FlowRL released",
    "Xuekai-Zhu/FlowRL @decbc57",
    weight=(ProductWeight(), "the clipped weight is computed and not used, dp_actor.py:573-577 [code]"),
)

FLOWRL_UPSTREAM = FLOWRL.but(
    "FlowRL upstream",
    "verl pull request 4397, Xuekai-Zhu/verl_FlowRL @6ea5d18",
    weight=(ProductWeight(0.0, 10.0), "clamp(max=10) [code]"),
)

FLOWRL_CISPO = FLOWRL.but(
    "FlowRL CISPO",
    "Xuekai-Zhu/verl_FlowRL @c577a0c, flowrl_actor.py:447-529",
    tokens=(TokenDrift(0.2, 0.28), "drops ratio > 1.28 with A > 0 and ratio < 0.8 with A < 0 [code]"),
    weight=(ProductWeight(0.8, 1.28), "clamp(0.8, 1.28) over the tokens that are left [code]"),
)

FLOWRL_VARGRAD = FLOWRL.but(
    "FlowRL VarGrad",
    "Zhang et al. 2023 (arXiv:2302.05446), of FlowRL's residual",
    log_z=(GroupOptimum(), "the optimum of the group in place of a head [paper]"),
)

REWARD_BALANCE = FLOWRL_VARGRAD.but(
    "Reward balance",
    "ours, to keep several right answers: docs/lab/modes.md",
    reward=(Raw(), "as it is: a standardised reward moves the target with the group [ours]"),
    length=(TokenSumLength(), "the target is of whole answers [ours]"),
    scale=(
        InverseTemperature(6.0),
        "for rewards in [0, 1]: a right answer is 400 times as likely as a wrong one [ours]",
    ),
    weight=(Unweighted(), "replayed rollouts need none: the balance holds for any [ours]"),
)

PACED = FLOWRL.but(
    "PACED",
    "PACED-RL 2026 (arXiv:2602.12642)",
    reward=(Raw(), "0 or 1, as it is [note]"),
    anchor=(BehaviourPolicy(), "[note]"),
    length=(TokenSumLength(), "[note]"),
    scale=(Temperature(0.05), "beta 0.05 divides [note]"),
    weight=(Unweighted(), "[note]"),
)

OAPL = PACED.but(
    "OAPL",
    "Ritter et al. 2026 (arXiv:2602.19362)",
    scale=(RewardUnits(1.0), "beta log ratio - (r - V) [note]; 1 [ours], to be set to the spread of the reward"),
    log_z=(SoftValue(1.0), "beta log mean exp(r / beta) [note]; the same beta"),
)

PMD_MEAN = OAPL.but(
    "PMD-mean",
    "Kimi k1.5 2025 (arXiv:2501.12599)",
    log_z=(SoftValue(float("inf")), "the mean reward [paper]"),
)

A_STAR_PO = OAPL.but(
    "A*PO",
    "Brantley et al. 2025 (arXiv:2505.20686)",
    anchor=(ReferencePolicy(), "[note]"),
    scale=(RewardUnits(1e-3), "beta2 1e-3 in A-PO @c8823a3 [code]"),
    log_z=(SoftValue(0.5), "beta1 0.5 [code], there over 8 rollouts of the reference policy, here over the group"),
)
