"""Random instructions on the generated RTL: it leaves the memories as the golden model does.

`SYSTOLA_RANDOM=100` runs 100 times as many; `SYSTOLA_RANDOM_CONFIGS=default,small` takes other
presets.
"""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from golden_programs import (
    image,
    random_convolution,
    random_dma,
    random_matrix,
    random_operator,
    random_vector,
    serial,
)
from golden_reference import Reference, randomize
from test_golden_pipeline import WANT, X, pipeline

from golden_model import Machine
from spec import Image, Instruction, NpuConfig, Opcode, preset
from spec.isa import DType, Space

TINY = preset("tiny")
KINDS = {
    "matrix": random_matrix,
    "vector": random_vector,
    "operator": random_operator,
    "convolution": random_convolution,
}
FACTOR = int(os.environ.get("SYSTOLA_RANDOM", "1"))
CONFIGS = os.environ.get("SYSTOLA_RANDOM_CONFIGS", "tiny,rect,odd").split(",")


def open_device(config: NpuConfig) -> Iterator[object]:
    from sw.runtime.rtl import RtlDevice

    npu = RtlDevice(config, latency=5)
    yield npu
    npu.close()


@pytest.fixture(scope="module")
def device() -> Iterator[object]:
    yield from open_device(TINY)


@pytest.fixture(scope="module", params=CONFIGS)
def any_device(request) -> Iterator[object]:
    yield from open_device(preset(request.param))


def whole_memory(config: NpuConfig, instruction: Instruction, rng: np.random.Generator) -> Image:
    """Random contents in, the instruction, and everything that it can change out."""
    reference = Reference(config)
    randomize(reference, rng)
    parts = [np.array(reference.acc, np.int32).view(np.uint8).reshape(-1)]
    for memory in (reference.spad, reference.param, reference.table):
        parts.append(np.frombuffer(bytes(memory), np.uint8))
    acc, spad, param, table = (part.size for part in parts)
    # Accumulators go in and out through the scratchpad.
    through = {"a_type": DType.I32, "o_type": DType.I32, "lanes": config.cols}
    through |= {"o_min": -(1 << 31), "o_max": (1 << 31) - 1}
    vectors, row = config.acc_vectors, 4 * config.cols
    fill = {**through, "o_space": Space.ACC, "loop": [{"count": vectors, "a": row, "o": 1}]}
    drain = {**through, "a_space": Space.ACC, "loop": [{"count": vectors, "a": 1, "o": row}]}
    tables = acc + spad
    body = [
        (Opcode.LOAD, {"run": acc}),
        (Opcode.VECTOR, fill),
        (Opcode.LOAD, {"mem_base": acc, "run": spad}),
        (Opcode.LOAD, {"mem_base": tables, "run": param, "space": Space.PARAM}),
        (Opcode.LOAD, {"mem_base": tables + param, "run": table, "space": Space.TABLE}),
        (instruction.opcode, {**instruction.values, "wait": [], "post": []}),
        (Opcode.STORE, {"region": 2, "run": spad}),
        (Opcode.VECTOR, drain),
        (Opcode.STORE, {"region": 2, "mem_base": spad, "run": acc}),
    ]
    outputs = [("spad", (spad,), "uint8"), ("acc", (vectors, config.cols), "int32")]
    return image(config, serial(body), [], outputs, constants=np.concatenate(parts))


@pytest.mark.rtl
@pytest.mark.timeout(600 * FACTOR)
@pytest.mark.parametrize("kind", KINDS)
def test_rtl_and_golden_model_leave_the_same_memories(kind: str, any_device) -> None:
    device, config = any_device, any_device.config
    # The larger scratchpads take most of the time to fill and to compare.
    for seed in range((8 if config == TINY else 3) * FACTOR):
        rng = np.random.default_rng(seed)
        instruction = KINDS[kind](rng, config)
        program = whole_memory(config, instruction, rng)
        want = Machine(config).run(program, {})
        device.set_memory(latency=int(rng.integers(1, 401)), stall=rng.random() / 2, seed=seed)
        device.load(program)
        device.run()
        for name, array in want.items():
            message = f"{config.name}, seed {seed}, {name}: {instruction}"
            np.testing.assert_array_equal(device.read(name), array, message)


@pytest.mark.rtl
def test_double_buffered_tiles_run_on_the_rtl(device) -> None:
    device.load(pipeline())
    device.write("x", X)
    device.run()
    np.testing.assert_array_equal(device.read("y"), WANT)


@pytest.mark.rtl
def test_random_transfers_leave_the_same_memories(device) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        spad = rng.integers(0, 256, TINY.spad_bytes, dtype=np.uint8)
        moves = []
        while len(moves) < 4:
            move = random_dma(rng, TINY, 2048)
            store = move.opcode is Opcode.STORE
            if store or move["space"] == Space.SPAD:
                values = {**move.values, "region": 3 if store else 0}
                moves.append((move.opcode, {**values, "wait": [], "post": []}))
        body = [
            (Opcode.LOAD, {"run": spad.size}),
            (Opcode.STORE, {"region": 3, "run": 2048}),
            *moves,
            (Opcode.STORE, {"region": 2, "run": spad.size}),
            (Opcode.LOAD, {"region": 3, "run": 2048}),
            (Opcode.STORE, {"region": 2, "mem_base": spad.size, "run": 2048}),
        ]
        outputs = [("spad", spad.shape, "uint8"), ("temp", (2048,), "uint8")]
        program = image(TINY, serial(body), [], outputs, constants=spad, temp_bytes=2048)
        want = Machine(TINY).run(program, {})
        device.load(program)
        device.run()
        for name, array in want.items():
            np.testing.assert_array_equal(device.read(name), array, f"seed {seed}, {name}: {moves}")
