"""Stages one by one: fusion into layers, allocation, semaphores, dumps, errors; one golden text."""

import gc
import json
import os
from pathlib import Path

import numpy as np
import pytest
from compiler_graphs import conv, random_inputs, rescale, residual_net
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import HazardError, Machine
from golden_model.semaphores import Semaphores
from spec import preset
from spec.isa import DType, Opcode
from sw.compiler import CompileError, compile_graph, stage_names
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.layers import ConvLayer, MoveLayer, PoolLayer, TransposeLayer
from sw.compiler.kernels.slots import Slots
from sw.compiler.lower.stage import lower
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.placement.residency import Residency
from sw.compiler.program.allocate import allocate_on_chip, check_on_chip
from sw.compiler.program.records import DmaLoop
from sw.compiler.program.semaphores import _Assignment
from sw.compiler.program.virtual import Buffer, Place, VirtualProgram, iterations
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.models.kernels import kernel

GOLDEN = Path(__file__).parent / "golden"


def test_network_lowers_to_fused_layers() -> None:
    layers = lower(run_passes(residual_net(), preset("default")), preset("default")).layers
    kinds = [(type(x), x.ops) for x in layers]
    assert kinds == [
        (ConvLayer, ("CONV2D", "RESCALE", "CLAMP")),
        (ConvLayer, ("CONV2D", "RESCALE", "ADD", "RESCALE", "TABLE")),
        (PoolLayer, ("MAX_POOL2D",)),
        (ConvLayer, ("CONV2D", "RESCALE")),
        (TransposeLayer, ("TRANSPOSE",)),
        (MoveLayer, ("PAD",)),
        (PoolLayer, ("AVG_POOL2D",)),
        (ConvLayer, ("CONV2D", "RESCALE")),
        (MoveLayer, ("IDENTITY",)),
    ]
    first = layers[0]
    assert isinstance(first, ConvLayer)
    assert (first.epilogue.low, first.epilogue.high) == (5, 100)
    assert first.epilogue.dtype is DType.I8


def test_value_with_two_readers_is_not_fused_away() -> None:
    g = Graph()
    x = g.add_input("x", (1, 4, 4, 2))
    a = conv(g, x, 3, 1)
    g.outputs = [a, g.add_op("CLAMP", [a], {"min_val": 0, "max_val": 9})]
    layers = lower(g, preset("default")).layers
    assert [x.ops for x in layers] == [
        ("CONV2D", "RESCALE"),
        ("CLAMP",),
    ]


def test_clamps_that_exclude_each_other_follow_their_order() -> None:
    g = Graph()
    x = g.add_input("x", (1, 4, 4, 2))
    y = g.add_op("CLAMP", [x], {"min_val": 0, "max_val": 9})
    g.outputs = [g.add_op("CLAMP", [y], {"min_val": 20, "max_val": 30})]
    inputs = random_inputs(g)
    image = compile_graph(g, preset("tiny"))
    got = Machine(image.config).run(image, inputs)[g.outputs[0]]
    assert (got == 20).all()
    np.testing.assert_array_equal(got, run_graph(g, inputs)[g.outputs[0]])


def test_dumps_show_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    g = kernel("matmul", {"m": 4, "k": 4, "n": 4}).graph
    compile_graph(g, preset("tiny"), dump_after=["all"])
    text = capsys.readouterr().out
    assert [line[4:] for line in text.splitlines() if line.startswith("=== ")] == stage_names()
    compile_graph(g, preset("tiny"), dump_after=["tiling"])
    assert capsys.readouterr().out.startswith("=== tiling\nmatmul: tile 4x1")
    with pytest.raises(CompileError, match=r"dump_after=\['nosuch'\]: no such stage"):
        compile_graph(g, preset("tiny"), dump_after=["nosuch"])


