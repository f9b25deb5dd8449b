"""Group advantages as other trainers compute them."""

from __future__ import annotations

from dataclasses import dataclass

from karl_fast import _core


@dataclass(frozen=True)
class Convention:
    """Conventions of a trainer for the rewards of a group.

    Attributes:
        name: the argument of `by_convention`.
        ddof: subtracted from the count in the variance; None if the trainer only centres.
        eps: added to the standard deviation.
        singleton: a group with one present reward: ``zero``, ``raw`` (the reward itself over 1 + eps) or ``nan``.
        missing: a missing reward: ``zero`` (left out, its own advantage 0), ``poison`` (its whole group is NaN) or
            ``refused`` (the trainer stops, and so does `by_convention`).
        single: the statistics of float32 rewards: ``torch`` (`torch.mean` and `torch.std` of a group), ``torch_rows``
            (of a table with a row a group), ``torch_nan`` (`torch.nanmean`, float32 throughout), or ``float64`` (the
            trainer's rounding is not followed).
        source: repository, commit and lines.
    """

    name: str
    ddof: int | None
    eps: float
    singleton: str
    missing: str
    single: str
    source: str


CONVENTIONS = {facts["name"]: Convention(**facts) for facts in _core.conventions()}
