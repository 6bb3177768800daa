"""Inputs outside the calibrated range: counted for the report, and said once."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.ports import ModelPort, saturated_share

OUTGROWN = 1.1
"""Inputs this many times what a port holds are far outside its range.

They are calibrated anew, or warned of. Smaller ones saturate with an error of less than a tenth;
the report counts them.
"""


def far_outside(port: ModelPort, array: NDArray[Any]) -> bool:
    """Whether a value lies a tenth of the port's range or more outside it."""
    low, high = port.ends
    margin = (OUTGROWN - 1) * max(-low, high)
    return bool(array.min() < low - margin or array.max() > high + margin)


class SaturationWarning(UserWarning):
    """Inputs of a part were cut to the range that it was calibrated for."""


@dataclass(slots=True)
class Saturation:
    """Over all runs of a part: float inputs that had to be cut, and how many values of how many."""

    inputs: int = 0
    values: int = 0
    of: int = 0
    warned: bool = False

    @property
    def share(self) -> float:
        """Share (0 to 1) of the values of all inputs that were cut."""
        return self.values / self.of if self.of else 0.0

    def count(self, port: ModelPort, array: NDArray[Any], recalibrate: int, where: str) -> None:
        """Count an input; a warning with its share for the first that is far outside the range."""
        if not port.scale:
            return
        self.of += array.size
        share = saturated_share(port, array)
        if not share:
            return
        (low, high), largest = port.ends, float(np.abs(array).max())
        if not self.warned and far_outside(port, array):
            self.warned = True
            warnings.warn(
                f"{where}: {share:.2%} of the values of input {port.name} saturate: they are "
                f"outside the calibrated range {low:.4g}…{high:.4g}, the largest is {largest:.4g}. "
                f"Calibrate with representative inputs (option calibration), or more "
                f"often (option recalibrate, which is {recalibrate})",
                SaturationWarning,
                stacklevel=2,
            )
        self.inputs += 1
        self.values += round(share * array.size)
