"""The registry of kernel families: another one is a folder and a row, and nothing else."""

import io
from dataclasses import replace

import numpy as np
import pytest
from compiler_graphs import random_inputs
from offset_family.emit import emit_offset
from offset_family.layer import OffsetLayer
from offset_family.plan import check_offset, plan_offset

from golden_model import Machine
from spec import PRESETS, preset
from spec.config import NpuConfig
from sw.compiler.compilation import Options
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.base import KernelFamily, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.families import FAMILIES, Families, family_of
from sw.compiler.kernels.layers import ElementwiseLayer
from sw.compiler.kernels.tiling import Planner
from sw.compiler.pipeline import PIPELINE, run_stages
from sw.compiler.stages import Pipeline
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

OFFSET = KernelFamily(layer=OffsetLayer, plan=plan_offset, emit=emit_offset, check=check_offset)
CONSTANT = 77


def with_offsets(program: LayerProgram) -> LayerProgram:
    """Every elementwise layer, which adds CONSTANT here, as one of the eighth family."""
    layers = tuple(
        OffsetLayer(name=x.name, output=x.output, input=x.a.view, constant=CONSTANT)
        if isinstance(x, ElementwiseLayer)
        else x
        for x in program.layers
    )
    return replace(program, layers=layers)


def pipeline() -> Pipeline:
    """The compiler's, whose lowering makes layers of the eighth family."""

    def lower(
        graph: Graph, config: NpuConfig, options: Options, families: Families, planner: Planner
    ) -> LayerProgram:
        known = next(stage for stage in PIPELINE.stages if stage.name == "lower")
        assert known.run is not None
        return with_offsets(known.run(graph, config, options, families, planner))

    return PIPELINE.replaced("lower", lower)


def offset_graph() -> Graph:
    """(x + c) + c of int32: the second sum reads what the first one wrote."""
    g = Graph(name="offsets")
    x = g.add_input("x", (1, 9, 7, 11), "int32")
    many = np.full((1, 9, 7, 11), CONSTANT)
    for i in range(2):
        x = g.add_op("ADD", [x, g.add_constant(f"c{i}", many, "int32")], out_dtype="int32")
    g.outputs = [x]
    g.verify()
    return g


@pytest.mark.parametrize("config", PRESETS)
def test_another_family_is_a_folder_and_a_row(config: str) -> None:
    g, out = offset_graph(), io.StringIO()
    done = run_stages(
        g,
        preset(config),
        families=(*FAMILIES, OFFSET),
        pipeline=pipeline(),
        dump_after=["lower"],
        out=out,
    )
    assert [type(layer) for layer in done.layers.layers] == [OffsetLayer, OffsetLayer]
    assert out.getvalue().startswith("=== lower\noffset ")
    inputs = random_inputs(g)
    got = Machine(preset(config)).run(done.image, inputs, check=True)
    want = run_graph(g, inputs)
    np.testing.assert_array_equal(got[g.outputs[0]], want[g.outputs[0]])


def test_a_layer_without_a_family_is_refused() -> None:
    with pytest.raises(LegalityError, match="no kernel family computes this OffsetLayer"):
        run_stages(offset_graph(), preset("tiny"), pipeline=pipeline())


def test_every_family_has_layers_of_its_own() -> None:
    kinds = [family.layer for family in FAMILIES]
    assert len(set(kinds)) == len(kinds) == 9


def test_a_family_checks_its_plans() -> None:
    layer = with_offsets(run_stages(offset_graph(), preset("tiny")).layers).layers[0]
    family = family_of(layer, [OFFSET])
    plan = family.plan(layer, preset("tiny"), MemoryBudget.whole(preset("tiny")))
    family.check(layer, plan, preset("tiny"))
    with pytest.raises(LegalityError, match="tiles of 7 are no whole vectors"):
        family.check(layer, replace(plan, elements=7), preset("tiny"))
