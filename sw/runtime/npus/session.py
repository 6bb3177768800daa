"""Divide a program's samples among several NPUs and run them: what `systola.run_several` does."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.names import did_you_mean
from spec.program import Image
from sw.runtime.npus.jobs import Plan, batch, check_samples, pipeline
from sw.runtime.npus.system import NARROW, NpuSystem, NpuSystemError

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph
    from sw.runtime.npus.device import Outputs
    from sw.runtime.npus.report import SystemResult

BATCH, PIPELINE = "batch", "pipeline"
PARTITIONS = (BATCH, PIPELINE)

Say = Callable[[str], None]


def check_partition(partition: str) -> None:
    """`NpuSystemError` for a partition that is none."""
    if partition not in PARTITIONS:
        near = did_you_mean(partition, PARTITIONS)
        known = ", ".join(PARTITIONS)
        raise NpuSystemError(f"--partition {partition}: must be one of {known}{near}")


def divide(
    image: Image,
    graph: "Graph | None",
    npus: int,
    partition: str,
    samples: int,
    say: Say = lambda _: None,
) -> tuple[Plan, list[int]]:
    """(plan, predicted cycles of each stage of a pipeline) for `samples` samples.

    graph: the network of `image`, which a pipeline is cut from. `CompileError` if it cannot be cut
    into `npus` stages, `NpuSystemError` for fewer samples than a batch needs, or without a graph.
    """
    check_partition(partition)
    if partition == BATCH:
        return batch(image, npus, samples), []
    check_samples(samples)
    if graph is None:
        raise NpuSystemError(
            "--partition pipeline: a program image cannot be cut into stages; give the model that "
            "`systola.compile` returned"
        )
    from sw.compiler.cut.balance import cut_network

    name = str(image.info.get("name", "")) or graph.name
    stages = cut_network(graph, image.config, npus, name=name, say=say)
    return pipeline([s.image for s in stages], samples), [s.cycles for s in stages]


def run_several(
    image: Image,
    samples: Sequence[Mapping[str, NDArray[Any]]],
    *,
    graph: "Graph | None" = None,
    npus: int = 2,
    partition: str = BATCH,
    shared_memory: str = NARROW,
    latency: int = 100,
    stall: float = 0.0,
    seed: int = 0,
) -> "tuple[Outputs, SystemResult]":
    """Run `samples` on the simulated RTL of `npus` NPUs; outputs of each sample, and figures."""
    from sw.runtime.npus.device import NpusDevice
    from sw.runtime.session import check_inputs

    config: NpuConfig = image.config
    system = NpuSystem.of(config, npus, shared_memory)
    for sample in samples:
        check_inputs(image, sample)
    plan, _ = divide(image, graph, npus, partition, len(samples))
    with NpusDevice(system, latency=latency, stall=stall, seed=seed) as device:
        return device.run(plan, samples)
