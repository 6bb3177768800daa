"""What a layer's instructions need and the configuration lacks: a refusal, operator by operator."""

from spec.config import NpuConfig
from spec.optional import Function, lacking
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.program.records import Record
from sw.compiler.program.virtual import VirtualProgram


class _Fields:
    """A record by the names of its fields, as `spec.optional` reads instructions."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getitem__(self, name: str) -> int:
        return int(getattr(self._record, name))


def lacked(record: Record, config: NpuConfig) -> Function | None:
    """A function that an instruction needs and `config` does not have."""
    functions = lacking(config, record.opcode)
    return next((f for f in functions if f.uses(_Fields(record))), None)


def check_functions(virtual: VirtualProgram, layers: LayerProgram, config: NpuConfig) -> None:
    """`CompileError` for the first layer that needs a function that `config` does not have."""
    for instruction in virtual.instructions:
        function = lacked(instruction.record, config)
        if function is not None:
            raise _refusal(layers.layers[instruction.layer], function, config)


def _refusal(layer: Layer, function: Function, config: NpuConfig) -> CompileError:
    return CompileError(
        f"{', '.join(layer.ops)}: needs {function.what}; configuration {config.name} has "
        f"{function.flag}=False",
        node=layer.name,
        source=layer.source,
        hint=f"choose a configuration that has it (--set {function.flag}=true), or leave these "
        "operators to the host",
    )
