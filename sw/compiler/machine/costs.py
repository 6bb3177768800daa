"""Every cycle that the cost model knows of the hardware, once, with what measured it.

Searches for tiles, list scheduling and the timeline of a program all take their figures from here.
Figures marked *fitted* were never measured alone: they were set so that predictions meet the cycles
of the RTL, and what validates them together is the table of predicted and measured networks in
docs/profiling.md ("The cost model"). A changed figure changes plans, and so programs: the golden
digests of networks show which. Those under "Prediction" are read off the RTL, and used by the
timeline alone: they change predictions and nothing else.
"""

import math

from spec.config import PAIR_STRIDE, PAIR_TAPS, NpuConfig
from spec.isa import FORMATS, GRANULE_BYTES, Engine, Opcode


def instruction_bytes(*opcodes: Opcode) -> int:
    """Bytes of a program that so many instructions take."""
    return sum(FORMATS[opcode].granules * GRANULE_BYTES for opcode in opcodes)


# Memory ---------------------------------------------------------------------------------------

MEMORY_LATENCY = 100
"""Cycles from a memory request to its data. It is the latency of the simulated memory with which
docs/benchmarks.md measures."""

MOST_WRITES, MANY_WRITES, FEW_WRITES = 128, 96, 32
"""Accesses that a DRAM's controller has to write: most of all; when they go before reads; and those
that are left then (`kQueue`, `kMany`, `kFew` in rtl/dram.h)."""

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
    Engine.MATRIX: 27,
}
"""The same for engines of which more is on its way when their last step is over: requests to
memory, and sums in the array, which leave it `cycles_through_array` later: 17 on `default`, and
`READY`. For that configuration, used on all."""

HANDOVER = 40
"""Cycles from the last vector of a tensor that stays on chip to the first that reads it: the vector
engine's pipeline, its writer, a post and a wait. Fitted with the networks of decision 20."""


def weight_cycles(config: NpuConfig, transposed: bool = False) -> int:
    """Cycles in which the array takes the weights of a whole fold: the least that a fold takes."""
    vectors = config.cols if transposed else config.rows
    return -(-vectors // config.weight_rows)


def fold_cycles(vectors: int, config: NpuConfig, transposed: bool = False) -> int:
    """Cycles of a fold of so many vectors: theirs, or those in which the array takes the weights of
    the next one. About as many of both meet at a bank now and then.
    """
    weights = weight_cycles(config, transposed)
    if not weights <= vectors < 2 * weights:
        return max(vectors, weights)
    met = min(1.0, config.weight_rows / config.banks)
    return max(vectors, math.ceil(weights * (1 + met)))


def columns_read(
    outputs: int, stride: int, kernel_cols: int, config: NpuConfig
) -> list[tuple[int, ...]]:
    """For each read of a DEPTHWISE in a row of outputs, which columns come in it, from 0."""
    if config.depthwise_pairs and (stride, kernel_cols) == (PAIR_STRIDE, PAIR_TAPS):
        # The last output needs the first column of its pair only.
        return [*((2 * i, 2 * i + 1) for i in range(outputs)), (2 * outputs,)]
    return [(i,) for i in range((outputs - 1) * stride + kernel_cols)]


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

# Prediction: what the timeline counts ------------------------------------------------------------

NOTICED = 4
"""Cycles from the end of what a post is for to the first step of who waits for it: the queue of
posts, the semaphore, the grant (hw_gen/blocks/post_queue.py, hw_gen/blocks/semaphores.py)."""

READ_LATENCY = 3
"""Cycles from a read of the scratchpad to its data (`READ_LATENCY` in hw_gen/interfaces.py)."""

VECTOR_LATENCY = 17
"""Cycles from the last read of a VECTOR to its last write, if its result passes neither RESCALE nor
TABLE (hw_gen/blocks/vector_schedule.py)."""

RESCALED, LOOKED_UP = 5, 6
"""Cycles that RESCALE of the result, and TABLE, add to that: `SCALE_O` and `RESCALED` against
`REDUCED`, `VectorTable.LATENCY` and the step behind it (hw_gen/blocks/vector_schedule.py)."""


def depthwise_latency(config: NpuConfig) -> int:
    """Cycles from the last read of a row to its last write (hw_gen/blocks/depthwise.py): one more
    where answers of two columns wait for one another.
    """
    return 8 + config.depthwise_pairs


ACC_WRITE = 4
"""Cycles from a read of activations to its sum in the accumulator, beyond those through the rows
and columns of the array (hw_gen/blocks/matrix.py)."""

LOAD_REQUEST = 6
"""Cycles from a step of LOAD to its request: run, index, burst, address
(hw_gen/blocks/load_requests.py)."""

MERGED_WORDS = 4
"""Words that LOAD collects for a request at most (`MERGE_BEATS` in
hw_gen/blocks/load_requests.py)."""

LOAD_LANDS = 6
"""Cycles from a bus word to the bank that it is for: two beats of buffer, the word that is cut
out, the scratchpad's request and its buffer (hw_gen/blocks/load_writer.py, scratchpad.py)."""

STORE_LEAVES = 8
"""Cycles from a step of STORE to the bus: run, burst, read, beat
(hw_gen/blocks/store_reader.py)."""

FETCH_BURSTS_AHEAD, FETCH_MOST_BEATS = 4, 128
"""Bursts that fetch requests ahead, and bus words that they have at most (`_AHEAD`, `_MOST` in
hw_gen/blocks/dma_program.py)."""

FETCH_ANSWER = 3
"""Cycles that fetch adds to the latency of memory: its request's register, and the buffer of what
comes (hw_gen/blocks/dma_program.py)."""

DECODE = 3
"""Cycles from the last granule of an instruction to its queue (hw_gen/blocks/decode.py)."""

TAKEN = 3
"""Cycles from there to the first step: two in the queue, one in the sequencer
(hw_gen/blocks/instruction_queue.py)."""
