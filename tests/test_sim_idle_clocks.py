"""Clocks that stand still change nothing: every engine does the same in every cycle."""

import numpy as np
import pytest
from sim_programs import SIZE, deadlock, repeated_copy

from spec import preset
from sw.compiler import compile_graph
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.simulator.generated import generate_rtl
from sw.runtime.simulator.training import network

pytestmark = [pytest.mark.rtl, pytest.mark.slow]
CONFIG = preset("tiny").with_settings({"max_burst": "64"})
"""Fetch reads 128 words ahead, and takes as many cycles to throw them away."""
IDLE = "assign gated = clk & open;"


def transcript(folder, sources, stall):
    """Outputs, cycles and what each engine did, of runs before and after a fault."""
    events, said = folder / "events.bin", []
    graph = network()
    x = np.random.default_rng(5).integers(-128, 128, (1, 12, 12, 32)).astype(np.int8)
    program, stuck = compile_graph(graph, CONFIG), deadlock(CONFIG)
    copies = repeated_copy(CONFIG)
    with RtlDevice(
        CONFIG, verilog=sources, events=events, stall=stall, seed=3, watchdog=3000
    ) as device:
        for image in (program, copies, stuck, program, program):
            device.load(image)
            if image is stuck:
                with pytest.raises(DeviceFault, match="WATCHDOG"):
                    device.run()
                continue
            device.write("x", x if image is program else x.reshape(-1)[:SIZE])
            cycles = device.run().cycles
            said.append((cycles, device.read(image.outputs[0].name).tobytes(), events.read_bytes()))
    return said


def test_every_engine_does_the_same_in_every_cycle(tmp_path):
    awake = generate_rtl(CONFIG, tmp_path / "awake", loops=True)
    clock = next(path for path in awake if path.stem == "systola_idle_clock")
    text = clock.read_text()
    assert text.count(IDLE) == 1
    clock.write_text(text.replace(IDLE, "assign gated = clk;"))
    for stall in (0.0, 0.3):
        always, sometimes = (transcript(tmp_path, files, stall) for files in (awake, None))
        assert sometimes == always
        assert len(always) == 4 and len(always[0][2]) > 10_000
