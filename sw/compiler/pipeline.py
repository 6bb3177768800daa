"""The compiler's stages, in order, as data; `compile_graph` runs them."""

import gc
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TextIO

from spec.config import NpuConfig
from spec.dram import MEMORIES
from spec.isa import Instruction, Opcode
from spec.program import Image
from sw.compiler.compilation import GIVEN, Compilation, Options
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.base import LayerProgram, Plan, common_weights
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.families import FAMILIES, Families
from sw.compiler.kernels.functions import check_functions
from sw.compiler.kernels.schedule import schedule
from sw.compiler.kernels.tiling import Planner, check_plans
from sw.compiler.limits import check_sizes
from sw.compiler.lower.products.common_weights import name_common_weights
from sw.compiler.lower.stage import lower
from sw.compiler.passes import run_passes
from sw.compiler.passes.stripe_regions import stripe_rows
from sw.compiler.placement.beside import move_depthwise_beside
from sw.compiler.placement.columns import cut_columns
from sw.compiler.placement.flow import stream_rows
from sw.compiler.placement.follow import follow_tiles
from sw.compiler.placement.overlap import move_products_behind, run_concurrently
from sw.compiler.placement.predict import Effort, TooLong
from sw.compiler.placement.refine import REFINED, refine
from sw.compiler.placement.residency import Residency, check_residency, choose
from sw.compiler.placement.samples import mix_turns, take_turns
from sw.compiler.placement.spread import keep_apart
from sw.compiler.program.allocate import (
    Peaks,
    allocate_dram,
    allocate_on_chip,
    check_on_chip,
    tensor_buffers,
)
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.dram.addresses import Addresses
from sw.compiler.program.emit import emit
from sw.compiler.program.image import build_image, check_program
from sw.compiler.program.jobs import Job, jobs, moved_bytes
from sw.compiler.program.list_scheduling import FREEDOMS, list_schedule
from sw.compiler.program.repeats import store_once
from sw.compiler.program.semaphores import Program, assign_semaphores
from sw.compiler.program.timeline import IDEAL_MEMORY, cycles_with, layer_cycles
from sw.compiler.program.virtual import Buffer, VirtualInstruction, VirtualProgram
from sw.compiler.stages import Pipeline, Stage
from sw.compiler.tosa.graph import Graph


def _check_source(source: Graph, config: NpuConfig) -> None:
    source.verify()
    check_sizes(source, config)


def _passes(
    source: Graph, config: NpuConfig, options: Options, families: Families, planner: Planner
) -> Graph:
    graph = run_passes(source, config, fold=options.fold)
    if not options.on_chip or options.keep_all:
        return graph
    trials = _Trials(config, options, families, planner)

    def predict(some: Graph) -> float:
        try:
            return trials.alone(lower(some, config, options.fold), some)
        except (CompileError, TooLong):
            return math.inf

    stripe_rows(graph, config, predict)
    return graph


def _lower(
    graph: Graph, config: NpuConfig, options: Options, families: Families, planner: Planner
) -> LayerProgram:
    layers = lower(graph, config, options.fold, join=not options.keep_all)
    if not options.on_chip or options.keep_all:
        return layers

    trials = _Trials(config, options, families, planner)

    def predict(some: LayerProgram) -> int:
        return trials.alone(some, graph)

    behind = move_products_behind(layers, config)
    ordered = move_depthwise_beside(behind, config, planner.cost, predict)
    cut = cut_columns(ordered, config, planner.cost, predict)
    turns = take_turns(cut, config, predict)
    return name_common_weights(turns)


@dataclass(frozen=True, slots=True)
class _Trials:
    """Predicts programs that a stage compares, as long as `effort` lasts."""

    config: NpuConfig
    options: Options
    families: Families
    planner: Planner
    effort: Effort = field(default_factory=Effort)

    def alone(self, layers: LayerProgram, graph: Graph) -> int:
        """Cycles of a program of its own, which may be a few layers of another."""
        residency = _residency(layers, self.config, self.options, self.planner)
        return self.planned(_plans(layers, residency, self.planner), layers, residency, graph)

    def planned(
        self, plans: Sequence[Plan], layers: LayerProgram, residency: Residency, graph: Graph
    ) -> int:
        """Cycles of a program with these plans."""
        config = self.config
        tensors, _, virtual = _schedule(layers, plans, residency, config, graph, self.families)
        self.effort.take(len(virtual.instructions))
        _allocate(layers, residency, tensors, virtual, graph, config, self.options)
        scheduled = _list_scheduling(virtual, residency, config)
        program = _semaphores(virtual, scheduled, residency, config)
        return sum(layer_cycles(program.dependences, len(plans), config))


def _check_layers(layers: LayerProgram) -> None:
    for layer in layers.layers:
        for view in (*layer.inputs, *layer.outputs):
            if view.tensor not in layers.storage.nbytes:
                raise CompileError(f"tensor {view.tensor!r} has no storage", node=layer.name)


