"""Recipes of the two small families: target policies and weighted likelihoods."""

from karl_fast.objective.axes.advantage import Centre
from karl_fast.objective.axes.aggregate import SequenceMean, TokenMean
from karl_fast.objective.axes.balance import TokenSumLength
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.likelihood import (
    Boltzmann,
    EveryRow,
    Exponential,
    LogLikelihood,
    ProbabilityScaled,
    SurprisalGated,
    Uniform,
)
from karl_fast.objective.families.target_policy import TargetPolicy, Tilted
from karl_fast.objective.families.weighted_likelihood import WeightedLikelihood
from karl_fast.objective.recipe_type import Recipe

TPO = Recipe.of(
    "TPO",
    TargetPolicy,
    "Kaddour 2026 (arXiv:2604.06159)",
    filter=(KeepAll(), "[note]"),
    target=(Tilted(1.0), "z-score, ddof 0, eta 1 (0.25 to 2 alike) in rl-experiments @daf350a [code]"),
    length=(TokenSumLength(), "[note]; TRL's TargetPOTrainer takes the mean [code]"),
)

TPO_NO_ANCHOR = TPO.but(
    "TPONoAnchor",
    "rl-experiments, ablation of TPO (arXiv:2604.06159)",
    target=(Tilted(1.0, anchored=False), "softmax(u / eta) alone; eta 1 [code]"),
)

SFT = Recipe.of(
    "SFT",
    WeightedLikelihood,
    "maximum likelihood",
    filter=(KeepAll(), "[ours]"),
    target=(Uniform(), "every row alike"),
    sampler=(EveryRow(), "every row once an epoch"),
    term=(LogLikelihood(), "cross-entropy"),
    aggregate=(TokenMean(), "as mlx-lm [code]"),
)

DFT = SFT.but(
    "DFT",
    "Wu et al. 2025 (arXiv:2508.05629)",
    term=(ProbabilityScaled(), "the probability as a detached weight [paper]"),
)

SURPRISAL_GATE = SFT.but(
    "surprisal gate",
    "noahziems.com/pedagogical-rl; rl-experiments @879294c, pedagogy_sandbox",
    term=(SurprisalGated(4.0, -2.5), "kappa 4, gamma -2.5; the mean of a row's gates is 1 [code]"),
    aggregate=(SequenceMean(), "mean over rows [code]"),
)

BOLTZMANN = SFT.but(
    "Boltzmann",
    "Peters & Schaal 2007, reward-weighted regression",
    target=(Boltzmann(1.0), "exp(b r) [paper]; b of a wanted ESS, from karl_fast.boltzmann [ours]"),
)

AWR = SFT.but(
    "AWR",
    "Peng et al. 2019 (arXiv:1910.00177)",
    target=(
        Exponential(Centre(), 0.05, ceiling=20.0),
        "beta 0.05, up to 20 [paper]; of the group [ours]",
    ),
)
