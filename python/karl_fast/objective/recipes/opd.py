"""Recipes of on-policy distillation: a teacher's distribution at the tokens that the policy draws.

With the policy itself as the teacher, and a demonstration or a correction in the teacher's prompt, they are
self-distillation: `OPD_FORWARD_KL` is then SDFT (arXiv:2601.19897), as the documentation of tinker-cookbook states its
loss.
"""

from karl_fast.objective.axes.advantage import ZScore
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Clip, NoClip
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.ratio import TokenRatio
from karl_fast.objective.axes.teacher import NoReward, TeacherForward, TeacherReverse, TeacherSampled, TeacherTopK
from karl_fast.objective.families.distillation import Distillation
from karl_fast.objective.recipe_type import Recipe

OPD = Recipe.of(
    "OPD",
    Distillation,
    "Thinking Machines 2025, On-Policy Distillation",
    filter=(KeepAll(), "[note]"),
    divergence=(TeacherSampled(1.0), "the reverse KL of sampled tokens as advantage, discount 0 [note]"),
    advantage=(NoReward(), "no reward [note]"),
    ratio=(TokenRatio(), "importance sampling by token [note]"),
    clip=(NoClip(), "the loss importance_sampling of tinker has none [note]"),
    aggregate=(TokenMean(), "[ours]; tinker sums over tokens [note]"),
)

OPD_PG = OPD.but(
    "OPDPG",
    "rl-experiments @a65a3e8, opd_sandbox",
    clip=(Clip(0.2, 0.2), "PPO, 0.2 [code]"),
)

OPD_REVERSE_KL = OPD.but(
    "OPDReverseKL",
    "rl-experiments @a65a3e8, opd_sandbox; Agarwal et al. 2023, GKD (arXiv:2306.13649)",
    divergence=(TeacherReverse(1.0), "sum over the vocabulary [code]"),
)

OPD_FORWARD_KL = OPD_REVERSE_KL.but(
    "OPDForwardKL",
    "Agarwal et al. 2023, GKD (arXiv:2306.13649), forward KL on samples of the student",
    divergence=(TeacherForward(1.0), "[paper]"),
)

OPD_TOP_K = OPD_REVERSE_KL.but(
    "OPDTopK",
    "rl-experiments @a65a3e8, opd_sandbox",
    divergence=(TeacherTopK(k=20), "of the teacher, not renormalised [code]; 20 as tinker-cookbook's SDFT [note]"),
)

OPD_GRPO = OPD.but(
    "OPDGRPO",
    "slime's documentation: the teacher's term is added to any advantage",
    advantage=(ZScore(ddof=1, eps=1e-6), "GRPO's [note]; ddof and eps of the recipe GRPO [ours]"),
    clip=(Clip(0.2, 0.2), "that of the recipe GRPO [ours]"),
)