def _residency(
    layers: LayerProgram, config: NpuConfig, options: Options, planner: Planner
) -> Residency:
    if not options.on_chip or options.keep_all:
        return Residency(budgets=(MemoryBudget.whole(config),) * len(layers.layers))
    chosen = choose(layers, config, planner.cost)
    streamed = stream_rows(layers, chosen, planner.cost)
    beside = run_concurrently(layers, streamed, config, planner.cost)
    followed = follow_tiles(layers, beside, config, planner.plan)
    mixed = mix_turns(layers, followed, config)
    # Last: the budgets that are left must not decide which layers overlap.
    return keep_apart(layers, mixed, config, planner.plan)


def _dump_residency(layers: LayerProgram, residency: Residency) -> str:
    sizes = layers.storage.nbytes | common_weights(layers)
    return "".join(
        f"{root}: spad@{at:#x}+{sizes[root]}\n" for root, at in residency.address.items()
    )


def _tiling(
    layers: LayerProgram,
    residency: Residency,
    config: NpuConfig,
    options: Options,
    graph: Graph,
    families: Families,
    planner: Planner,
) -> list[Plan]:
    trials = _Trials(config, options, families, planner, Effort(REFINED))

    def predict(plans: Sequence[Plan]) -> int:
        return trials.planned(plans, layers, residency, graph)

    plans = _plans(layers, residency, planner)
    return refine(layers, plans, residency, planner.near, predict)


def _plans(layers: LayerProgram, residency: Residency, planner: Planner) -> list[Plan]:
    pairs = zip(layers.layers, residency.budgets, strict=True)
    return [planner.plan(layer, budget) for layer, budget in pairs]


def _check_plans(
    layers: LayerProgram,
    plans: list[Plan],
    residency: Residency,
    config: NpuConfig,
    families: Families,
) -> None:
    check_plans(layers.layers, plans, residency.budgets, config, families)


def _dump_plans(layers: LayerProgram, plans: list[Plan]) -> str:
    pairs = zip(layers.layers, plans, strict=True)
    return "".join(f"{layer.name}: {plan}\n" for layer, plan in pairs)


def _schedule(
    layers: LayerProgram,
    plans: Sequence[Plan],
    residency: Residency,
    config: NpuConfig,
    graph: Graph,
    families: Families,
) -> tuple[dict[str, Buffer], ConstantPool, VirtualProgram]:
    constants = ConstantPool()
    tensors = tensor_buffers(layers, residency)
    virtual = schedule(layers, plans, config, constants, tensors, graph, families)
    return tensors, constants, virtual


def _allocate(
    layers: LayerProgram,
    residency: Residency,
    tensors: dict[str, Buffer],
    virtual: VirtualProgram,
    graph: Graph,
    config: NpuConfig,
    options: Options,
) -> Peaks:
    """The only stage that changes what others made: it gives buffers their addresses."""
    budgets = residency.budgets
    share = not options.keep_all
    temp = allocate_dram(layers, tensors, graph.inputs, budgets=budgets, share=share)
    spad, params = allocate_on_chip(virtual, residency, config)
    return Peaks(spad_bytes=spad, param_entries=params, temp_bytes=temp)


def _dump_buffers(tensors: dict[str, Buffer], virtual: VirtualProgram) -> str:
    return "".join(f"{b}\n" for b in [*tensors.values(), *virtual.buffers])


def _dump_instructions(instructions: Sequence[VirtualInstruction]) -> str:
    return "".join(f"{n.engine.name:6} {n.note}\n" for n in instructions)


def _list_scheduling(
    virtual: VirtualProgram, residency: Residency, config: NpuConfig
) -> list[VirtualInstruction]:
    return list_schedule(virtual.instructions, residency.budgets, config)


def _semaphores(
    virtual: VirtualProgram,
    scheduled: list[VirtualInstruction],
    residency: Residency,
    config: NpuConfig,
) -> Program:
    try:
        return assign_semaphores(scheduled, config)
    except LegalityError:
        pass
    try:
        # Loads that run far ahead can post more than a counter holds. Here they keep their order.
        careful = list_schedule(virtual.instructions, residency.budgets, config, FREEDOMS[:1])
        return assign_semaphores(careful, config)
    except LegalityError:
        # Layer by layer they cannot.
        return assign_semaphores(virtual.instructions, config)


def _predict(
    program: Program, plans: list[Plan], config: NpuConfig
) -> tuple[list[Job], list[int], tuple[int, int]]:
    todo = jobs(program.dependences, config)
    predicted = cycles_with(todo, len(plans), config, IDEAL_MEMORY)
    return todo, predicted, moved_bytes(todo, config)


def _dump_predicted(layers: LayerProgram, predicted: list[int], plans: list[Plan]) -> str:
    rows = zip(layers.layers, predicted, plans, strict=True)
    return "".join(f"{x.name}: {n} cycles, {p.cycles} by itself\n" for x, n, p in rows)


