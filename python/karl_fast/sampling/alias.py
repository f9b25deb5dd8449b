"""Many draws with replacement by one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.sampling.draw import check_draw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


class Alias:
    """An alias table: each draw costs two hashes and one look, whatever the number of rows.

    The table has one cell a row, of one size; a cell holds a part of its own row and is filled up with a part of one
    other (Vose's construction). Weights are whole numbers, multiples of 2^-62 of the largest, so that the parts of a
    row add up to its weight without rounding; a row below that is never drawn.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. [B]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, or no row that has a weight.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Cost: 32 bytes a row; one exponential a row to build.

    References: Walker 1977; Vose 1991.

    >>> import numpy as np
    >>> table = Alias(np.log([1.0, 3.0]))
    >>> table.probabilities()
    array([0.25, 0.75])
    """

    __slots__ = ("_table",)

    def __init__(self, log_weights: Reals) -> None:
        self._table = _core.Alias(log_weights)

    def __len__(self) -> int:
        return len(self._table)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each row by the table as built: the weights over their total. [B]"""
        return self._table.probabilities()

    def draw(self, count: int, *, seed: int = 0) -> NDArray[np.int64]:
        """Draw ``count`` rows with replacement, each by itself.

        Draw j is a function of the seed and j, so the first draws of a longer call are those of a shorter one.

        Raises:
            ArgumentError: a number outside its range.
        """
        check_draw(count, seed)
        return self._table.draw(count, seed=seed)
