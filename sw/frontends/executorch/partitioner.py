"""`SystolaPartitioner` and `SystolaBackend`: what ExecuTorch asks when it lowers a program.

Importing this file imports ExecuTorch.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from sw.frontends.delegates.options import ahead_options
from sw.frontends.delegates.payload import read_payload
from sw.frontends.executorch.errors import MISSING, ExecuTorchError
from sw.frontends.executorch.lowering import lower
from sw.frontends.executorch.operator import is_program
from sw.torch_backend.fallback import PartitionedModule

try:
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
except ImportError as error:
    raise ExecuTorchError(f"{MISSING} ({error})") from None


class SystolaPartitioner(Partitioner):
    """Gives the NPU what the importer takes; ExecuTorch's kernels keep the rest.

    For `executorch.exir.to_edge_transform_and_lower(exported, partitioner=[SystolaPartitioner()])`,
    before any other partitioner. options: those of `torch.compile(backend="systola")` that are
    decided ahead of time: config, policy, rows, calibration, fallback, cache, progress.
    calibration: calls of the whole model; without it a float model is calibrated by the inputs it
    was exported with. keep_graph: store the graphs that the programs were compiled of as well, for
    `systola verify` and `bench` of the file; they have the weights a second time. `OptionError` for
    an option that does not exist.
    """

    def __init__(self, *, keep_graph: bool = False, **options: Any) -> None:
        super().__init__()
        self._keep_graph = keep_graph
        self.options = ahead_options(options)
        self.reports: list[PartitionedModule] = []

    def __str__(self) -> str:
        """Where each operator of the programs that were lowered runs, and why."""
        return "\n".join(line for each in self.reports for line in each.lines(100))

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Compile the parts, while the operators are still those that the importer knows."""
        program, report = lower(exported_program, self.options, keep_graph=self._keep_graph)
        self.reports.append(report)
        return program

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag each compiled part, with its program and its results, as a delegate."""
        if not self.reports:
            raise ExecuTorchError(
                "SystolaPartitioner works before operators are taken apart: give it to "
                "executorch.exir.to_edge_transform_and_lower, not to to_backend"
            )
        config = self.options.config
        specs = [CompileSpec("config", f"{config.name} {config.digest_hex}".encode())]
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if is_program(node):
                tag = f"systola_{len(tags)}"
                tags[tag] = DelegationSpec(SystolaBackend.__name__, specs)
                for member in (node, node.args[0], *node.users):
                    member.meta["delegation_tag"] = tag
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class SystolaBackend(BackendDetails):
    """Turns a tagged part into the bytes of the `.pte` file, and names the delegate in it."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """The part's payload, its arguments where ExecuTorch's call has them."""
        calls = [n for n in edge_program.graph.nodes if is_program(n)]
        if len(calls) != 1:
            raise ExecuTorchError(
                f"a delegate of {len(calls)} compiled programs: must be one; use "
                "SystolaPartitioner, which makes such delegates"
            )
        (call,) = calls
        data = _constant(edge_program, call.args[0])
        payload = read_payload(data, f"delegate {call.name}")
        given = list(edge_program.graph_signature.user_inputs)
        inputs = tuple(given.index(n.name) for n in call.args[1])
        (output,) = (n for n in edge_program.graph.nodes if n.op == "output")
        returned = list(output.args[0])
        outputs = tuple(len(given) + returned.index(n) for n in _results(call))
        count = len(given) + len(returned)
        placed = payload.placed(inputs, outputs, count)
        return PreprocessResult(processed_bytes=placed.to_bytes())


def _constant(program: ExportedProgram, node: Node) -> bytes:
    name = program.graph_signature.inputs_to_buffers[node.name]
    tensor: torch.Tensor = {**program.constants, **program.state_dict}[name]
    return tensor.numpy().tobytes()


def _results(call: Node) -> list[Node]:
    """The elements of what a program returns, in its order; each is read by somebody."""
    return sorted(call.users, key=lambda n: n.args[1])
