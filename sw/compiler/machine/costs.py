"""Every cycle that the cost model knows of the hardware, once, with what measured it.

Searches for tiles, list scheduling and the timeline of a program all take their figures from here.
Figures marked *fitted* were never measured alone: they were set so that predictions meet the cycles
of the RTL, and what validates them together is the table of predicted and measured networks in
docs/profiling.md ("The cost model"). A changed figure changes plans, and so programs: the golden
digests of networks show which.
"""

from spec.config import NpuConfig
from spec.isa import FORMATS, GRANULE_BYTES, Engine, Opcode


def instruction_bytes(*opcodes: Opcode) -> int:
    """Bytes of a program that so many instructions take."""
    return sum(FORMATS[opcode].granules * GRANULE_BYTES for opcode in opcodes)


# Memory ---------------------------------------------------------------------------------------

MEMORY_LATENCY = 100
"""Cycles from a memory request to its data. It is the latency of the simulated memory with which
docs/benchmarks.md measures."""

PROGRAM_START = 50
"""Cycles from the start of a run to its first instruction that the fetch engine adds to two reads
of memory. Fitted."""

WRITE_BATCH = 32
"""Writes between two turns of a DRAM's data bus. Fitted: its controller writes when no read has
work, which is often, and else when many wait (rtl/dram.h)."""

WRITE_QUEUE = 128
"""Accesses that wait in that controller to be written."""

SPLIT_RUN = 0.75
"""Bus cycles that a run which begins or ends within a bus word costs beyond its bytes: its first
and last words are shared with others. Fitted, between 0 (aligned after all) and 1."""

# Engines --------------------------------------------------------------------------------------

READY = 10
"""Cycles from the end of an engine's work to the moment at which others can use it: a post and a
wait. Fitted."""

RESULT_LATENCY = {
    Engine.LOAD: MEMORY_LATENCY,
    Engine.STORE: MEMORY_LATENCY,
    Engine.MATRIX: 40,
}
"""The same for engines of which more is on its way when their last step is over: requests to
memory, and sums in the array, which leave it rows + cols cycles later (docs/architecture.md): 32 on
`default`, and `READY`. Fitted on that configuration, used on all."""

HANDOVER = 40
"""Cycles from the last vector of a tensor that stays on chip to the first that reads it: the vector
engine's pipeline, its writer, a post and a wait. Fitted with the networks of decision 20."""


def weight_cycles(config: NpuConfig, transposed: bool = False) -> int:
    """Cycles in which the array takes the weights of a whole fold: the least that a fold takes."""
    vectors = config.cols if transposed else config.rows
    return -(-vectors // config.weight_rows)


INSTRUCTION_CYCLES = {Opcode.MATRIX: 4, Opcode.DEPTHWISE: 8, Opcode.VECTOR: 8}
"""Cycles that the pipelines lose per instruction when instructions follow one another.
Fitted; profiles show them as cycles of the kind `pipeline`."""

VECTOR_TILE_CYCLES = 20
"""Cycles that a VECTOR of a pool or an elementwise layer costs besides its vectors. Fitted."""

DEPENDENT_STEP_CYCLES = 32
"""Cycles that a VECTOR costs besides its vectors if it waits for the results of the one before:
the depth of the vector pipeline and its writer. Fitted with the norms of decision 27."""

TABLE_STEP_CYCLES = 2
"""Cycles from a step that looks up in TABLE to the next: two lanes have one memory
(hw_gen/blocks/vector_table.py)."""

TABLE_CYCLES = 200
"""Cycles that a TABLE takes where one replaces another in every tile: a load, and the wait for it.
Fitted."""

# Program fetch ---------------------------------------------------------------------------------

FETCH_GRANULE = 1
"""Cycles in which fetch reads a granule of the program and hands it on."""

FETCH_AGAIN = 600
"""Cycles of work that engines should have while fetch goes from a REPEAT to the first instruction
of its section: requests that are under way are answered, and memory is asked again. Twice what that
takes with a latency of 100 cycles, since work is not shared evenly among instructions."""

# Program fetch: bytes that compete with loads for the memory port -------------------------------

MATRIX_BYTES = instruction_bytes(Opcode.MATRIX)
"""Of a unit of column blocks."""

FINISH_BYTES = 320
"""Of what finishes a column block, VECTOR and STORE: a granule more than `instruction_bytes` says
today. Kept, as is `DEPTHWISE_UNIT_BYTES`: the plans of every network were chosen with it."""

STEP_LOAD_BYTES = instruction_bytes(Opcode.LOAD, Opcode.LOAD, Opcode.LOAD)
"""Of a convolution step's loads: activations, and weights in two instructions."""

DEPTHWISE_UNIT_BYTES = 336
"""Of a depthwise unit, DEPTHWISE and VECTOR: a granule less than `instruction_bytes` says today."""

DEPTHWISE_TILE_BYTES = instruction_bytes(Opcode.LOAD, Opcode.STORE)
"""Of a depthwise tile's copies."""

DEPTHWISE_GROUP_BYTES = instruction_bytes(Opcode.LOAD, Opcode.LOAD)
"""Of a channel group's loads: weights and parameters."""
