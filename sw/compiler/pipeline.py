"""The compiler's stages, in order, as data; `compile_graph` runs them.

Every stage takes the `Compilation`, sets its own field, and has a legality check that runs right
after it and a text dump for `dump_after`.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from spec.config import NpuConfig
from spec.isa import Instruction
from spec.program import Image
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.base import LayerProgram, Plan
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.schedule import schedule
from sw.compiler.kernels.tiling import Planner, check_plans
from sw.compiler.lower.stage import lower
from sw.compiler.passes import run_passes
from sw.compiler.placement.flow import stream_rows
from sw.compiler.placement.overlap import move_products_behind, run_concurrently
from sw.compiler.placement.residency import Residency, check_residency, choose
from sw.compiler.program.allocate import (
    Peaks,
    allocate_dram,
    allocate_on_chip,
    check_on_chip,
    tensor_buffers,
)
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.draft import Buffer, Draft, Node
from sw.compiler.program.emit import emit
from sw.compiler.program.image import build_image, check_program
from sw.compiler.program.interleave import interleave
from sw.compiler.program.ordering import Channel, Order
from sw.compiler.program.sync import synchronise
from sw.compiler.program.timeline import layer_cycles
from sw.compiler.tosa.graph import Graph


@dataclass(slots=True, kw_only=True)
class Compilation:
    """What the stages have made so far."""

    graph: Graph
    config: NpuConfig
    name: str
    on_chip: bool = True
    keep_all: bool = False
    fold: bool = True
    layers: LayerProgram = field(init=False)
    planner: Planner = field(init=False)
    residency: Residency = field(init=False)
    plans: list[Plan] = field(init=False)
    tensors: dict[str, Buffer] = field(init=False)
    constants: ConstantPool = field(default_factory=ConstantPool)
    draft: Draft = field(init=False)
    written: list[Node] = field(init=False)
    peaks: Peaks = field(init=False)
    semaphores: dict[Channel, int] = field(init=False)
    order: Order = field(init=False)
    predicted: list[int] = field(init=False)
    instructions: list[Instruction] = field(init=False)
    image: Image = field(init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`run` sets a field of the compilation; `check` raises if it is illegal; `dump` shows it."""

    name: str
    run: Callable[[Compilation], None]
    check: Callable[[Compilation], None]
    dump: Callable[[Compilation], str]


def _verify(c: Compilation) -> None:
    c.graph.verify()


def _passes(c: Compilation) -> None:
    c.graph = run_passes(c.graph, fold=c.fold)


def _lower(c: Compilation) -> None:
    c.layers = lower(c.graph, c.config, c.fold)
    if c.on_chip and not c.keep_all:
        c.layers = move_products_behind(c.layers, c.config)


def _check_layers(c: Compilation) -> None:
    for layer in c.layers.layers:
        for view in (*layer.inputs, *layer.outputs):
            if view.tensor not in c.layers.storage.nbytes:
                raise CompileError(f"tensor {view.tensor!r} has no storage", node=layer.name)


def _residency(c: Compilation) -> None:
    c.planner = Planner(c.config)
    if c.on_chip and not c.keep_all:
        c.residency = choose(c.layers, c.config, c.planner.cost)
        stream_rows(c.layers, c.residency, c.planner.cost)
        run_concurrently(c.layers, c.residency, c.config, c.planner.cost)
    else:
        c.residency = Residency(budgets=[MemoryBudget.whole(c.config)] * len(c.layers.layers))


def _check_residency(c: Compilation) -> None:
    check_residency(c.residency, c.layers, c.config)


def _dump_residency(c: Compilation) -> str:
    sizes = c.layers.storage.nbytes
    return "".join(
        f"{root}: spad@{at:#x}+{sizes[root]}\n" for root, at in c.residency.address.items()
    )


def _tiling(c: Compilation) -> None:
    pairs = zip(c.layers.layers, c.residency.budgets, strict=True)
    c.plans = [c.planner.plan(layer, budget) for layer, budget in pairs]


def _schedule(c: Compilation) -> None:
    c.tensors = tensor_buffers(c.layers, c.residency)
    c.draft = schedule(c.layers, c.plans, c.config, c.constants, c.tensors, c.graph)


def _allocate(c: Compilation) -> None:
    budgets = c.residency.budgets
    temp = allocate_dram(c.layers, c.tensors, c.graph.inputs, budgets=budgets, share=not c.keep_all)
    spad, params = allocate_on_chip(c.draft, c.residency, c.config)
    c.peaks = Peaks(spad_bytes=spad, param_entries=params, temp_bytes=temp)


def _interleave(c: Compilation) -> None:
    c.written = list(c.draft.nodes)
    interleave(c.draft, c.residency.budgets, c.config)


def _synchronise(c: Compilation) -> None:
    try:
        c.semaphores, c.order = synchronise(c.draft, c.config)
    except LegalityError:
        # Loads that run far ahead can post more than a counter holds: layer by layer they cannot.
        c.draft.nodes[:] = c.written
        c.semaphores, c.order = synchronise(c.draft, c.config)


def _predict(c: Compilation) -> None:
    c.predicted = layer_cycles(c.order, len(c.plans), c.config)


def _dump_predicted(c: Compilation) -> str:
    rows = zip(c.layers.layers, c.predicted, c.plans, strict=True)
    return "".join(f"{x.name}: {n} cycles, {p.cycles} by itself\n" for x, n, p in rows)


def _emit(c: Compilation) -> None:
    c.instructions = emit(c.draft, c.config)


