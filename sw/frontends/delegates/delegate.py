"""A delegate that is open: its program on a device, run by the calls of a framework."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from sw.compiler.frontend.normalize import MASKED
from sw.compiler.frontend.ports import dequantize_output, quantize_input
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.frontends.delegates.errors import DelegateError
from sw.frontends.delegates.payload import Argument, Payload
from sw.runtime.session import Arrays, golden_outputs
from sw.runtime.timing import Timing
from sw.torch_backend.devices import Resident, instructions, place
from sw.torch_backend.figures import Figures
from sw.torch_backend.options import Options

Array = NDArray[Any]


class Delegate:
    """`run` computes what the program does; `figures` tell how it went.

    graph: what the program was compiled of, where it is known: `verify` runs it as well. inputs:
    of the last run, the integers by port.
    """

    def __init__(self, payload: Payload, options: Options, graph: Graph | None = None) -> None:
        self.payload, self.options, self.graph = payload, options, graph
        self.figures = Figures()
        self.inputs: Arrays = {}
        image = payload.image
        self.timing = Timing.of(image, clock_mhz=options.clock_mhz, memory=options.memory)
        self._instructions = instructions(image)
        self._resident: Resident | None = None

    def run(self, tensors: Sequence[Array]) -> None:
        """One run. tensors: the arguments of the framework's call; the results are written."""
        payload = self.payload
        if len(tensors) != payload.arguments:
            raise DelegateError(
                f"{payload.name}: called with {len(tensors)} tensors, compiled for "
                f"{payload.arguments}"
            )
        for argument in (*payload.inputs, *payload.outputs):
            self._require(argument, tensors[argument.position])
        self.inputs = {a.port.name: self._packed(a, tensors[a.position]) for a in payload.inputs}
        outputs = self._run(self.inputs)
        for argument in payload.outputs:
            found = dequantize_output(argument.port, outputs[argument.port.name])
            tensors[argument.position][...] = found

    def _require(self, argument: Argument, tensor: Array) -> None:
        wanted = f"{argument.dtype}{list(argument.port.shape)}"
        given = f"{tensor.dtype}{list(tensor.shape)}"
        if given != wanted:
            raise DelegateError(
                f"{self.payload.name}: argument {argument.position} is {given}, the program was "
                f"compiled for {wanted}"
            )

    def _packed(self, argument: Argument, tensor: Array) -> Array:
        """The tensor as the port's integers; values outside its range are cut and counted."""
        port = argument.port
        if argument.mask:
            tensor = np.maximum(tensor, np.float32(MASKED))
        if port.scale and not np.isfinite(tensor).all():
            raise DelegateError(
                f"{self.payload.name}: input {port.name} has NaN or infinite values, for which "
                "there are no integers"
            )
        self.figures.saturation.count(port, tensor, 0, self.payload.name)
        return quantize_input(port, tensor)

    def _run(self, arrays: Arrays) -> Arrays:
        image, options = self.payload.image, self.options
        if self._resident is None:
            self._resident = place(image, options.device_options(), options.check)
        done = self._resident.run(arrays)
        if options.verify:
            self._verify(arrays, done.outputs)
        self.figures.add(arrays, done, self._instructions, self.timing)
        return done.outputs

    def _verify(self, arrays: Arrays, outputs: Arrays) -> None:
        if self.options.device != "golden":
            golden = golden_outputs(self.payload.image, arrays)
            self._require_equal(outputs, golden, "golden model")
        if self.graph is not None:
            self._require_equal(outputs, run_graph(self.graph, arrays), "reference interpreter")
        self.figures.verified += 1

    def _require_equal(self, outputs: Arrays, exact: Mapping[str, Array], judge: str) -> None:
        for name, array in exact.items():
            if not np.array_equal(array, outputs[name]):
                raise SystolaError(
                    f"{self.payload.name}: output {name} of device {self.options.device} is not "
                    f"what the {judge} computes"
                )
