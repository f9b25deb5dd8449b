"""Agent logs to training sets.

The chain, each link usable alone::

    log = karl_fast.read("runs/*.jsonl")                          # columns as NumPy arrays
    scores = karl_fast.zscore(log.rewards, log.groups)            # group-normalised advantage
    target = karl_fast.boltzmann(scores, ess=0.5)                 # log-weights, log Z
    rows = karl_fast.draw(target.log_weights, 512, seed=7, keys=log.keys)
    karl_fast.export(log, rows, "data", scores=scores, log_weights=target.log_weights)

or whole: ``karl_fast.sample("runs/*.jsonl", "data", k=512)``, which is what the command ``karl-fast sample`` does.
"""

import warnings

from karl_fast import errors
from karl_fast._core import (
    DEBUG,
    VERSION,
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
from karl_fast.comparison import compare
from karl_fast.export import export
from karl_fast.log import Log, read
from karl_fast.sample import Target, boltzmann, draw, reservoir, weighted_reservoir
from karl_fast.settings import Settings

# isort: split
# After the package `karl_fast.sample`, whose import binds the same name.
from karl_fast.pipeline import Inspection, Sample, inspect, sample

__version__ = VERSION

__all__ = [
    "Inspection",
    "Log",
    "Sample",
    "Settings",
    "Target",
    "boltzmann",
    "centre",
    "compare",
    "composite",
    "draw",
    "errors",
    "ess",
    "export",
    "formats",
    "inspect",
    "leave_one_out",
    "log_mean_exp",
    "log_sum_exp",
    "read",
    "reservoir",
    "sample",
    "uniforms",
    "weighted_reservoir",
    "zscore",
]

if DEBUG:
    warnings.warn("karl_fast is a debug build: right, and many times slower", RuntimeWarning, stacklevel=2)
