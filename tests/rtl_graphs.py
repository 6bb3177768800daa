"""TOSA graphs on the RTL, for the tests of what the compiler makes of them."""

import numpy as np
from compiler_graphs import random_inputs

from spec.config import NpuConfig
from sw.compiler.compilation import Compilation
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice


def assert_runs_exactly(device: RtlDevice, config: NpuConfig, g: Graph, seed: int) -> Compilation:
    """Run `g` on `device`, without stalls and with; every output equals the interpreter's."""
    inputs = random_inputs(g, seed)
    want = run_graph(g, inputs)
    made = run_stages(g, config)
    for stall in (0.0, 0.3):
        device.set_memory(stall=stall, seed=seed)
        device.load(made.image)
        for name, data in inputs.items():
            device.write(name, data)
        device.run()
        for name, value in want.items():
            assert np.array_equal(device.read(name), value), f"{name}, seed {seed}, {stall}"
    return made