def _image(
    stored: list[Instruction],
    instructions: list[Instruction],
    program: Program,
    graph: Graph,
    layers: LayerProgram,
    todo: list[Job],
    predicted: list[int],
    predicted_bytes: tuple[int, int],
    tensors: dict[str, Buffer],
    constants: ConstantPool,
    peaks: Peaks,
    config: NpuConfig,
    name: str,
) -> Image:
    image = build_image(
        stored,
        instructions,
        program.instructions,
        graph,
        layers,
        predicted,
        predicted_bytes,
        tensors,
        constants,
        peaks,
        config,
        name,
    )
    # What a DRAM takes depends on where everything lies in it.
    addresses = Addresses.of(image, stored)
    drams = [name for name, dram in MEMORIES.items() if dram is not None]
    channels = {name: MemoryChannel.of(name, addresses=addresses) for name in drams}
    cycles = {
        name: sum(cycles_with(todo, len(predicted), config, channel))
        for name, channel in channels.items()
    }
    return replace(image, info={**image.info, "predicted_cycles_with": cycles})


STAGES: tuple[Stage, ...] = (
    Stage(
        name="tosa",
        check=lambda source, config: _check_source(source, config),
        dump=lambda source: str(source),
    ),
    Stage(
        name="passes",
        makes=("graph",),
        run=_passes,
        check=lambda graph: graph.verify(),
        dump=lambda graph: str(graph),
    ),
    Stage(
        name="lower",
        makes=("layers",),
        run=_lower,
        check=_check_layers,
        dump=lambda layers: "".join(f"{layer}\n" for layer in layers.layers),
    ),
    Stage(
        name="residency",
        makes=("residency",),
        run=_residency,
        check=lambda residency, layers, config: check_residency(residency, layers, config),
        dump=_dump_residency,
    ),
    Stage(name="tiling", makes=("plans",), run=_tiling, check=_check_plans, dump=_dump_plans),
    Stage(
        name="schedule",
        makes=("tensors", "constants", "virtual"),
        run=_schedule,
        check=lambda virtual, layers, config: check_functions(virtual, layers, config),
        dump=lambda virtual: _dump_instructions(virtual.instructions),
    ),
    Stage(
        name="allocate",
        makes=("peaks",),
        run=_allocate,
        check=lambda virtual, config: check_on_chip(virtual, config),
        dump=_dump_buffers,
    ),
    Stage(
        name="list-scheduling",
        makes=("scheduled",),
        run=_list_scheduling,
        dump=lambda scheduled: _dump_instructions(scheduled),
    ),
    Stage(
        name="semaphores", makes=("program",), run=_semaphores, dump=lambda program: str(program)
    ),
    Stage(
        name="predict",
        makes=("todo", "predicted", "predicted_bytes"),
        run=_predict,
        dump=_dump_predicted,
    ),
    Stage(
        name="emit",
        makes=("instructions",),
        run=lambda program, config: emit(program, config),
        check=lambda instructions, config: check_program(instructions, config),
        dump=lambda instructions: "".join(f"{i:4} {x}\n" for i, x in enumerate(instructions)),
    ),
    Stage(
        name="repeats",
        makes=("stored",),
        run=lambda instructions, program, predicted, config: (
            store_once(instructions, program.instructions, predicted)
            if config.program_loops
            else instructions
        ),
        dump=lambda stored: "".join(f"{x}\n" for x in stored if x.opcode is Opcode.REPEAT),
    ),
    Stage(
        name="image",
        makes=("image",),
        run=_image,
        dump=lambda image: "".join(f"{k}: {v}\n" for k, v in image.info.items()),
    ),
)

PIPELINE = Pipeline(STAGES, given=GIVEN, results=[f.name for f in fields(Compilation)])


def stage_names() -> list[str]:
    """Names of the stages, in order."""
    return PIPELINE.names()


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
    families: Families = FAMILIES,
    pipeline: Pipeline = PIPELINE,
) -> Compilation:
    """Run every stage; text of the stages in `dump_after` (or `all`) goes to `out` (stdout).

    `on_chip`, `keep_all`, `fold`: see `Options`. `families`: what computes each kind of
    layer. `pipeline`: stages that make what the compiler's make.
    """
    wanted = set(dump_after)
    unknown = wanted - set(stage_names()) - {"all"}
    if unknown:
        raise CompileError(
            f"dump_after={sorted(unknown)}: no such stage", hint=f"all, {', '.join(stage_names())}"
        )
    given = {
        "source": graph,
        "config": config,
        "name": name or graph.name,
        "options": Options(on_chip=on_chip, keep_all=keep_all, fold=fold),
        "families": families,
        "planner": Planner(config, families),
    }
    with _without_collector():
        dump = stage_names() if "all" in wanted else wanted
        return Compilation(**pipeline.run(given, dump=dump, out=out))


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
