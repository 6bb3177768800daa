"""Cost model of a TransposeLayer: the busiest engine over all tiles, and what nothing hides."""

import math
from collections.abc import Iterable

from spec.config import NpuConfig
from spec.isa import Engine, Opcode
from sw.compiler.kernels.dma import Copy
from sw.compiler.kernels.transpose.turns import Turn
from sw.compiler.machine.costs import (
    INSTRUCTION_CYCLES,
    MEMORY_LATENCY,
    RESULT_LATENCY,
    SPLIT_RUN,
    instruction_bytes,
    weight_cycles,
)
from sw.compiler.program.cycles import lane_parts


def copy_cycles(copies: Iterable[Copy], config: NpuConfig) -> float:
    """Cycles of the engine that copies so."""
    return sum(
        math.prod(loop.count for loop in copy.loops)
        * (max(1.0, copy.run / config.bus_bytes) + (copy.run % config.bus_bytes > 0) * SPLIT_RUN)
        for copy in copies
    )


def turn_cycles(turn: Turn, config: NpuConfig) -> tuple[float, float]:
    """Cycles of the matrix engine and of the vector engine."""
    vectors, blocks = turn.vectors(config.cols), turn.repeats * turn.blocks(config.cols)
    folds = blocks * -(-turn.rows // (config.rows // turn.item))
    matrix = (
        turn.item * max(vectors, folds * weight_cycles(config, transposed=True))
        + INSTRUCTION_CYCLES[Opcode.MATRIX]
    )
    words = -(-turn.item * min(config.cols, turn.columns) // config.word_bytes)
    steps = max(words, lane_parts(config, min(config.cols, turn.columns)))
    return matrix, vectors * steps + INSTRUCTION_CYCLES[Opcode.VECTOR]


def fetch_cycles(turns: int, config: NpuConfig) -> float:
    """Cycles for which the program of a tile takes the port that loads."""
    size = instruction_bytes(Opcode.LOAD, Opcode.STORE)
    return (size + turns * instruction_bytes(Opcode.MATRIX, Opcode.VECTOR)) / config.bus_bytes


def start_cycles(turns: int, in_memory: int) -> int:
    """Cycles before the first tile is turned, and after the last one: latencies, and those of
    source and target as far as they are `in_memory`.
    """
    return in_memory * MEMORY_LATENCY + turns * (
        RESULT_LATENCY[Engine.MATRIX] + MEMORY_LATENCY // 2
    )
