"""The debug build's assertions: each bites when its rule is broken, and none on the real NPU."""

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from hw_bench import simulate
from sim_programs import SIZE, copy

import cocotb_tests
from cocotb_tests.harness.bench import run_bench
from golden_model import Machine
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.scratchpad import Scratchpad
from hw_gen.blocks.vector_gather import VectorGather
from hw_gen.blocks.vector_write import DEPTH, VectorWriter
from hw_gen.checks import check
from hw_gen.platform import RtlPlatform
from spec import preset
from spec.program import REGION_INPUT, REGION_OUTPUT
from sw.compiler import compile_graph
from sw.models.kernels import kernel
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.simulator.build import Kind, npu_recipe
from sw.runtime.simulator.control import READ, WRITE
from sw.runtime.simulator.generated import RTL, generate_rtl

TINY = preset("tiny")
BENCH = Path(cocotb_tests.__file__).parent

RULES = {
    "aw_valid": "AXI: AW: valid was dropped before ready",
    "aw_payload": "AXI: AW: the payload changed before ready",
    "aw_4k": "AXI: AW burst at 1fe0 crosses 4 KiB",
    "aw_id": "AXI: AW has unknown id 1",
    "w_valid": "AXI: W: valid was dropped before ready",
    "w_payload": "AXI: W: the payload changed before ready",
    "w_last": "AXI: wlast is 1 at beat 0 of 0..1",
    "w_without_aw": "AXI: W beat without an AW",
    "w_more": "AXI: W beat without an AW",
    "b_id": "AXI: B has unknown id 1",
    "b_more": "AXI: B without a finished burst",
    "ar_valid": "AXI: AR: valid was dropped before ready",
    "ar_payload": "AXI: AR: the payload changed before ready",
    "ar_4k": "AXI: AR burst at 1f90 crosses 4 KiB",
    "ar_length": "AXI: AR has 9 beats, the limit is 8",
    "ar_size": "AXI: AR has size 3, not the bus width",
    "ar_burst": "AXI: AR burst type 0 is not INCR",
    "r_id": "AXI: R of id 0 was not asked for",
    "r_more": "AXI: R of id 1 was not asked for",
    "lite_b": "AXI-Lite: B without a write",
    "lite_r_valid": "AXI: Lite R: valid was dropped before ready",
    "lite_r_payload": "AXI: Lite R: the payload changed before ready",
}


def run_checks(rule):
    return run_bench(
        "cocotb_tests.axi_checks_bench",
        "axi_checks_tb",
        [RTL / "axi_checks.sv", BENCH / "axi_checks_tb.sv"],
        plusargs=[f"+break={rule}"],
    )


@pytest.mark.rtl
def test_a_correct_manager_breaks_no_rule():
    assert "AXI" not in run_checks("none").replace("axi", "")


@pytest.mark.rtl
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_stops_the_simulation(rule):
    with pytest.raises(AssertionError) as error:
        run_checks(rule)
    assert RULES[rule] in str(error.value)


def test_post_queue_refuses_to_fire_what_it_does_not_hold():
    dut = PostQueue(4)

    async def run(ctx):
        ctx.set(dut.fire, 1)
        for _ in range(2):
            await ctx.tick()

    with pytest.raises(AssertionError, match="post queue: fired but not held"):
        simulate(dut, run)


def test_scratchpad_refuses_addresses_beyond_its_end():
    dut = Scratchpad(TINY, tags=[0], writes=0)

    async def run(ctx):
        ctx.set(dut.read[0].addr, TINY.spad_bytes - 1)
        ctx.set(dut.read[0].size, 2)
        ctx.set(dut.read[0].valid, 1)
        for _ in range(2):
            await ctx.tick()

    with pytest.raises(AssertionError, match="scratchpad: client 0 is out of range"):
        simulate(dut, run)


def test_vector_writer_refuses_a_claim_without_room():
    dut = VectorWriter(TINY)

    async def run(ctx):
        ctx.set(dut.claim, 1)
        for _ in range(DEPTH + 1):
            await ctx.tick()

    with pytest.raises(AssertionError, match="vector write: claimed without room"):
        simulate(dut, run)


def test_vector_gather_refuses_words_beyond_its_fifo():
    dut = VectorGather(TINY)

    async def run(ctx):
        ctx.set(dut.b.valid, 1)
        for _ in range(20):
            await ctx.tick()

    with pytest.raises(AssertionError, match="vector gather: word of B comes when its FIFO is"):
        simulate(dut, run)


@pytest.mark.parametrize(
    ("platform", "statements"),
    [(None, 1), (RtlPlatform(assertions=True), 1), (RtlPlatform(), 0), (object(), 0)],
)
def test_checks_are_there_only_where_they_are_wanted(platform, statements):
    m = Module()
    check(m, platform, Signal(), "never")
    assert len(m._statements.get("sync", [])) == statements


def test_only_debug_builds_hold_assertions(tmp_path):
    plain, checked = (
        next(
            path.read_text()
            for path in generate_rtl(TINY, tmp_path, assertions=on)
            if path.name == "systola_npu.v"
        )
        for on in (False, True)
    )
    assert "assert" not in plain and "$write" not in plain
    assert checked.count("assert (") >= 30
    for kind in Kind:
        recipe = npu_recipe(TINY, kind, [])
        has = RTL / "axi_checks.sv" in recipe.verilog
        defined = any("SYSTOLA_MAX_BURST" in flag for flag in recipe.flags)
        assert (has, defined, "--assert" in recipe.flags) == (kind is Kind.DEBUG,) * 3


@pytest.mark.rtl
@pytest.mark.slow
def test_the_npu_breaks_no_rule():
    x = np.random.default_rng(1).integers(-128, 128, SIZE, dtype=np.int8)
    with RtlDevice(TINY, debug=True) as device:
        for latency, stall in ((1, 0.0), (100, 0.4)):
            device.set_memory(latency=latency, stall=stall, seed=3)
            device.load(copy(TINY))
            device.write("x", x)
            device.run()
            assert np.array_equal(device.read("y"), x)
        for name in ("conv2d", "depthwise_conv2d", "max_pool2d", "add"):
            work = kernel(name, {"h": 6, "w": 6, "c": 9}, seed=2)
            made = compile_graph(work.graph, TINY)
            device.load(made)
            for port, array in work.inputs.items():
                device.write(port, array)
            device.run()
            for port, array in Machine(TINY).run(made, work.inputs).items():
                assert np.array_equal(device.read(port), array), name
        # A fault and its soft reset break no rule of the ports either.
        for region, access in ((REGION_INPUT, READ), (REGION_OUTPUT, WRITE)):
            device.load(copy(TINY))
            device.write("x", x)
            device.inject_errors(region, 500, 8, access)
            with pytest.raises(DeviceFault, match="AXI_ERROR"):
                device.run()
