"""The first load and the last block of a layer in parts, and plans that the timeline chooses."""

import math
from dataclasses import replace

import pytest
from compiler_graphs import assert_compiles_exactly

from spec.config import preset
from spec.isa import Engine
from sw.compiler.compilation import Compilation
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.geometry import Packing, geometry
from sw.compiler.pipeline import run_stages
from sw.compiler.placement.predict import TooLong
from sw.compiler.placement.refine import refine
from sw.compiler.program.virtual import Place, VirtualInstruction
from sw.models.kernels import kernel, parse_shape

PRODUCT = "m=64,k=32,n=64"
WINDOWS = "n=2,h=24,w=24,c=3,oc=20,k=3,s=2,p=1"


def compiled(name: str, shape: str, config: str = "default") -> Compilation:
    return run_stages(kernel(name, parse_shape(shape, name), seed=2).graph, preset(config))


def of(done: Compilation, engine: Engine) -> list[VirtualInstruction]:
    return [x for x in done.scheduled if x.engine is engine]


def levels(instruction: VirtualInstruction, buffer: str) -> list[tuple[int, int]]:
    accesses = [a for a in instruction.accesses if buffer in a.buffer.name]
    return [(a.level, a.iteration) for a in accesses]


@pytest.mark.parametrize(
    ("name", "shape", "parts"), [("matmul", PRODUCT, 4), ("conv2d", WINDOWS, 3)]
)
def test_the_first_product_waits_for_parts_of_its_activations(name, shape, parts):
    done = compiled(name, shape)
    first = of(done, Engine.MATRIX)[0]
    assert levels(first, ".act") == [(1, i) for i in range(parts)]
    assert [w.amount for w in done.program.waits[first] if w.level == 1] == [1]
    assert first.record.loop[0].count == parts


def test_parts_of_windows_are_columns_that_are_loaded_one_after_another():
    done = compiled("conv2d", WINDOWS)
    assert done.plans[0].packing is Packing.WINDOWS
    first = of(done, Engine.MATRIX)[0]
    reads = [a for a in first.accesses if ".act" in a.buffer.name]
    parts = [(a.start, a.stop) for a in reads]
    assert [stop for _, stop in parts[:-1]] == [start for start, _ in parts[1:]]
    program = done.virtual.instructions
    writes = {
        (a.start, a.stop)
        for x in program[: program.index(first)]
        for a in x.accesses
        if a.buffer is reads[0].buffer
    }
    assert writes == set(parts)


def test_parts_of_the_last_block_lie_in_different_banks():
    done, acc_bank = compiled("matmul", PRODUCT), preset("default").acc_bank
    before, last = of(done, Engine.VECTOR)[-2:]
    parts = [a for a in last.accesses if a.buffer.place is Place.ACC]
    assert [(a.level, a.iteration) for a in parts] == [(2, 0), (2, 1), (2, 2), (2, 3)]
    assert [a.start // acc_bank for a in parts] == [0, 1, 2, 3]
    # The array comes last to the bank that the epilogue before empties.
    (sums,) = [a for a in before.accesses if a.buffer.place is Place.ACC]
    assert sums.start // acc_bank == 3
    assert all(a.stop <= sums.start or sums.stop <= a.start for a in parts)


@pytest.mark.parametrize("config", ["micro", "tiny", "small", "default", "odd", "large"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("matmul", "m=64,k=16,n=64"),
        ("matmul", "m=36,k=50,n=5"),
        ("matmul", "m=128,k=33,n=33"),
        ("conv2d", "h=8,w=9,c=16,oc=40,k=3,p=1"),
        ("conv2d", "n=3,h=11,w=12,c=3,oc=9,k=3,s=2,p=1"),
        ("conv2d", "n=2,h=25,w=16,c=1,oc=64,kh=10,kw=4,s=2,p=1"),
        ("conv2d", "h=12,w=6,c=24,oc=24,k=1,p=0"),
        ("matmul", "m=50,k=70,n=250"),
    ],
)
def test_layers_in_parts_are_exact(name, shape, config):
    work = kernel(name, parse_shape(shape, name), seed=4)
    assert assert_compiles_exactly(work.graph, preset(config), work.inputs) > 0


def test_blocks_of_a_unit_take_turns_fold_by_fold():
    """An epilogue that has fallen behind never waits for the array through a whole block."""
    done = compiled("matmul", "m=64,k=128,n=512")
    units = [x.record for x in of(done, Engine.MATRIX) if "+" in x.note]
    assert len(units) > 5
    for record in units[-3:]:
        folds, (blocks, *_) = record.loop[:3], record.loop[3:]
        assert record.k_loops == 0b111 and record.fold_loops == 4 and blocks.count > 1
        assert math.prod(loop.count for loop in folds) == 128 // preset("default").rows
        assert blocks.acc % preset("default").acc_bank == 0 and not any(x.acc for x in folds)


def test_a_unit_whose_epilogue_takes_most_of_the_time_hands_over_block_by_block():
    done = compiled("matmul", "m=64,k=16,n=512")
    for instruction in of(done, Engine.MATRIX):
        assert not instruction.record.k_loops & 1


def test_tiles_of_several_images_differ_by_a_row():
    done = compiled("conv2d", "n=4,h=112,w=112,c=3,oc=16,k=3,s=1,p=1")
    plan = done.plans[0]
    geo = geometry(done.layers.layers[0], plan.packing, plan.stacked)
    for size, most in ((112, 9), (112, 100), (7, 2), (1, 3)):
        cuts = geo.cuts(size, most)
        lengths = [b - a for a, b in cuts]
        assert sum(lengths) == size and len(cuts) == -(-size // most)
        assert max(lengths) <= most and max(lengths) - min(lengths) <= 1


def test_a_small_program_takes_the_plans_that_the_timeline_prefers(monkeypatch):
    after = compiled("matmul", "m=64,k=64,n=64")
    monkeypatch.setattr("sw.compiler.pipeline.REFINED", 0)
    before = compiled("matmul", "m=64,k=64,n=64")
    assert before.plans != after.plans
    assert sum(after.predicted) < 0.98 * sum(before.predicted)


class Costs:
    """Predicts what a table says of two layers' plans; `limit` predictions."""

    def __init__(self, table: dict[tuple[str, str], int | None], limit: int = 100) -> None:
        self.table, self.left = table, limit

    def __call__(self, plans) -> int:
        if not self.left:
            raise TooLong
        self.left -= 1
        if (cycles := self.table[tuple(plans)]) is None:
            raise CompileError("does not fit")
        return cycles


@pytest.mark.parametrize(("limit", "want"), [(100, "Bc"), (2, "Ba"), (0, "Aa")])
def test_plans_are_compared_layer_by_layer_as_long_as_there_is_time(limit, want):
    done = compiled("matmul", PRODUCT)
    layers = done.layers.layers * 2
    program = replace(done.layers, layers=layers)
    residency = replace(done.residency, budgets=done.residency.budgets * 2)
    asked = iter(["AB", "abc"])
    costs = Costs({("A", "a"): 9, ("B", "a"): 8, ("B", "b"): None, ("B", "c"): 7}, limit)
    found = refine(program, ["A", "a"], residency, lambda *_: next(asked), costs)
    assert "".join(found) == want
