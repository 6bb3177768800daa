"""Programs that golden calls deadlocked end by the watchdog on the RTL, which then runs again."""

from typing import Any

import numpy as np
import pytest
from sim_programs import SIZE, copy, image

from golden_model import DeadlockError, Machine
from spec import Instruction, Opcode, preset
from spec.isa import Point, Sync
from sw.runtime.rtl import DeviceFault, RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]
TINY = preset("tiny")
WATCHDOG = 1500


@pytest.fixture(scope="module")
def device():
    with RtlDevice(TINY, watchdog=WATCHDOG) as opened:
        yield opened


def load(**values: Any) -> Instruction:
    return Instruction(Opcode.LOAD, {"region": 1, "run": 64, **values})


def store(**values: Any) -> Instruction:
    return Instruction(Opcode.STORE, {"region": 2, "run": 64, **values})


def vector(**values: Any) -> Instruction:
    return Instruction(Opcode.VECTOR, {"o_base": 128, "lanes": 4, **values})


def matrix(**values: Any) -> Instruction:
    return Instruction(
        Opcode.MATRIX, {"rows": 4, "cols": 4, "rows_last": 4, "wgt_row": 4, **values}
    )


DEADLOCKS: dict[str, tuple[list[Instruction], str, int]] = {
    "nobody posts": ([store(wait=[Sync(sem=0)])], "store", 1),
    "one post is missing": (
        [load(post=[Sync(sem=4)]), vector(wait=[Sync(sem=4, amount=2)])],
        "vector",
        2,
    ),
    "two wait for each other": (
        [
            load(wait=[Sync(sem=1)], post=[Sync(sem=0)]),
            vector(wait=[Sync(sem=0)], post=[Sync(sem=1)]),
        ],
        "load",
        1,
    ),
    "weights never come": (
        [load(post=[Sync(sem=2)]), matrix(wait=[Sync(sem=3, point=Point.WEIGHTS)])],
        "matrix",
        2,
    ),
    "the post is behind a full queue": (
        [load(wait=[Sync(sem=1)]), *[load()] * (TINY.queue_depth + 2), vector(post=[Sync(sem=1)])],
        "load",
        1,
    ),
    "in the middle of a loop": (
        [
            load(post=[Sync(sem=5, amount=3)]),
            store(run=4, loop=[{"count": 9, "mem": 4, "chip": 4}], wait=[Sync(sem=5, level=1)]),
        ],
        "store",
        2,
    ),
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_is_a_watchdog_fault_that_says_where_every_engine_is(device, name):
    body, engine, index = DEADLOCKS[name]
    made = image(TINY, *body)
    x = np.arange(SIZE, dtype=np.int8)
    with pytest.raises(DeadlockError) as golden:
        Machine(TINY).run(made, {"x": x}, check=False)
    assert f"{engine} at instruction {index} " in str(golden.value).replace(" (weights)", "")
    device.load(made)
    device.write("x", x)
    with pytest.raises(DeviceFault) as fault:
        device.run()
    got = fault.value
    assert (got.cause, got.engine, got.instruction) == ("WATCHDOG", engine, index)
    assert f"no engine made progress for {WATCHDOG} cycles" in str(got)
    assert f"\n  {engine}: {index}: {body[index - 1]}" in str(got)
    for other in ("fetch", "load", "store", "matrix", "vector", "depthwise"):
        assert f"\n  {other}: " in str(got)
    device.load(copy(TINY))
    device.write("x", x)
    device.run()
    np.testing.assert_array_equal(device.read("y"), x)


def test_work_that_takes_longer_than_the_watchdog_is_no_fault(device):
    device.load(image(TINY, store(run=8, loop=[{"count": 4000, "mem": 0, "chip": 0}])))
    assert device.run().cycles > 2 * WATCHDOG


def test_the_usual_watchdog_outlasts_a_slow_memory(device):
    device.watchdog = None
    try:
        device.set_memory(latency=20_000)
        device.load(copy(TINY))
        device.write("x", np.zeros(SIZE, np.int8))
        assert device.run().cycles > 2 * 20_000
    finally:
        device.watchdog = WATCHDOG
        device.set_memory(latency=100)
