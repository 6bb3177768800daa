"""What is too large to compile, said before work begins."""

from spec.available import require_memory
from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.tosa.graph import Graph

_TILE_COST = 1 << 16
"""Bytes that the compiler takes for the instructions of a tile that fills the scratchpad."""


def check_sizes(graph: Graph, config: NpuConfig) -> None:
    """`CompileError` for tensors beyond the device's addresses, `MemoryLimitError` beyond memory.

    Instructions are made tile by tile: a large tensor on a small scratchpad is a long program.
    """
    held = [t.nbytes for t in graph.tensors.values() if t.is_constant]
    held += [graph.tensors[name].nbytes for name in (*graph.inputs, *graph.outputs)]
    space = 1 << config.axi_addr_bits
    if sum(held) > space:
        raise CompileError(
            f"graph {graph.name!r}: inputs, outputs and constants of {sum(held):,} bytes; "
            f"configuration {config.name} addresses {space:,} bytes",
            hint="use smaller shapes, or raise axi_addr_bits",
        )
    passing = sum(t.nbytes for t in graph.tensors.values() if not t.is_constant)
    tiles = passing // config.spad_bytes
    require_memory(2 * sum(held) + _TILE_COST * tiles, f"compiling graph {graph.name!r}")
