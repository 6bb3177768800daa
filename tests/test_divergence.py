"""A mismatch names the first differing layer, instruction and element."""

import re
from dataclasses import replace

import numpy as np
import pytest
from compiler_graphs import conv, random_inputs, residual_net
from golden_programs import run_partly

from golden_model import Machine
from spec import Image, Instruction, preset
from spec.isa import DType, Opcode, Space, encode_program
from spec.program import REGION_OUTPUT, REGION_TEMP
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.measure.divergence import (
    ACC,
    OUTPUT,
    SPAD,
    TEMP,
    find_divergence,
    layer_of,
    prefix,
)
from sw.measure.onchip import dump_image
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


def instructions_of(net: Image, opcode: Opcode, **values: object) -> list[int]:
    """Where instructions with these values are."""
    body = net.instructions()
    return [
        i
        for i, x in enumerate(body)
        if x.opcode is opcode and all(x[name] == value for name, value in values.items())
    ]


def plain_vectors(net: Image) -> list[int]:
    """VECTORs whose clamp is the last thing that happens to an int8 result."""
    return instructions_of(net, Opcode.VECTOR, table=0, o_space=Space.SPAD, o_type=DType.I8)


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
        run_partly(TINY, prefix(net, body, count), inputs)


def test_layers_of_instructions_are_named(net: Image) -> None:
    last = len(net.instructions()) - 1
    assert layer_of(net, 0) == layer_of(net, last) == ""
    assert layer_of(net, 1) == net.info["layers"][0]["name"]
    assert layer_of(replace(net, info={}), 1) == ""


@pytest.mark.parametrize("pick", [0, 0.5, 1])
def test_a_wrong_clamp_is_found_at_its_instruction(net: Image, inputs, pick: float) -> None:
    vectors = plain_vectors(net)
    index = vectors[int(pick * (len(vectors) - 1))]
    broken = Broken({index: changed(net, index, o_min=-100, o_max=-99)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (layer_of(net, index), index)
    assert found.text == str(net.instructions()[index])
    assert re.match(rf"scratchpad( byte 0x|: {found.layer}\[)", found.element)
    # -100 or -99, as a byte or as an element.
    assert found.got is not None and found.got % 256 in (156, 157)
    assert found.expected != found.got
    assert f"layer {found.layer}, instruction {index} `vector " in str(found)
    assert f"expected {found.expected}, got {found.got}" in str(found)
    # Two for the whole program and the empty one, then a bisection.
    assert broken.runs <= 2 + len(net.instructions()).bit_length()


def test_a_wrong_sum_is_found_in_the_accumulator(net: Image, inputs) -> None:
    index = instructions_of(net, Opcode.MATRIX)[3]
    old = net.instructions()[index]["act_zp"]
    broken = Broken({index: changed(net, index, act_zp=old + 1)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (layer_of(net, index), index)
    assert found.element.startswith("accumulator vector ")


def test_a_wrong_store_is_found_as_an_element_of_its_tensor(net: Image, inputs) -> None:
    index = instructions_of(net, Opcode.STORE)[0]
    name = layer_of(net, index)
    # The first element lands on the second.
    base = net.instructions()[index]["mem_base"]
    broken = Broken({index: changed(net, index, mem_base=base + 1)})
    found = find_divergence(net, inputs, broken)
    assert found is not None
    assert (found.layer, found.instruction) == (name, index)
    assert re.fullmatch(rf"(output|temporary) memory: {name}\[0, 0, 0, 0\]", found.element)
    assert found.got == np.array(0xA5, np.uint8).view(np.int8)  # never written


def test_an_element_in_the_scratchpad_is_named_where_the_tensor_stays_there() -> None:
    g = Graph()
    x = g.add_input("x", (1, 6, 6, 8))
    for seed in range(2):
        x = conv(g, x, 8, 1, seed=seed)
    g.outputs = [x]
    image = compile_graph(g, TINY)
    first = image.info["layers"][0]
    assert first["output"]["region"] is None, "the example no longer stays on chip"
    index = [i for i in plain_vectors(image) if layer_of(image, i) == first["name"]][-1]
    broken = Broken({index: changed(image, index, o_min=-100, o_max=-99)})
    found = find_divergence(image, random_inputs(g, 1), broken)
    assert found is not None and found.instruction == index
    assert found.element.startswith(f"scratchpad: {first['name']}[0, ")
    assert found.got in (-100, -99)


def test_of_two_errors_the_first_is_named(net: Image, inputs) -> None:
    vectors = plain_vectors(net)
    first, second = vectors[len(vectors) // 3], vectors[-1]
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
        index = plain_vectors(net)[5]
        name = layer_of(net, index)
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
        assert found.element.startswith("scratchpad") and found.got % 256 in (156, 157)
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
