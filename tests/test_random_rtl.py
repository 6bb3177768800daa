"""Random programs and pipelines, engines running at once: the RTL does what the golden model does.

Every program has a memory of its own latency and stalls. `SYSTOLA_RANDOM=100` runs 100 times as
many; `SYSTOLA_RANDOM_FIRST=7` begins at seed 7; `SYSTOLA_RANDOM_CONFIGS=default,tiny:taps=5` takes
other presets, with settings. `form=fpga` among them takes the form that FPGAs get.
"""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from random_pipelines import random_pipeline
from random_programs import random_program
from random_repeats import repeated

from golden_model import Machine
from spec import Image, Opcode, preset
from spec.config import parse_settings
from spec.isa import Point, decode

FIRST = int(os.environ.get("SYSTOLA_RANDOM_FIRST", "0"))
FACTOR = int(os.environ.get("SYSTOLA_RANDOM", "1"))
USUAL = (
    "tiny,tiny:form=fpga,micro:form=fpga,rect,"
    "odd:vector_lanes=4:vector_contexts=1:weight_rows=2:load_window=2:depthwise_columns=2"
)
FPGA = "form=fpga"
CONFIGS = os.environ.get("SYSTOLA_RANDOM_CONFIGS", USUAL).split(",")
PROGRAMS, PIPELINES = 6 * FACTOR, 15 * FACTOR
TINY = preset("tiny")
NEWER = ("indexed", "a_one", "b_one", "b_none", "reduce_lanes", "transposed")


@pytest.fixture(scope="module", params=CONFIGS)
def device(request, tmp_path_factory) -> Iterator[object]:
    from sw.runtime.rtl import RtlDevice
    from sw.runtime.simulator.generated import generate_rtl

    name, *settings = request.param.split(":")
    fpga = FPGA in settings
    config = preset(name).with_settings(parse_settings([s for s in settings if s != FPGA]))
    folder = tmp_path_factory.mktemp("rtl")
    npu = RtlDevice(config, verilog=generate_rtl(config, folder, for_fpga=True) if fpga else None)
    yield npu
    npu.close()


def agree(device, seed: int, made: Image, inputs: dict, want: dict) -> None:
    """Run on the device, with a memory that the seed makes, and compare every output."""
    rng = np.random.default_rng(seed)
    latency = int(rng.integers(1, 401))
    stall = float(rng.uniform(0, 0.5)) if rng.random() < 0.7 else 0.0
    device.set_memory(latency=latency, stall=stall, seed=seed)
    device.load(made)
    for name, array in inputs.items():
        device.write(name, array)
    device.run()
    for name, array in want.items():
        what = f"{device.config.name}, seed {seed}, latency {latency}, stall {stall}: {name}"
        np.testing.assert_array_equal(device.read(name), array, what)


@pytest.mark.rtl
@pytest.mark.timeout(600 * FACTOR)
def test_random_programs_leave_the_same_memories(device) -> None:
    again = 0
    for seed in range(FIRST, FIRST + PROGRAMS):
        made, inputs, want, _ = random_program(seed, device.config, many=12)
        agree(device, seed, made, inputs, want)
        if found := repeated(made, inputs, np.random.default_rng(seed)):
            agree(device, seed, found[0], inputs, found[1])
            again += 1
    assert (again > PROGRAMS // 4) is device.config.program_loops, "few sections can run again"


@pytest.mark.rtl
@pytest.mark.timeout(600 * FACTOR)
def test_random_pipelines_give_what_numpy_gives(device) -> None:
    for seed in range(FIRST, FIRST + PIPELINES):
        pipeline, made = random_pipeline(seed, device.config)
        agree(device, seed, made, {"x": pipeline.data}, {"y": pipeline.expected()})


def test_random_pipelines_are_free_of_hazards_and_right_on_the_golden_model() -> None:
    for seed in range(40):
        pipeline, made = random_pipeline(seed, TINY)
        got = Machine(TINY).run(made, {"x": pipeline.data})["y"]
        np.testing.assert_array_equal(got, pipeline.expected(), f"seed {seed}")


def instructions(made: Image) -> list:
    code, at, out = made.program.tobytes(), 0, []
    while at < len(code):
        out.append(decode(code, at))
        at += 16 * out[-1].format.granules
    return out


def test_random_programs_have_every_kind_of_semaphore_and_operand() -> None:
    """Or comparing them would show less than it seems to."""
    found = set()
    for seed in range(8):
        for instruction in instructions(random_program(seed, TINY, many=12)[0]):
            found |= {(instruction.opcode, name) for name in NEWER if instruction.values.get(name)}
            for kind, slots in (("wait", instruction.waits), ("post", instruction.posts)):
                for slot in slots:
                    found.add((instruction.opcode, kind, slot.point))
                    found.add((kind, slot.level > 0))
    engines = (Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.DEPTHWISE, Opcode.VECTOR)
    wanted = {(op, kind, Point.DONE) for op in engines for kind in ("wait", "post")}
    wanted |= {(op, "post", Point.READ) for op in engines if op is not Opcode.LOAD}
    wanted |= {(Opcode.MATRIX, kind, Point.WEIGHTS) for kind in ("wait", "post")}
    wanted |= {(kind, True) for kind in ("wait", "post")}
    wanted |= {(Opcode.LOAD, "indexed"), (Opcode.STORE, "indexed")}
    wanted |= {(Opcode.MATRIX, "transposed")}
    wanted |= {(Opcode.VECTOR, name) for name in NEWER if name not in ("indexed", "transposed")}
    assert wanted <= found
