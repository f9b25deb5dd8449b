"""Recipes of preferences: pairs of answers, and answers with a label."""

from karl_fast.objective.axes.balance import NoAnchor, ReferencePolicy, TokenMeanLength, TokenSumLength
from karl_fast.objective.axes.preference import (
    ChosenLikelihood,
    DivergenceBaseline,
    LogOddsDifference,
    LogSigmoid,
    NoLikelihood,
    ScoreDifference,
    Sigmoid,
    SquaredMargin,
)
from karl_fast.objective.families.preference import Preference
from karl_fast.objective.recipe_type import Recipe

DPO = Recipe.of(
    "DPO",
    Preference,
    "Rafailov et al. 2023 (arXiv:2305.18290)",
    anchor=(ReferencePolicy(), "eq. 7 [paper]"),
    length=(TokenSumLength(), "the log-probability of the answer [paper]"),
    margin=(ScoreDifference(0.1), "beta 0.1, appendix B [paper]"),
    link=(LogSigmoid(), "Bradley-Terry, eq. 7 [paper]; no smoothing [paper]"),
    likelihood=(NoLikelihood(), "[paper]"),
)

IPO_PAIRS = DPO.but(
    "IPO pairs",
    "Azar et al. 2023 (arXiv:2310.12036)",
    length=(TokenMeanLength(), "the mean, as the authors advised TRL, dpo_trainer.py loss ipo [code]; the sum [paper]"),
    margin=(ScoreDifference(1.0), "the log ratios as they are, eq. 17 [paper]"),
    link=(SquaredMargin(5.0), "(h - 1 / (2 tau))^2, eq. 17 [paper]; tau 0.1, the beta of TRL [code]"),
)

SIMPO = DPO.but(
    "SimPO",
    "Meng et al. 2024 (arXiv:2405.14734)",
    anchor=(NoAnchor(), "none [paper]"),
    length=(TokenMeanLength(), "the mean a token, eq. 3 [paper]"),
    margin=(ScoreDifference(2.0, 1.0), "beta 2, gamma 1 = beta / 2, the advice of the authors' README [code]"),
)

KTO = DPO.but(
    "KTO",
    "Ethayarajh et al. 2024 (arXiv:2402.01306)",
    margin=(DivergenceBaseline(0.1), "beta 0.1, both labels at weight 1 [paper]"),
    link=(Sigmoid(), "1 - sigmoid, eq. 8 [paper]; factor 1 [paper]"),
)

ORPO = SIMPO.but(
    "ORPO",
    "Hong et al. 2024 (arXiv:2403.07691)",
    margin=(LogOddsDifference(), "eq. 4 to 7 [paper]"),
    link=(LogSigmoid(0.1), "lambda 0.1, section 5 [paper]"),
    likelihood=(ChosenLikelihood(1.0), "of the answer, eq. 6 [paper]; TRL's orpo adds the prompt to it [code]"),
)
