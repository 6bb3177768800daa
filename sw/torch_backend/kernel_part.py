"""A node that is a kernel of the user, on the NPU: the kernel's own program."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from spec.errors import SystolaError
from sw.language.program import CompiledKernel
from sw.language.torch_op import KernelOperator, kernel_of
from sw.runtime.timing import Timing
from sw.torch_backend.devices import Resident, instructions, place
from sw.torch_backend.figures import Figures
from sw.torch_backend.options import Options


class KernelPart(torch.nn.Module):
    """Takes the place of a call of a kernel's operator; `figures` tell how its runs went.

    Its tensors are the operator's, integers already: nothing is calibrated.
    """

    def __init__(
        self, node: Node, operator: KernelOperator, program: CompiledKernel, options: Options
    ) -> None:
        super().__init__()
        self._operator, self._program, self._options = operator, program, options
        self.title, self.names = "", [node.name]
        self.figures = Figures()
        self.tosa_digest, self.digest = "", ""
        self.timing = Timing.of(program.image, clock_mhz=options.clock_mhz, memory=options.memory)
        self._instructions = instructions(program.image)
        self._resident: Resident | None = None

    def release(self) -> None:
        """Give up the device; figures stay."""
        self._resident = None

    def forward(self, *args: Any, **keywords: Any) -> torch.Tensor:
        """One run."""
        given = self._operator.bind(args, keywords)
        arrays = {name: given[name].detach().numpy() for name in self._operator.inputs}
        options = self._options
        if self._resident is None:
            self._resident = place(self._program.image, options.device_options(), options.check)
        done = self._resident.run(arrays)
        self.figures.add(arrays, done, self._instructions, self.timing)
        (array,) = done.outputs.values()
        return torch.from_numpy(array)


def kernel_parts(
    module: GraphModule, options: Options
) -> tuple[dict[Node, KernelPart], dict[Node, str]]:
    """(the parts of nodes that are kernels, why other such nodes cannot run on the NPU)."""
    parts: dict[Node, KernelPart] = {}
    why: dict[Node, str] = {}
    for node in module.graph.nodes:
        operator = kernel_of(node.target)
        if operator is None:
            continue
        try:
            program = operator.program(_arguments(node, operator), options.config)
        except SystolaError as error:
            why[node] = str(error).splitlines()[0]
        else:
            parts[node] = KernelPart(node, operator, program, options)
    return parts, why


def _arguments(node: Node, operator: KernelOperator) -> Mapping[str, Any]:
    """The arguments of a call by name, tensors as they are in the traced graph."""
    given = operator.bind(node.args, node.kwargs)
    return {
        name: value.meta["val"] if isinstance(value, Node) else value
        for name, value in given.items()
    }