def test_program_of_a_small_kernel_is_as_reviewed() -> None:
    """Set SYSTOLA_UPDATE_GOLDEN=1 to accept a changed schedule; review the difference."""
    work = kernel("matmul", {"m": 6, "k": 9, "n": 10}, seed=1)
    program = run_stages(work.graph, preset("tiny")).instructions
    text = "".join(f"{x}\n" for x in program[1:])
    path = GOLDEN / "compiler_matmul_6x9x10_tiny.txt"
    if os.environ.get("SYSTOLA_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_image_reports_memory_and_layers() -> None:
    image = compile_graph(residual_net(), preset("default"), name="net", on_chip=False)
    assert image.info["name"] == "net"
    assert image.info["layers"][0]["ops"] == ["CONV2D", "RESCALE", "CLAMP"]
    assert 0 < image.info["peak_spad_bytes"] <= image.config.spad_bytes
    assert image.temp_bytes == image.info["temp_bytes"] > 0
    assert [p.shape for p in image.outputs] == [(1, 10), (1, 40, 7, 7), (1, 1, 1, 10)]


def test_image_says_which_layer_each_instruction_belongs_to_and_where_its_result_lies() -> None:
    image = compile_graph(residual_net(), preset("default"), name="net", on_chip=False)
    layers, runs = image.info["layers"], image.info["instruction_layers"]
    owner = [layer for layer, count in runs for _ in range(count)]
    # BEGIN and END belong to none.
    assert len(owner) == len(image.instructions()) - 2
    assert set(owner) == set(range(len(layers)))
    stores = [i for i in image.instructions() if i.opcode is Opcode.STORE]
    assert {s["region"] for s in stores} == {x["output"]["region"] for x in layers}
    for layer in layers:
        output = layer["output"]
        extent = sum(
            (n - 1) * step for n, step in zip(output["shape"], output["strides"], strict=True)
        )
        assert output["offset"] + extent < image.region_bytes(output["region"])
    assert json.loads(json.dumps(image.info)) == image.info


def test_temporaries_share_memory_when_their_lives_do_not_overlap() -> None:
    g = Graph()
    x = g.add_input("x", (1, 16, 16, 8))
    for seed in range(6):
        x = conv(g, x, 8, 1, seed=seed)
    g.outputs = [x]
    # Five temporaries of 2 KiB, of which two are alive at a time.
    assert compile_graph(g, preset("default"), on_chip=False).temp_bytes == 2 * 2048


@given(st.lists(st.lists(st.integers(1, 900), min_size=1, max_size=5), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_ring_keeps_buffers_of_a_layer_apart(layers: list[list[int]]) -> None:
    config = preset("tiny")
    virtual = VirtualProgram()
    residency = Residency(budgets=(MemoryBudget.whole(config),) * len(layers))
    for index, sizes in enumerate(layers):
        for i, size in enumerate(sizes):
            virtual.buffer(f"b{i}", Place.SPAD, 4 * size, index)
    if any(sum(-(-4 * s // 8) * 8 for s in sizes) > config.spad_bytes for sizes in layers):
        with pytest.raises(LegalityError, match="do not fit"):
            allocate_on_chip(virtual, residency, config)
        return
    allocate_on_chip(virtual, residency, config)
    check_on_chip(virtual, config)
    for buffer in virtual.buffers:
        assert 0 <= buffer.address <= config.spad_bytes - buffer.size


def test_slots_rotate_and_spare_what_is_pinned() -> None:
    a, b = (Buffer(name=n, place=Place.SPAD, size=1) for n in "ab")
    slots = Slots([a, b])
    assert slots.get(1, None) == (a, True)
    assert slots.get(1, None) == (a, False)
    assert slots.get(2, 1) == (b, True)
    assert slots.get(3, 1) == (None, False)
    assert slots.get(3, 2) == (a, True)


def test_iterations_count_last_rounds() -> None:
    loops = [DmaLoop(count=3), DmaLoop(count=4, last=2), DmaLoop(count=5, last=1)]
    assert [iterations(loops, level) for level in range(4)] == [1, 3, 10, 10 * 5 - 3 * 4]


def _sync_totals(program: list) -> dict[int, int]:
    totals: dict[int, int] = {}
    for instruction in program:
        if instruction.opcode in (Opcode.BEGIN, Opcode.END):
            continue
        loops = [DmaLoop(count=x["count"], last=x["last"]) for x in instruction["loop"]]
        for sign, slots in ((1, instruction.posts), (-1, instruction.waits)):
            for slot in slots:
                amount = sign * slot.amount * iterations(loops, slot.level)
                totals[slot.sem] = totals.get(slot.sem, 0) + amount
    return totals


@pytest.mark.parametrize("config", ["tiny", "default"])
def test_nothing_is_taken_that_is_not_posted(config: str) -> None:
    """Some posts of an instruction's last iterations may be left over: a run starts from zero."""
    program = run_stages(residual_net(30), preset(config)).instructions
    totals = _sync_totals(program)
    assert len(totals) >= 8
    assert min(totals.values()) == 0


def test_independent_layers_are_not_ordered() -> None:
    g = Graph()
    for i in range(2):
        x = g.add_input(f"x{i}", (1, 4, 4, 4))
        g.outputs.append(rescale(g, x, 0.5))
    done = run_stages(g, preset("default"))
    second = [n for n in done.program.instructions if n.layer == 1 and n.opcode is Opcode.LOAD]
    assert [done.program.waits[n] for n in second] == [[] for _ in second]


def test_producers_wait_where_a_counter_could_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With counters of at most 2, the same program must still run, exactly and without hazards."""
    work = kernel("conv2d", {"h": 14, "w": 14, "c": 40, "oc": 40}, seed=2)
    plain = run_stages(work.graph, preset("tiny"))
    original = _Assignment.__init__

    def limited(self: _Assignment, found: object, config: object) -> None:
        original(self, found, config)  # type: ignore[arg-type]
        self.maximum = 2

    monkeypatch.setattr(_Assignment, "__init__", limited)
    careful = run_stages(work.graph, preset("tiny"))
    assert str(plain.instructions) != str(careful.instructions)
    # A golden model whose counters hold no more faults where a post is too much.
    counters = Semaphores.__init__

    def small(self: Semaphores, *arguments: object) -> None:
        counters(self, *arguments)  # type: ignore[arg-type]
        self.maximum = 2

    monkeypatch.setattr(Semaphores, "__init__", small)
    with pytest.raises(HazardError, match="it may hold 3, more than 2"):
        Machine(preset("tiny")).run(plain.image, work.inputs, check=True)
    got = Machine(preset("tiny")).run(careful.image, work.inputs, check=True)
    np.testing.assert_array_equal(got["y"], run_graph(work.graph, work.inputs)["y"])


def test_the_collector_runs_again_after_a_compilation_that_failed() -> None:
    g = Graph()
    g.add_input("x", (1, 4, 4, 4))
    with pytest.raises(CompileError, match="no outputs"):
        run_stages(g, preset("tiny"))
    assert gc.isenabled()
