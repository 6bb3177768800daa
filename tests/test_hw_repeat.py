"""REPEAT: fetch runs a section again, moves its addresses, and refuses what cannot end well."""

import random

import pytest
from hw_bench import FPGA
from hw_dma_bench import small
from hw_fetch_bench import FetchBench, begin, encode, legal

from golden_model.program import Program
from spec import preset
from spec.isa import DISPLACED, STEPS, Instruction, IsaError, Opcode, Space, encode_program
from spec.memmap import Fault
from spec.repeat import ProgramTooLongError, displaced, executed_program, listing

END = Instruction(Opcode.END)


def repeat(section, count, *steps):
    """A REPEAT of the instructions `section`."""
    granules = sum(each.format.granules for each in section)
    step = [{"bytes": step} for step in steps]
    return Instruction(Opcode.REPEAT, {"count": count, "section": granules, "step": step})


def moving(rng, config, opcode=None):
    """A legal instruction with displaced addresses."""
    one = legal(rng, config, opcode)
    by = {f"{name}_by": rng.randint(0, STEPS) for name in DISPLACED[one.opcode]}
    return Instruction(one.opcode, {**one.values, **by})


def steps(rng):
    return [rng.choice([0, 1, -16, rng.randint(-(1 << 39), (1 << 39) - 1)]) for _ in range(STEPS)]


def two_sections(config, rng):
    """A program in which a section runs four times, and the last one of the program three times."""
    first = [moving(rng, config) for _ in range(3)]
    second = [moving(rng, config, Opcode.LOAD)]
    return [
        begin(config),
        legal(rng, config),
        *(*first, repeat(first, 3, *steps(rng))),
        moving(rng, config),
        *(*second, repeat(second, 2, *steps(rng))),
        END,
    ]


def unrolled(stored):
    """What runs, worked out in another way: section by section."""
    out = []
    for i, one in enumerate(stored):
        if one.opcode is not Opcode.REPEAT:
            out.append(displaced(one, [0] * STEPS))
            continue
        section, granules = [], one["section"]
        while granules:
            section.insert(0, stored[i - 1 - len(section)])
            granules -= section[0].format.granules
        for n in range(1, one["count"] + 1):
            moved = [n * step["bytes"] for step in one["step"]]
            out += [displaced(each, moved) for each in section]
    return out


@pytest.mark.parametrize("seed", range(4))
def test_run_order_is_that_of_the_unrolled_program(seed):
    config = preset("tiny")
    program = two_sections(config, random.Random(seed))
    expected = unrolled(program)
    assert len(expected) == 1 + 1 + 4 * 3 + 1 + 3 + 1
    assert executed_program(encode_program(program)) == expected
    assert Program(encode_program(program), config).instructions == expected


