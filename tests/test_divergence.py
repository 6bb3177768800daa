"""A mismatch names the first differing layer, instruction and element."""

from dataclasses import replace

import numpy as np
import pytest
from compiler_graphs import random_inputs, residual_net

from golden_model import Machine
from spec import Image, Instruction, preset
from spec.isa import Opcode, encode_program
from spec.program import REGION_OUTPUT, REGION_TEMP
from sw.compiler import compile_graph
from sw.runtime.divergence import (
    ACC,
    OUTPUT,
    SPAD,
    TEMP,
    find_divergence,
    layer_of,
    prefix,
)
from sw.runtime.onchip import dump_image
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import run_image
from sw.runtime.simulator.layout import POISON

TINY = preset("tiny")


@pytest.fixture(scope="module")
def net() -> Image:
    return compile_graph(residual_net(), TINY, name="net")


@pytest.fixture(scope="module")
def inputs() -> dict:
    return random_inputs(residual_net(), 3)


class Broken:
    """The golden model with other instructions in some places, seen as a device."""

    def __init__(self, changes: dict[int, Instruction]) -> None:
        self.changes = changes
        self.runs = 0

    def after(self, image: Image, inputs: dict) -> dict:
        self.runs += 1
        body = image.instructions()
        program = [self.changes.get(i, x) for i, x in enumerate(body[:-1])] + body[-1:]
        code = np.frombuffer(encode_program(program), np.uint8)
        machine = Machine(image.config)
        machine.load(replace(image, program=code))
        state = machine.state
        memory = {OUTPUT: state.memory[REGION_OUTPUT], TEMP: state.memory[REGION_TEMP]}
        for part in memory.values():
            part[:] = POISON  # as a simulation has it
        for name, array in inputs.items():
            machine.write(name, array)
        machine.execute(check=False)
        return {**memory, ACC: state.acc, SPAD: state.spad}


def instructions_of(net: Image, opcode: Opcode, layer: str) -> list[int]:
    body = net.instructions()
    return [i for i in range(len(body)) if body[i].opcode is opcode and layer_of(net, i) == layer]


def changed(net: Image, index: int, **values: object) -> Instruction:
    old = net.instructions()[index]
    return Instruction(old.opcode, {**old.values, **values})


def test_prefixes_end_where_they_are_told_to(net: Image) -> None:
    body = net.instructions()
    for count in (0, 1, 7, len(body) - 2):
        cut = prefix(net, body, count).instructions()
        assert [str(x) for x in cut[:-1]] == [str(x) for x in body[: count + 1]]
        assert cut[-1].opcode is Opcode.END


def test_every_prefix_of_a_program_runs_to_its_end_without_hazards(net: Image, inputs) -> None:
    body = net.instructions()
    for count in range(0, len(body) - 1, 9):
        Machine(TINY).run(prefix(net, body, count), inputs)


def test_layers_of_instructions_are_named(net: Image) -> None:
    last = len(net.instructions()) - 1
    assert layer_of(net, 0) == layer_of(net, last) == ""
    assert layer_of(net, 1) == net.info["layers"][0]["name"]
    assert layer_of(replace(net, info={}), 1) == ""


@pytest.mark.parametrize("layer", [0, 1, 4])
def test_a_wrong_clamp_is_found_at_its_instruction(net: Image, inputs, layer: int) -> None:
    name = net.info["layers"][layer]["name"]
    index = instructions_of(net, Opcode.VECTOR, name)[-1]
    broken = Broken({index: changed(net, index, o_min=-100, o_max=-99)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (name, index)
    assert found.text == net.instructions()[index].__str__()
    assert found.element.startswith("scratchpad byte 0x")
    assert found.got in (156, 157) and found.expected != found.got
    assert f"layer {name}, instruction {index} `vector " in str(found)
    assert f"expected {found.expected}, got {found.got}" in str(found)
    # Two for the whole program and the empty one, then a bisection.
    assert broken.runs <= 2 + len(net.instructions()).bit_length()


def test_a_wrong_sum_is_found_in_the_accumulator(net: Image, inputs) -> None:
    name = net.info["layers"][1]["name"]
    index = instructions_of(net, Opcode.MATRIX, name)[0]
    old = net.instructions()[index]["act_zp"]
    broken = Broken({index: changed(net, index, act_zp=old + 1)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (name, index)
    assert found.element.startswith("accumulator vector ")


def test_a_wrong_store_is_found_as_an_element_of_its_tensor(net: Image, inputs) -> None:
    name = net.info["layers"][0]["name"]
    index = instructions_of(net, Opcode.STORE, name)[0]
    # The first element lands on the second.
    base = net.instructions()[index]["mem_base"]
    broken = Broken({index: changed(net, index, mem_base=base + 1)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (name, index)
    assert found.element == f"temporary memory: {name}[0, 0, 0, 0]"
    assert found.got == np.array(0xA5, np.uint8).view(np.int8)  # never written


def test_of_two_errors_the_first_is_named(net: Image, inputs) -> None:
    first, second = (
        instructions_of(net, Opcode.VECTOR, net.info["layers"][i]["name"])[0] for i in (1, 3)
    )
    wrong = {i: changed(net, i, o_min=-100, o_max=-99) for i in (second, first)}
    found = find_divergence(net, inputs, Broken(wrong))
    assert found is not None and found.instruction == first


def test_equal_runs_have_no_divergence(net: Image, inputs) -> None:
    assert find_divergence(net, inputs, Broken({})) is None


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_a_corrupted_run_on_rtl_is_found(net: Image, inputs, monkeypatch) -> None:
    with RtlDevice(TINY) as device:
        assert find_divergence(net, inputs, device) is None
        # The RTL gets a program in which one layer clamps wrongly.
        name = net.info["layers"][1]["name"]
        index = instructions_of(net, Opcode.VECTOR, name)[0]
        wrong = changed(net, index, o_min=-100, o_max=-99)
        load = device.load

        def corrupt(image: Image) -> None:
            body = image.instructions()
            program = [wrong if i == index else x for i, x in enumerate(body)]
            if len(body) - 1 <= index or image.info.get("name") != "net":
                program = body
            load(replace(image, program=np.frombuffer(encode_program(program), np.uint8)))

        monkeypatch.setattr(device, "load", corrupt)
        found = find_divergence(net, inputs, device)
        assert found is not None
        assert (found.layer, found.instruction) == (name, index)
        assert found.element.startswith("scratchpad byte 0x") and found.got in (156, 157)
        # A fault is a difference too.
        wrong = changed(net, index, a_base=(1 << 24) - 64)
        found = find_divergence(net, inputs, device)
        assert found is not None and found.instruction == index
        assert found.element.startswith("CHIP_ADDRESS in vector") and found.expected is None


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_on_chip_memories_are_read_back_as_the_golden_model_has_them(net: Image, inputs) -> None:
    with RtlDevice(TINY) as device:
        run_image(net, inputs, device)
        got, _ = run_image(dump_image(TINY), {}, device)
    machine = Machine(TINY)
    machine.run(net, inputs)
    # What this program never wrote holds anything.
    written = machine.state.spad != 0
    np.testing.assert_array_equal(got["spad"][written], machine.state.spad[written])
    assert written.mean() > 0.2
