"""Stage `repeats`: what is executed stays the same, in less memory."""

import numpy as np
import pytest
from compiler_graphs import random_inputs

from golden_model import Machine
from spec import preset
from spec.isa import ISA_DIGEST, STEPS, Instruction, Opcode, Space, encode_program
from spec.repeat import executed_program
from sw.compiler.pipeline import run_stages
from sw.compiler.program import repeats
from sw.compiler.program.records import Load
from sw.compiler.program.repeats import store_once
from sw.compiler.program.virtual import VirtualInstruction
from sw.compiler.tosa.interpreter import run_graph
from sw.models.kernels import kernel, parse_shape

TINY = preset("tiny")
KERNELS = (
    ("conv2d", "n=12,h=9,w=9,c=16,oc=24,k=3,p=1"),
    ("depthwise_conv2d", "n=16,h=12,w=12,c=16,k=3,p=1"),
    ("max_pool2d", "n=6,h=16,w=16,c=32,k=2,s=2"),
    ("matmul", "1200x16x16"),
    ("add", "n=5,h=20,w=20,c=32"),
)


@pytest.fixture(autouse=True)
def short_sections(monkeypatch):
    """Sections of few bytes count, too."""
    monkeypatch.setattr(repeats, "LEAST_SIZE", 0)


def test_short_sections_are_not_worth_a_jump(monkeypatch):
    body = [load(mem=64 * i, wait=[], post=[]) for i in range(200)]
    assert len(stored(body)) < 200
    monkeypatch.setattr(repeats, "LEAST_SIZE", 1 << 20)
    assert stored(body) == body


def load(mem=0, chip=0, **values):
    return Instruction(Opcode.LOAD, {"mem_base": mem, "chip_base": chip, "run": 16, **values})


def stored(body, cycles=100_000):
    """The program of `body` as it is stored; its layer takes so many cycles."""
    begin = Instruction(Opcode.BEGIN, {"isa_digest": ISA_DIGEST & 0xFFFFFFFF})
    virtual = [VirtualInstruction(record=Load(), bases={}, accesses=(), layer=0) for _ in body]
    program = [begin, *body, Instruction(Opcode.END)]
    out = store_once(program, virtual, [cycles])
    assert executed_program(encode_program(out)) == program
    return out[1:-1]


def test_steady_addresses_are_displaced():
    body = [load(1000 + 64 * i, 5120 - 32 * i) for i in range(20)]
    first, again = stored(body)
    assert (first["mem_base_by"], first["chip_base_by"]) == (2, 1)
    assert (again["count"], again["section"]) == (19, first.format.granules)
    assert [step["bytes"] for step in again["step"]] == [-32, 64, 0, 0]


def test_addresses_wrap_around_their_field():
    body = [load(0, (16 * i - 64) % (1 << 24)) for i in range(20)]
    assert [x.opcode for x in stored(body)] == [Opcode.LOAD, Opcode.REPEAT]


def test_buffers_in_rotation_make_longer_sections():
    body = [load(64 * i, 4096 * (i % 3)) for i in range(30)]
    assert len(stored(body)) == 3 + 1


def test_sections_do_not_overlap_what_differs():
    body = [load(64 * i) for i in range(20)]
    body[10] = load(640, fill=1)
    assert [x.opcode for x in stored(body)].count(Opcode.REPEAT) == 2


def test_what_has_no_displacement_must_not_change():
    body = [load(space=Space.PARAM, mem=64 * i, chip=64 * i) for i in range(20)]
    assert stored(body) == body


def test_parameters_keep_their_place_in_a_bus_word():
    assert len(stored([load(space=Space.PARAM, mem=64 * i) for i in range(20)])) == 2
    by_two = stored([load(space=Space.PARAM, mem=32 * i) for i in range(20)])
    assert [x.opcode for x in by_two] == [Opcode.LOAD, Opcode.LOAD, Opcode.REPEAT]


def test_more_steps_than_displacements_are_left_alone():
    body = [load((k + 1) * 1000 * i, 7, fill_value=k) for i in range(8) for k in range(STEPS + 1)]
    assert Opcode.REPEAT not in [x.opcode for x in stored(body)]


def test_sections_are_so_long_that_fetch_keeps_ahead():
    body = [load(64 * i) for i in range(600)]
    assert len(stored(body, cycles=600_000)) == 2
    (*section, again) = stored(body, cycles=20_000)
    assert again.opcode is Opcode.REPEAT and 10 < len(section) < 300
    assert stored(body, cycles=3_000) == body


def test_short_sections_that_run_for_long_are_worth_a_jump(monkeypatch):
    monkeypatch.setattr(repeats, "LEAST_SIZE", 1 << 20)
    body = [load(64 * i) for i in range(200)]
    # An instruction takes half of a long run: sections have two or more.
    *section, again = stored(body, cycles=100 * repeats.LONG_RUN)
    assert again.opcode is Opcode.REPEAT and 2 <= len(section) <= 6
    assert stored(body, cycles=repeats.LONG_RUN) == body


@pytest.mark.parametrize(("name", "shape"), KERNELS)
def test_kernels_of_many_samples_take_less_memory_and_give_the_same(name, shape, monkeypatch):
    monkeypatch.setattr(repeats, "FETCH_AGAIN", 0)
    work = kernel(name, parse_shape(shape, name), seed=2)
    done = run_stages(work.graph, TINY)
    assert executed_program(done.image.program.tobytes()) == done.instructions
    assert any(x.opcode is Opcode.REPEAT for x in done.stored)
    assert done.image.program.size < 0.8 * len(encode_program(done.instructions))
    inputs = random_inputs(work.graph, 3)
    got = Machine(TINY).run(done.image, inputs)
    for port, want in run_graph(work.graph, inputs).items():
        assert np.array_equal(got[port], want)
