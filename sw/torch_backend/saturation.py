"""Inputs outside the calibrated range: counted for the report, and said once."""

import warnings
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sw.compiler.frontend.ports import ModelPort, saturated_share
from sw.compiler.frontend.quantization.calls import (
    SaturationWarning,
    far_outside,
    saturated_values,
    unseen_integers,
)
from sw.compiler.tosa.integers import Outgrown


@dataclass(slots=True, kw_only=True)
class Saturation:
    """Over all runs of a part: inputs that had to be cut, and how many values of how many.

    Integers count where float values are computed from them.
    """

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
        if share:
            self._add(round(share * array.size))
            if far_outside(port, array):
                self._warn(saturated_values(port, array), recalibrate, where)

    def count_integers(self, found: Outgrown, recalibrate: int, where: str) -> None:
        """As `count`, of integers that calibration did not see."""
        self.of += found.of
        self._add(found.count)
        self._warn(unseen_integers(found), recalibrate, where)

    def _add(self, values: int) -> None:
        self.inputs += 1
        self.values += values

    def _warn(self, text: str, recalibrate: int, where: str) -> None:
        if self.warned:
            return
        self.warned = True
        warnings.warn(
            f"{where}: {text}. Calibrate with representative inputs (option calibration), or more "
            f"often (option recalibrate, which is {recalibrate})",
            SaturationWarning,
            stacklevel=3,
        )
