"""A float network with the data that it is quantized and tested on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CALIBRATION = (32, 0)
TEST = (32, 1)
"""(samples, what is added to the seed): the crops or recordings of both are different ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """module: in inference mode; calibration, test: float32 inputs [n, …]; labels of the test
    samples, if there is a right answer; data, weights: where they come from, for people.
    """

    module: Any
    calibration: NDArray[np.float32]
    test: NDArray[np.float32]
    data: str
    weights: str
    labels: NDArray[np.int64] | None = None
