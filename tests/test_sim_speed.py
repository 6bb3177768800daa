"""The simulator's speed figure: both simulations run the same program to the same result."""

import numpy as np
import pytest
from sim_programs import SIZE, copy, image, load, store

from spec import preset
from sw.measure import simspeed
from sw.runtime.rtl import RtlDevice
from sw.runtime.simulator.build import Kind, build_simulator
from sw.runtime.simulator.errors import SimulationError

pytestmark = [pytest.mark.rtl, pytest.mark.slow]
CONFIG = preset("micro")
X = np.arange(SIZE, dtype=np.int64).astype(np.int8)


def long_copy(times):
    """Copies x to y `times` times over."""
    loops = [{"count": times}]
    return image(CONFIG, load(loop=loops), store(loop=loops))


def test_both_simulations_are_measured(monkeypatch):
    monkeypatch.setattr(simspeed, "MIN_CYCLES", 100_000)
    speed = simspeed.simspeed(CONFIG, long_copy(900), {"x": X}, rounds=1)
    assert speed.cycles >= simspeed.MIN_CYCLES
    assert speed.ratio == pytest.approx(speed.cocotb_hz / speed.bare_hz)
    assert min(speed.cocotb_hz, speed.bare_hz) > 1000


def test_a_short_run_is_no_measurement():
    with pytest.raises(SimulationError, match="too short, 1000000 are needed"):
        simspeed.simspeed(CONFIG, copy(CONFIG), {"x": X}, rounds=1)


def test_the_bare_run_computes_the_same_in_as_many_cycles():
    bare = build_simulator(CONFIG, Kind.BARE)
    with RtlDevice(CONFIG) as device:
        device.load(copy(CONFIG))
        device.write("x", X)
        cycles = device.run().cycles
        assert simspeed.run_bare(bare, device, cycles) > 0
        assert np.array_equal(device.read("y"), X)
        with pytest.raises(SimulationError, match=r"the bare simulation took \d+ cycles"):
            simspeed.run_bare(bare, device, cycles + 1000)
    bare.release()
