"""Several NPUs with one memory: interconnect, doorbells, batch and pipeline on the RTL."""

from dataclasses import replace

import numpy as np
import pytest

from cocotb_tests.harness.bench import run_bench
from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.cut.balance import cut_network
from sw.compiler.tosa.graph import Graph
from sw.runtime.npus import registers as at
from sw.runtime.npus.device import NpusDevice
from sw.runtime.npus.jobs import batch, pipeline, separate
from sw.runtime.npus.system import NpuSystem, NpuSystemError
from sw.runtime.rtl import DeviceFault
from sw.runtime.session import golden_outputs, random_inputs
from sw.runtime.simulator.control import SharedMemory
from sw.runtime.simulator.errors import SimulationError
from sw.runtime.simulator.generated import ROOT, RTL
from sw.runtime.simulator.training import network

pytestmark = pytest.mark.rtl

TINY = preset("tiny")


@pytest.mark.parametrize(("npus", "words"), [(3, 1), (2, 4)])
def test_the_interconnect_keeps_order_under_back_pressure(tmp_path, npus, words):
    memory = SharedMemory(tmp_path, 1 << 30, 1 << 17)
    names = ("npus_fifo", "npus_round_robin", "npus_read", "npus_write")
    run_bench(
        "cocotb_tests.npus_bus_bench",
        "npus_bus_tb",
        [
            *(RTL / "npus" / f"{name}.sv" for name in names),
            RTL / "dpi_memory.sv",
            ROOT / "cocotb_tests" / "npus_bus_tb.sv",
        ],
        cpp=[RTL / "dpi_memory.cpp"],
        parameters={"N": npus, "K": words},
        plusargs=[f"+memory={memory.memory_path}", f"+control={memory.control_path}"],
        env={"SYSTOLA_MEMORY": str(tmp_path), "SYSTOLA_NPUS": f"{npus} {words}"},
        at_least=12 + 2 + 1,
    )


@pytest.fixture(scope="module")
def two():
    """Two NPUs of preset tiny with a memory of two bus words that stalls."""
    with NpusDevice(NpuSystem.of(TINY, 2, "wide"), stall=0.2, seed=3, latency=20) as device:
        yield device


@pytest.fixture(scope="module")
def work():
    """(graph, image, samples, golden outputs)"""
    graph = network()
    image = compile_graph(graph, TINY)
    samples = [random_inputs(image, seed) for seed in range(5)]
    return graph, image, samples, [golden_outputs(image, sample) for sample in samples]


def assert_same(expected, outputs):
    assert len(expected) == len(outputs)
    for number, (want, got) in enumerate(zip(expected, outputs, strict=True)):
        assert want.keys() == got.keys()
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"sample {number}")


def test_batch_is_exact_and_faster_than_one(two, work):
    _, image, samples, expected = work
    outputs, result = two.run(batch(image, 2, 5), samples)
    assert_same(expected, outputs)
    assert [share.runs for share in result.shares] == [3, 2]
    alone_outputs, alone = two.run(batch(image, 1, 5), samples)
    assert_same(expected, alone_outputs)
    assert alone.cycles > 1.5 * result.cycles
    # A memory word is two bus words; who reads it, and when, changes nothing.
    words = sum(share.read_words for share in result.shares)
    assert words == alone.shares[0].read_words
    assert words / 2 <= result.memory_reads == alone.memory_reads < 0.6 * words
    assert 0.9 < result.fairness <= 1


def test_pipeline_is_exact_and_overlaps_its_stages(two, work):
    graph, _, samples, expected = work
    stages = cut_network(graph, TINY, 2)
    outputs, result = two.run(pipeline([s.image for s in stages], 5), samples)
    assert_same(expected, outputs)
    assert [share.runs for share in result.shares] == [5, 5]
    assert result.cycles < 0.95 * sum(share.busy for share in result.shares)
    # The second stage waits for the first sample.
    assert result.shares[1].waited > result.shares[0].busy / 5


def test_independent_images_run_at_the_same_time(two, work):
    """Two programs that share nothing but the memory."""
    _, image, samples, expected = work
    other = compile_graph(chain(3), TINY)
    given = random_inputs(other, 9)
    outputs, result = two.run(separate([image, other]), [samples[0], given])
    assert_same([expected[0], golden_outputs(other, given)], outputs)
    assert result.cycles < 1.1 * result.shares[0].busy
    assert 0 < result.shares[1].busy < result.shares[0].busy


def test_a_bell_that_is_not_there_is_refused_and_remembered(two):
    with pytest.raises(SimulationError, match="SLVERR"):
        two.write_register(at.doorbell(2, 0), 1)
    bell = two.read_register(at.BAD_BELL)
    assert bell == at.BAD | at.doorbell(2, 0)
    two.write_register(at.BAD_BELL, 0)
    assert not two.read_register(at.BAD_BELL) & at.BAD
    with pytest.raises(NpuSystemError, match=r"doorbell of NPU 2, semaphore 0: there are NPUs 0…1"):
        two.ring(2, 0)


def test_a_semaphore_keeps_its_level_where_it_would_overflow(two):
    two.ring(1, 3, 200)
    with pytest.raises(SimulationError, match="SLVERR"):
        two.ring(1, 3, 56)
    assert two.read_register(at.doorbell(1, 3)) == 200
    two.ring(1, 3, 55)
    assert two.read_register(at.doorbell(1, 3)) == 255
    two.write_register(at.BAD_BELL, 0)


