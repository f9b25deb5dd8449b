"""Every tolerance of the suite, with its reason. An exact comparison needs none."""

TWIN = 1e-12
"""Relative: a compensated sum beside a plain one over at most a few hundred numbers of like size."""

LOG = 1e-12
"""Relative: one libm `log` or `exp` beside another, each within 1 ulp, after at most a few hundred additions."""

SOLVED = 1e-9
"""Relative, of an inverse temperature: bisection of two sums that differ in their last bits ends within their noise
divided by the slope of the ESS, which is of order one per unit of `b * spread` away from its flat ends."""

GOLDEN = 1e-9
"""Relative: golden numbers are f64 from NumPy or torch, whose sums are pairwise or in another order."""

LOGGED = 2e-7
"""Absolute: prime-rl logs in f32, whose step just below 2 is 1.2e-7: a reward and a mean, each half a step off."""

SIGMAS = 4.0
"""Standard errors: of about a hundred frequencies in the suite, one is beyond it by chance once in 160 suites; seeds
are fixed, so a pass stays a pass."""

VERL_LENGTHS = 3e-8
"""Relative: verl adds 1e-8 to the length of a sequence before it divides by it."""

F32_TOKENS = 1e-6
"""Relative: a ratio in f32 is the exp, within 1 ulp (1.2e-7), of a difference that is off by half a step of its terms,
and is multiplied twice."""

SLOPE = 1e-6
"""Of a central difference over 2e-6 of a loss near 1: its last bit is 1e-16, so that the quotient has ten digits, and
the third derivative adds 1e-12."""

MLX_EXP = 2e-7
"""Relative: `mx.exp` of a float64 is a float32's on the CPU: within 1e-7 near 0, where a step is 1e-16."""

AUTODIFF = 1e-11
"""Of the largest gradient: autodiff adds the same terms in another order, and `mx.power` is within a few ulp of exp."""


def of_float32_sums(*lengths: int) -> float:
    """Relative: sums of float32 of these lengths, one after the other, in an order that a BLAS or a GPU chooses.

    A sum of n terms is off by at most n units of rounding, 2^-24 each; of that there is a factor of four to spare.
    """
    return 4 * 2**-24 * sum(lengths)


SPARE = 4
"""Times what a model's own rounding does: the distance of its gradient from that of weights one unit of rounding away,
or of the same rows in another order. Two ways to compute it may each be as far from the exact one as that."""

LARGEST_ROUNDING = 1e-3
"""Relative: beyond it, a comparison within `SPARE` times a model's own rounding would say nothing."""
