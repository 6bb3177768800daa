"""What values of a Relax function are for given inputs, by TVM's own kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.frontends.tvm.errors import TvmError, first_line, tvm
from sw.frontends.tvm.records import Function
from sw.frontends.tvm.rewriting import arrays, observed_module

Array = NDArray[Any]


class Calibration:
    """Values of some calls, each computed once. calls: arrays in the order of the parameters."""

    def __init__(self, function: Function, calls: Sequence[Sequence[Array]]) -> None:
        self._function, self._calls = function, calls
        self._known = [dict(zip(function.params, call, strict=True)) for call in calls]

    def of(self, names: Sequence[str]) -> list[list[Array]]:
        """For each call the values of these names."""
        missing = [name for name in names if name not in self._known[0]]
        if missing:
            self._compute(missing)
        return [[known[name] for name in names] for known in self._known]

    def _compute(self, names: Sequence[str]) -> None:
        function = self._function
        module = observed_module(function, names)
        try:
            machine = open_machine(built(module))
            for call, known in zip(self._calls, self._known, strict=True):
                found = machine[function.name](*map(tensor, call))
                known.update(zip(names, arrays(found), strict=True))
        except Exception as error:
            raise TvmError(f"{function.name}: TVM cannot run it: {first_line(error)}") from error


def built(module: Any, target: Any = "llvm") -> Any:
    """The module as `relax.build` compiles it."""
    return tvm().relax.build(module, target)


def open_machine(executable: Any) -> Any:
    """A `relax.VirtualMachine` on the CPU."""
    package = tvm()
    return package.relax.VirtualMachine(executable, package.cpu())


def tensor(array: Array) -> Any:
    """An array as a tensor of TVM."""
    return tvm().runtime.tensor(np.ascontiguousarray(array))