@pytest.mark.parametrize("bus", [8, 16, 32, 64])
@pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])
def test_section_runs_again_with_moved_addresses(bus, form):
    config = small(bus_bytes=bus, max_burst=[16, 4][bus > 16], queue_depth=2)
    rng = random.Random(bus)
    program = two_sections(config, rng)
    address = 4096 - 16 * rng.randint(1, 9)
    bench = FetchBench(
        config, encode(program), address=address, seed=bus, latency=30, stall=0.3, form=form
    ).run()
    bench.check(unrolled(program))
    ends = [at + beats * bus for _, at, beats, _ in bench.memory.requests]
    assert max(ends) <= -(-(address + len(encode(program))) // bus) * bus


def test_displacements_end_with_their_section_and_with_the_program():
    config = small(bus_bytes=16)
    rng = random.Random(1)
    section = [moving(rng, config, Opcode.LOAD)]
    program = [begin(config), *section, repeat(section, 2, 64, 32, 16, 8), *section, END]
    bench = FetchBench(config, encode(program), latency=10).run(again=1)
    loads = [start.instr.mem_base for _, start, _ in bench.taken["load"]]
    assert loads == [one["mem_base"] for one in unrolled(program)[1:-1]] * 2


def test_a_section_runs_again_as_soon_in_a_long_program_as_in_a_short_one():
    """Fetch forgets what it has not asked for in one step, however much of the program that is."""
    config, rng = small(bus_bytes=16, max_burst=4), random.Random(3)
    section, more = [moving(rng, config, Opcode.LOAD)], [legal(rng, config, Opcode.LOAD)] * 200
    ends = []
    for behind in (more[:1], more):
        program = [begin(config), *section, repeat(section, 2, 64), *behind, END]
        bench = FetchBench(config, encode(program), latency=20).run()
        bench.check(unrolled(program))
        # The section is asked for once more for each run but the first.
        section_at = bench.address + 16 * program[0].format.granules
        again = [cycle for _, at, _, cycle in bench.memory.requests if at == section_at]
        assert len(again) == 2
        ends.append(again[-1])
    # What it had asked for must come.
    assert ends[1] <= ends[0] + 40


def fault_of(config, program):
    """How golden and hardware end: both must stop with the same fault."""
    code = encode(program)
    bench = FetchBench(config, code, latency=15).run()
    golden = Program(code, config)
    assert not bench.done and golden.error is not None
    assert bench.fault == (Fault.ILLEGAL_INSTRUCTION, len(golden.instructions))
    return str(golden.error)


def test_section_before_the_program_faults():
    config = small(bus_bytes=16)
    head = [begin(config), legal(random.Random(1), config)]
    far = repeat([*head, *head], 1)
    assert "REPEAT of what lies before the program" in fault_of(config, [*head, far, END])


def test_hardware_without_program_loops_takes_neither_repeat_nor_displacements():
    config = small(bus_bytes=16, program_loops=False)
    head = [begin(config), legal(random.Random(1), config, Opcode.LOAD)]
    text = fault_of(config, [*head, repeat(head[1:], 1), END])
    assert "REPEAT: this configuration has program_loops=False" in text
    moved = Instruction(Opcode.LOAD, {**head[1].values, "mem_base_by": 1})
    assert "mem_base_by: value 1: must be 0" in fault_of(config, [head[0], moved, END])
    bench = FetchBench(config, encode([*head, END]), latency=10).run()
    bench.check([*head, END])


def test_section_with_begin_faults():
    config = small(bus_bytes=16)
    head = [begin(config), legal(random.Random(1), config)]
    code = encode([*head, repeat(head, 1), END])
    bench = FetchBench(config, code).run()
    assert bench.fault == (Fault.ILLEGAL_INSTRUCTION, 2)


def test_repeat_within_a_section_faults():
    config = small(bus_bytes=16)
    inner = [legal(random.Random(1), config)]
    outer = [*inner, repeat(inner, 1)]
    text = fault_of(config, [begin(config), *outer, repeat(outer, 1), END])
    assert "REPEAT within a section that is repeated" in text


def test_endless_program_is_impossible():
    """Two REPEATs that lead behind each other: the second one's section holds the first."""
    config = small(bus_bytes=16)
    one = legal(random.Random(2), config)
    first = repeat([one], 1)
    program = [begin(config), one, first, repeat([one, first], 0xFFFF), END]
    assert "REPEAT within a section" in fault_of(config, program)


@pytest.mark.parametrize("space", [Space.PARAM, Space.TABLE])
def test_displacement_keeps_the_alignment_of_parameters(space):
    config = small(bus_bytes=16)
    section = [Instruction(Opcode.LOAD, {"space": space, "run": 16, "mem_base_by": 2})]
    good = [begin(config), *section, repeat(section, 2, 1, 32), END]
    FetchBench(config, encode(good)).run().check(unrolled(good))
    bad = [begin(config), *section, repeat(section, 2, 32, 8), END]
    assert "the same alignment on chip" in fault_of(config, bad)


def test_parameters_are_not_displaced_on_chip():
    config = small(bus_bytes=16)
    one = Instruction(Opcode.LOAD, {"space": Space.PARAM, "run": 16, "chip_base_by": 1})
    assert "PARAM addresses are not displaced" in fault_of(config, [begin(config), one, END])


def test_damaged_count_is_refused_by_software(monkeypatch):
    monkeypatch.setattr("spec.repeat.MOST_EXECUTED", 100)
    config = preset("tiny")
    section = [legal(random.Random(n), config, Opcode.LOAD) for n in range(2)]
    code = encode_program([begin(config), *section, repeat(section, 0xFFFF), END])
    with pytest.raises(ProgramTooLongError, match="the program runs more than 100 instructions"):
        executed_program(code)


def test_listing_numbers_instructions_by_their_first_run():
    config = preset("tiny")
    one = legal(random.Random(3), config, Opcode.LOAD)
    code = encode_program([begin(config), one, one, repeat([one, one], 4, 16), one, END])
    assert [index for index, _ in listing(code)] == [0, 1, 2, 3, 11, 12]
    assert str(list(listing(code))[3][1]) == "repeat count=4 section=12 by1+16"
    assert len(executed_program(code)) == 13


def test_cut_off_section_is_no_program():
    config = preset("tiny")
    one = legal(random.Random(3), config, Opcode.LOAD)
    with pytest.raises(IsaError, match="ends without END"):
        executed_program(encode_program([begin(config), one, repeat([one], 4, 16)]))
