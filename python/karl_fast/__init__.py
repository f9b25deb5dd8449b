"""Agent logs to training sets.

The chain; each function works on its own, too:

    log = karl_fast.read("runs/*.jsonl")                          # columns as NumPy arrays
    scores = karl_fast.zscore(log.rewards, log.groups)            # group-normalised advantage
    target = karl_fast.boltzmann(scores, ess=0.5)                 # log-weights, log Z
    rows = karl_fast.draw(target.log_weights, 512, seed=7, keys=log.keys)
    karl_fast.export(log, rows, "data", scores=scores, log_weights=target.log_weights)

or in one call: ``karl_fast.sample("runs/*.jsonl", "data", k=512)``, the function behind the command ``karl-fast
sample``. ``karl_fast.convert("~/.claude/projects", "log.jsonl")`` makes a log of the transcripts that agents leave
behind.

The kernels, for arrays of any pipeline, have one module a family: ``advantage``, ``filter``, ``target``, ``ratio``,
``kl``, ``sampling``, ``replay``, ``curriculum``, ``diversity``, ``resampling``; ``reward`` replaces KARL's reward
engine. ``help`` on each lists its contents. ``objective`` has losses made of them, for MLX; ``train`` and ``rl`` train
with them, on data sets and on rollouts; ``evaluation`` judges adapters by their rollouts, and promotes the better ones.
"""

from __future__ import annotations

# These packages have the name of a function, and are imported before the function is looked up.
import karl_fast.audit
import karl_fast.export  # noqa: F401
from karl_fast import errors
from karl_fast._core import VERSION

# Not imported from `typing`, which is slow to load: the command handles Ctrl-C only once this module is loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from karl_fast import (
        ablation,
        advantage,
        curriculum,
        distributed,
        diversity,
        evaluation,
        filter,
        kl,
        objective,
        ratio,
        replay,
        resampling,
        reward,
        rl,
        sampling,
        target,
        train,
    )
    from karl_fast._core import (
        centre,
        composite,
        ess,
        formats,
        leave_one_out,
        log_mean_exp,
        log_sum_exp,
        uniforms,
        zscore,
    )
    from karl_fast.audit.audit import audit
    from karl_fast.audit.result import Audit
    from karl_fast.collection import Collection, collect
    from karl_fast.export.compare import compare
    from karl_fast.export.write import export
    from karl_fast.log import Log, read
    from karl_fast.page.report import report
    from karl_fast.pipeline.inspect import Inspection, inspect
    from karl_fast.pipeline.sample import Sample, sample
    from karl_fast.pipeline.show import Ranking, show
    from karl_fast.sampling.draw import draw, reservoir, weighted_reservoir
    from karl_fast.settings.sample import Settings
    from karl_fast.skill import Skills, skills
    from karl_fast.target import Target, boltzmann
    from karl_fast.transcripts.commits import convert_commits
    from karl_fast.transcripts.conversion import Conversion, convert
    from karl_fast.transcripts.outcomes import Outcomes, outcomes
    from karl_fast.transcripts.pairs import Pairs, pairs

__version__ = VERSION

__all__ = [
    "Audit",
    "Collection",
    "Conversion",
    "Inspection",
    "Log",
    "Outcomes",
    "Pairs",
    "Ranking",
    "Sample",
    "Settings",
    "Skills",
    "Target",
    "ablation",
    "advantage",
    "audit",
    "boltzmann",
    "centre",
    "collect",
    "compare",
    "composite",
    "convert",
    "convert_commits",
    "curriculum",
    "distributed",
    "diversity",
    "draw",
    "errors",
    "ess",
    "evaluation",
    "export",
    "filter",
    "formats",
    "inspect",
    "kl",
    "leave_one_out",
    "log_mean_exp",
    "log_sum_exp",
    "objective",
    "outcomes",
    "pairs",
    "ratio",
    "read",
    "replay",
    "report",
    "resampling",
    "reservoir",
    "reward",
    "rl",
    "sample",
    "sampling",
    "show",
    "skills",
    "target",
    "train",
    "uniforms",
    "weighted_reservoir",
    "zscore",
]

FAMILIES = (
    "ablation",
    "advantage",
    "curriculum",
    "distributed",
    "diversity",
    "evaluation",
    "filter",
    "kl",
    "objective",
    "ratio",
    "replay",
    "resampling",
    "reward",
    "rl",
    "sampling",
    "target",
    "train",
)
"""The kernels, a module a family; the objectives made of them; training."""

HOMES = {
    "karl_fast.audit.audit": ("audit",),
    "karl_fast.audit.result": ("Audit",),
    "karl_fast.collection": ("Collection", "collect"),
    "karl_fast.export.compare": ("compare",),
    "karl_fast.transcripts.commits": ("convert_commits",),
    "karl_fast.transcripts.conversion": ("Conversion", "convert"),
    "karl_fast.export.write": ("export",),
    "karl_fast.log": ("Log", "read"),
    "karl_fast.transcripts.outcomes": ("Outcomes", "outcomes"),
    "karl_fast.transcripts.pairs": ("Pairs", "pairs"),
    "karl_fast.page.report": ("report",),
    "karl_fast.pipeline.inspect": ("Inspection", "inspect"),
    "karl_fast.pipeline.sample": ("Sample", "sample"),
    "karl_fast.pipeline.show": ("Ranking", "show"),
    "karl_fast.sampling.draw": ("draw", "reservoir", "weighted_reservoir"),
    "karl_fast.target": ("Target", "boltzmann"),
    "karl_fast.settings.sample": ("Settings",),
    "karl_fast.skill": ("Skills", "skills"),
}
"""Home module of each public name outside the extension; loaded on first use, to keep start-up short."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in FAMILIES:
        return import_module(f"karl_fast.{name}")
    home = next((home for home, names in HOMES.items() if name in names), "karl_fast._core")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


del globals()["audit"], globals()["export"]  # the packages, which the functions replace
