"""What a simulator runs while its compiler's profile is taken: a small network, every engine.

A 3x3 convolution, a depthwise one and a 1x1 convolution, each with its RESCALE, in about ten
thousand cycles. Results are not looked at: both programs are of the same RTL.
"""

from pathlib import Path

import numpy as np

from spec.config import NpuConfig
from spec.memmap import OFFSETS, Control
from spec.numerics import scale_to_multiplier
from sw.compiler.tosa.graph import Graph
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.layout import MemoryLayout, memory_base
from sw.runtime.simulator.process import SimulatorProcess
from sw.runtime.simulator.recipe import environment_flag

VARIABLE = "SYSTOLA_PGO"
"""Set to 1: simulators are compiled twice, the second time with a profile of the first."""
_LIMIT = 2_000_000
_SIDE, _CHANNELS = 12, 32


def profile_wanted() -> bool:
    """Whether `SYSTOLA_PGO` asks for it; `BuildError` says what it may be."""
    return environment_flag(VARIABLE)


def train(program: Path, config: NpuConfig) -> None:
    """Run the network on a simulator of `config`; `BuildError` if it does not end."""
    from sw.compiler import compile_graph

    layout = MemoryLayout(compile_graph(network(), config), memory_base(config))
    process = SimulatorProcess(program, memory_base(config))
    try:
        layout.place(process.memory)
        process.memory.configure(latency=100, windows=layout.windows())
        process.reset()
        process.write([*layout.registers(), (OFFSETS["IRQ_ENABLE"], 1)])
        done, _ = process.run(OFFSETS["CONTROL"], Control.START, _LIMIT)
        process.close()
    finally:
        process.kill()
    if not done:
        raise BuildError(f"{program}: its training did not end within {_LIMIT} cycles")


def network() -> Graph:
    """Three convolutions of random weights."""
    graph, rng = Graph(name="training"), np.random.default_rng(0)
    x = graph.add_input("x", (1, _SIDE, _SIDE, _CHANNELS))
    multiplier, shift = scale_to_multiplier(0.002)
    for kind, weights in (
        ("CONV2D", (_CHANNELS, 3, 3, _CHANNELS)),
        ("DEPTHWISE_CONV2D", (3, 3, _CHANNELS, 1)),
        ("CONV2D", (_CHANNELS, 1, 1, _CHANNELS)),
    ):
        pad = 0 if weights[1:3] == (1, 1) else 1
        operands = [
            graph.add_constant("weight", rng.integers(-127, 128, weights), "int8"),
            graph.add_constant("bias", rng.integers(-999, 999, _CHANNELS), "int32"),
            graph.add_constant("x_zp", [0], "int8"),
            graph.add_constant("w_zp", [0], "int8"),
        ]
        attributes = {"pad": (pad,) * 4, "stride": (1, 1), "dilation": (1, 1)}
        sums = graph.add_op(kind, [x, *operands], attributes)
        scale = [
            graph.add_constant("multiplier", [multiplier], "int32"),
            graph.add_constant("shift", [shift], "int8"),
            graph.add_constant("input_zp", [0], "int32"),
            graph.add_constant("output_zp", [0], "int8"),
        ]
        x = graph.add_op("RESCALE", [sums, *scale], {"per_channel": False}, out_dtype="int8")
    graph.outputs = [x]
    graph.verify()
    return graph