def test_pages_and_registers_that_are_not_there_are_refused(two):
    for address in (at.npu_page(2), at.npu_page(0, 0xFFC), 0x3FC, at.runner(2, "RUNS"), 0xE00):
        with pytest.raises(SimulationError, match="SLVERR"):
            two.read_register(address)


def test_a_runner_that_rings_nobody_ends_with_an_error(two, work):
    _, image, samples, _ = work
    plan = batch(image, 2, 2)
    bad = [plan.jobs[0], replace(plan.jobs[1], bells=((5, 0),))]
    with pytest.raises(SimulationError, match=r"NPU 1, sample 1: it rang a doorbell .* 0x850"):
        two.run(replace(plan, jobs=tuple(bad)), samples[:2])


def test_a_run_that_nobody_rings_for_is_told_with_its_state(two, work, monkeypatch):
    _, image, samples, expected = work
    plan = batch(image, 1, 1)
    waiting = replace(plan, jobs=(replace(plan.jobs[0], waits=(2,)),))
    monkeypatch.setattr(two, "max_cycles", 2000)
    with pytest.raises(SimulationError) as error:
        two.run(waiting, samples[:1])
    assert "does not end within 2000 cycles" in str(error.value)
    assert "semaphores [0, 0, 0, 0], waits for [2]" in str(error.value)
    monkeypatch.undo()
    outputs, _ = two.run(plan, samples[:1])
    assert_same(expected[:1], outputs)


def test_stop_lets_a_waiting_runner_rest(two):
    two.write_register(at.runner(0, "RUNS"), 1)
    two.write_register(at.runner(0, "WAIT"), 1 << 2)
    two.write_register(at.GO, 1)
    assert two.read_register(at.GO) == 1
    with pytest.raises(SimulationError, match="SLVERR"):
        two.write_register(at.runner(0, "RUNS"), 7)
    assert two.read_register(at.IRQ) == 0
    two.write_register(at.STOP, 1)
    assert [two.read_register(at.GO), two.read_register(at.STOP)] == [0, 0]
    assert two.read_register(at.runner(0, "RUNS")) == 1
    assert two.read_register(at.runner(0, "COMPLETED")) == 0
    assert two.read_register(at.IRQ) == 1
    two.write_register(at.IRQ, 1)
    assert two.read_register(at.IRQ) == 0


def test_a_dram_behind_the_interconnect_changes_cycles_and_nothing_else(work):
    _, image, samples, expected = work
    system = NpuSystem.of(TINY, 2, "wide")
    with NpusDevice(system, memory="ddr4") as device:
        outputs, slow = device.run(batch(image, 2, 2), samples[:2])
    with NpusDevice(system, latency=4) as device:
        same, fast = device.run(batch(image, 2, 2), samples[:2])
    assert_same(expected[:2], outputs)
    assert_same(expected[:2], same)
    assert slow.cycles > fast.cycles
    assert slow.memory_reads == fast.memory_reads


def test_a_fault_names_npu_and_sample(two, work):
    _, image, samples, expected = work
    plan = batch(image, 2, 4)
    # Program of NPU 1 ends in the middle.
    short = replace(plan.jobs[1].program, size=image.program.size // 32 * 16)
    jobs = (
        plan.jobs[0],
        replace(
            plan.jobs[1], program=short, image=replace(image, program=image.program[: short.size])
        ),
    )
    with pytest.raises(DeviceFault, match=r"NPU 1, sample 1: .* ILLEGAL_INSTRUCTION in fetch"):
        two.run(replace(plan, jobs=jobs), samples[:4])
    outputs, _ = two.run(batch(image, 2, 4), samples[:4])
    assert_same(expected[:4], outputs)


def chain(layers: int) -> Graph:
    """CLAMPs behind one another."""
    graph = Graph(name="chain")
    x = graph.add_input("x", (1, 4, 4, 8))
    for number in range(layers):
        x = graph.add_op("CLAMP", [x], {"min_val": -100 + number, "max_val": 100 - number})
    graph.outputs = [x]
    return graph


def test_a_wide_memory_has_a_word_for_each_npu_and_more():
    system = NpuSystem.of(TINY, 3, "wide")
    assert (system.words, system.word_bytes, system.page_bits) == (4, 32, 2)
    assert NpuSystem.of(TINY, 3).words == NpuSystem.of(TINY, 1, "wide").words == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NpuSystem.of(TINY, 0), "--npus 0: must be 1…16"),
        (lambda: NpuSystem.of(TINY, 17), "--npus 17: must be 1…16"),
        (lambda: NpuSystem.of(TINY, 2, "wied"), "--shared-memory wied: must be one of narrow, "),
        (lambda: NpuSystem.of(TINY, 16, "wide"), "words of 128 bytes; the simulated memory has 64"),
        (lambda: NpuSystem(config=TINY, npus=2, words=3), "memory of 3 bus words: must be a power"),
        (lambda: batch(compile_graph(chain(1), TINY), 2, 1), "--samples 1: fewer than the 2 NPUs"),
        (lambda: batch(compile_graph(chain(1), TINY), 1, 0), "--samples 0: must be 1 or more"),
        (
            lambda: pipeline([compile_graph(chain(1), TINY), compile_graph(network(), TINY)], 1),
            "stage 0 gives .* they are not stages of one network",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(NpuSystemError, match=message):
        make()
