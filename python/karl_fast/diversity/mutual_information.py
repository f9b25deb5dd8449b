"""Mutual information of inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core

if TYPE_CHECKING:
    from karl_fast.typing import Integers


@dataclass(frozen=True)
class Information:
    """Mutual information and entropies of inputs X and outputs Y; all but the rows in nats.

    Attributes:
        rows: number of rows with both.
        mutual_nats: I(X; Y) = H(Y) - H(Y | X).
        input_entropy_nats: H(X).
        output_entropy_nats: H(Y).
        within_entropy_nats: H(Y | X), the variety of outputs within one input.
        bias_nats: upward bias of the estimate, which matters where few rows fill many pairs.
    """

    rows: int
    mutual_nats: float
    input_entropy_nats: float
    output_entropy_nats: float
    within_entropy_nats: float
    bias_nats: float

    @property
    def share(self) -> float:
        """I(X; Y) / H(Y), 0 to 1: how much of the variety of outputs answers to the input; NaN where there is none."""
        return self.mutual_nats / self.output_entropy_nats if self.output_entropy_nats > 0 else float("nan")


def mutual_information(inputs: Integers, outputs: Integers) -> Information:
    """Estimate the mutual information of inputs and outputs, over the rows with both.

    ```text
    I(X; Y) = sum p(x, y) ln (p(x, y) / (p(x) p(y))) = H(Y) - H(Y | X)
    bias    = (K_xy - K_x - K_y + 1) / (2 B),   K the numbers of different pairs, inputs and outputs
    ```

    Entropy cannot tell a policy that answers each input in its own way from one that answers all from one varied
    template. The second has a high H(Y | X), and I near 0: template collapse. The estimate is the plug-in one, which is
    too high; take the bias from it (Miller and Madow) before runs of different size are compared. A shuffled column of
    outputs shows what chance alone gives.

    Args:
        inputs: the prompt of each row, negative for none; or names, in an Arrow column. [B]
        outputs: what it was answered by, as a number: a cluster, a plan, an exact text; negative for none. [B]

    Returns:
        The entropies, their difference and its bias; NaN where no row has both.

    Raises:
        ArgumentError: columns that differ in length.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: RAGEN-2 (arXiv:2604.06268), which estimates it from log-probabilities; Miller 1955 for the bias.
    """
    return Information(**_core.mutual_information(inputs, outputs))