def _image(c: Compilation) -> None:
    c.image = build_image(
        c.instructions,
        c.draft.nodes,
        c.graph,
        c.layers,
        c.predicted,
        c.tensors,
        c.constants,
        c.peaks,
        c.config,
        c.name,
    )


def _nothing(c: Compilation) -> None:
    """For stages whose own code checks as it goes."""


def _dump_draft(c: Compilation) -> str:
    return "".join(f"{n.engine.name:6} {n.note}\n" for n in c.draft.nodes)


def _dump_sync(c: Compilation) -> str:
    lines = [
        f"semaphore {sem}: {engine.name}.{point.name} -> {waiting}"
        for (engine, point, waiting), sem in c.semaphores.items()
    ]
    for node in c.draft.nodes:
        waits = " ".join(f"wait(s{w.sem}x{w.amount}@{w.level})" for w in node.waits)
        posts = " ".join(f"post(s{p.sem}x{p.amount}@{p.level})" for p in node.posts)
        lines.append(f"{node.engine.name:6} {node.note} {waits} {posts}".rstrip())
    return "\n".join(lines) + "\n"


STAGES: tuple[Stage, ...] = (
    Stage(name="tosa", run=_nothing, check=_verify, dump=lambda c: str(c.graph)),
    Stage(name="passes", run=_passes, check=_verify, dump=lambda c: str(c.graph)),
    Stage(
        name="lower",
        run=_lower,
        check=_check_layers,
        dump=lambda c: "".join(f"{layer}\n" for layer in c.layers.layers),
    ),
    Stage(name="residency", run=_residency, check=_check_residency, dump=_dump_residency),
    Stage(
        name="tiling",
        run=_tiling,
        check=lambda c: check_plans(c.layers.layers, c.plans, c.residency.budgets, c.config),
        dump=lambda c: "".join(
            f"{layer.name}: {p}\n" for layer, p in zip(c.layers.layers, c.plans, strict=True)
        ),
    ),
    Stage(name="schedule", run=_schedule, check=_nothing, dump=_dump_draft),
    Stage(
        name="allocate",
        run=_allocate,
        check=lambda c: check_on_chip(c.draft, c.config),
        dump=lambda c: "".join(f"{b}\n" for b in [*c.tensors.values(), *c.draft.buffers]),
    ),
    Stage(name="interleave", run=_interleave, check=_nothing, dump=_dump_draft),
    Stage(name="synchronise", run=_synchronise, check=_nothing, dump=_dump_sync),
    Stage(name="predict", run=_predict, check=_nothing, dump=_dump_predicted),
    Stage(
        name="emit",
        run=_emit,
        check=lambda c: check_program(c.instructions, c.config),
        dump=lambda c: "".join(f"{i:4} {x}\n" for i, x in enumerate(c.instructions)),
    ),
    Stage(
        name="image",
        run=_image,
        check=_nothing,
        dump=lambda c: "".join(f"{k}: {v}\n" for k, v in c.image.info.items()),
    ),
)


def stage_names() -> list[str]:
    """Names of the stages, in order."""
    return [stage.name for stage in STAGES]


def run_stages(
    graph: Graph,
    config: NpuConfig,
    *,
    name: str = "",
    dump_after: Iterable[str] = (),
    out: TextIO | None = None,
    on_chip: bool = True,
    keep_all: bool = False,
    fold: bool = True,
) -> Compilation:
    """Run every stage; text of the stages in `dump_after` (or `all`) goes to `out` (stdout).

    `on_chip`: tensors between layers may stay on chip; else every layer's result is in memory.
    `keep_all`: and there it stays to the end, where it can be looked at (`Compilation.tensors`).
    `fold`: operators of constants are computed beforehand, and weights and biases packed; else the
    device computes and reads them as if they came with the inputs.
    """
    wanted = set(dump_after)
    unknown = wanted - set(stage_names()) - {"all"}
    if unknown:
        raise CompileError(
            f"dump_after={sorted(unknown)}: no such stage", hint=f"all, {', '.join(stage_names())}"
        )
    compilation = Compilation(
        graph=graph,
        config=config,
        name=name or graph.name,
        on_chip=on_chip,
        keep_all=keep_all,
        fold=fold,
    )
    with _without_collector():
        for stage in STAGES:
            stage.run(compilation)
            stage.check(compilation)
            if "all" in wanted or stage.name in wanted:
                print(f"=== {stage.name}\n{stage.dump(compilation)}", file=out)
    return compilation


@contextmanager
def _without_collector() -> Iterator[None]:
    """A tenth less time: what the stages make lives to the end, and has hardly a cycle in it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compile_graph(
    graph: Graph,
    config: NpuConfig,
    *,
    name: str = "",
    dump_after: Iterable[str] = (),
    info: dict[str, Any] | None = None,
    on_chip: bool = True,
    fold: bool = True,
) -> Image:
    """Compile a TOSA graph to a program image for `config`.

    `name` and `info` go into the image's metadata; `on_chip` False puts every layer's result in
    memory, where it can be looked at; `fold` False treats constants as if they came at run time.
    `CompileError` if the graph cannot be compiled.
    """
    image = run_stages(
        graph, config, name=name, dump_after=dump_after, on_chip=on_chip, fold=fold
    ).image
    if not info:
        return image
    return Image(
        config=image.config,
        program=image.program,
        constants=image.constants,
        inputs=image.inputs,
        outputs=image.outputs,
        temp_bytes=image.temp_bytes,
        info={**image.info, **info},
    )
