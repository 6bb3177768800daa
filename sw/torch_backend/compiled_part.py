"""A part of a graph on the NPU: quantized at its first call, compiled once, run many times."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from spec.errors import SystolaError
from sw.compiler import compile_graph
from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_calibrated, import_graph
from sw.compiler.frontend.normalize import MASKED
from sw.compiler.frontend.ports import Imported, ModelPort, dequantize_output, quantize_input
from sw.compiler.frontend.quantization.calibrate import calibrate
from sw.compiler.frontend.quantization.calls import far_outside, outgrown_integers, require_int32
from sw.compiler.frontend.quantization.policy import Resolved
from sw.compiler.frontend.sources import line_or_module
from sw.compiler.frontend.threads import one_thread
from sw.compiler.tosa.digest import graph_digest
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.progress import announced
from sw.runtime.timing import Timing
from sw.torch_backend.devices import Resident, instructions, place
from sw.torch_backend.extract import Extract
from sw.torch_backend.figures import Figures
from sw.torch_backend.gradients import SOURCE, without_gradient
from sw.torch_backend.masks import only_masks
from sw.torch_backend.options import Options
from sw.torch_backend.report_text import short_place
from sw.torch_backend.stored import Compiled, obtain, part_key


class PartError(SystolaError):
    """A part that cannot be compiled because of `nodes` (of the whole graph)."""

    def __init__(self, message: str, nodes: Sequence[Node]) -> None:
        super().__init__(message)
        self.nodes = list(nodes)


class Part(torch.nn.Module):
    """What the NPU runs in place of some nodes; `figures` tell how it went.

    Takes and returns the float tensors that cross between the CPU and the NPU. What the integers
    cannot hold (NaN, infinities) runs on the CPU, for that call.
    """

    def __init__(self, made: Extract, options: Options, name: str, policy: Resolved) -> None:
        super().__init__()
        self._made, self._options, self.title = made, options, name
        self._float, self._policy = made.module, policy
        self._masks = [only_masks(n) for n in _placeholders(made.module)]
        self._samples: list[tuple[torch.Tensor, ...]] = []
        self.names = [n.name for n in made.nodes.values()]
        self.figures = Figures()
        self.anchor: torch.Tensor | None = None
        self.digest, self.tosa_digest = "", ""
        self.timing: Timing | None = None
        self._imported: Imported | None = None
        self._resident: Resident | None = None
        self._full: tuple[ModelPort, ...] = ()

    @property
    def where(self) -> str:
        """The part's title and where in the model it begins."""
        place = next(filter(None, map(line_or_module, self.nodes)), "")
        return f"{self.title} ({short_place(place)})" if place else self.title

    @property
    def compiled(self) -> Compiled:
        """The integers that it was compiled to; there are none before `build`, after `release`."""
        assert self._imported is not None
        return Compiled(imported=self._imported, image=self._image)

    @property
    def masks(self) -> list[bool]:
        """Which inputs are only added to scores: −∞ is allowed in them."""
        return self._masks

    @property
    def policy(self) -> Resolved:
        """How its values became integers."""
        return self._policy

    @property
    def examples(self) -> list[torch.Tensor]:
        """What it takes, as shapes and types."""
        return [node.meta["val"] for node in _placeholders(self._float)]

    @property
    def results(self) -> list[torch.Tensor]:
        """What it returns, as shapes and types."""
        return [node.meta["val"] for node in self._made.outputs]

    @property
    def nodes(self) -> list[Node]:
        """The part's nodes, as the whole graph has them."""
        return list(self._made.nodes.values())

    def release(self) -> None:
        """Give up program and device; figures stay."""
        self._imported = self._resident = None
        self._samples.clear()

    # Compiling ------------------------------------------------------------------------------------

    def build(self, samples: Sequence[Sequence[torch.Tensor]]) -> None:
        """Quantize with `samples` and compile; `PartError` names the nodes that prevent it."""
        self._samples = [tuple(t.clone() for t in self._masked(s)) for s in samples]
        try:
            what = f"compiling {self.where}, {len(self.names)} operators"
            with announced(what, self._options.progress) as end:
                compiled = self._obtain()
                end.result = "found in the cache" if self.figures.cached else "done"
        except PartError:
            raise
        except CompileError as error:
            raise PartError(_short(error), self._blamed(error.node)) from error
        except Exception as error:  # whatever is wrong with this part, the CPU can run it
            text = str(error).splitlines() or [""]
            raise PartError(f"{type(error).__name__}: {text[0]}", self.nodes) from error
        self._imported, self._image = compiled.imported, compiled.image
        self.digest = compiled.digest
        self.tosa_digest = graph_digest(compiled.imported.graph)
        self.timing = Timing.of(
            self._image, clock_mhz=self._options.clock_mhz, memory=self._options.memory
        )
        self._instructions = instructions(self._image)
        self._resident = None
        self.figures.calibrations += 1

    def _obtain(self) -> Compiled:
        """What `_compile` makes, or has made in an earlier process."""
        if not self._options.cache:
            return self._compile()
        settings = (self._options, self._policy, self.title)
        key = part_key(self._float, self._samples, *settings)
        compiled, self.figures.cached = obtain(key, self._compile)
        return compiled

    def _compile(self) -> Compiled:
        """Quantize with the samples and compile; errors are the compiler's."""
        with one_thread():
            imported = self._import()
        self._check_outputs(imported)
        image = compile_graph(imported.graph, self._options.config, name=self.title)
        return Compiled(imported=imported, image=image)

    def _import(self) -> Imported:
        """The TOSA graph under the policy of the whole graph."""
        rows, name = self._options.rows, self.title
        if self._policy == "pt2e":
            return import_graph(self._float, self._samples, policy="pt2e", rows=rows, name=name)
        ranges = calibrate(self._float, self._samples)
        self._require_finite(ranges.largest)
        return import_calibrated(self._float, ranges, rows=rows, name=name)

    def _masked(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        pairs = zip(tensors, self._masks, strict=True)
        return tuple(t.detach().clamp(min=MASKED) if mask else t.detach() for t, mask in pairs)

    def _require_finite(self, largest: Mapping[Node, float]) -> None:
        """`PartError` for the first values that no integer can stand for."""
        for node, value in largest.items():
            if not np.isfinite(value) or value > 1e30:
                guilty = self._made.nodes.get(node)
                readers = [self._made.nodes[u] for u in node.users if u in self._made.nodes]
                raise PartError(
                    f"values of {node.name} reach {value:.3g} in calibration",
                    readers if guilty is None else [guilty],
                )

    def _check_outputs(self, imported: Imported) -> None:
        for port, node in zip(imported.outputs, self._made.outputs, strict=True):
            if not node.meta["val"].is_floating_point() and port.scale:
                raise PartError("integers cannot leave the NPU", [node])

    def _blamed(self, name: str) -> list[Node]:
        """The node that a compiler's error names, by its own name or as the start of a layer's."""
        named = [(n.name, whole) for n, whole in self._made.nodes.items()]
        best = [x for x in named if name == x[0] or name.startswith(f"{x[0]}_")]
        return [max(best, key=lambda x: len(x[0]))[1]] if best else self.nodes

    # Running --------------------------------------------------------------------------------------

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One run."""
        given = self._masked(tensors)
        arrays: dict[str, Any] = {}
        try:
            reason = self._unfit(given)
            if not reason:
                arrays = self._pack(given)
        except CompileError as error:
            reason = _short(error)
        if reason:
            self.figures.on_cpu[reason] = self.figures.on_cpu.get(reason, 0) + 1
            return tuple(self._float(*tensors))
        outputs = self._run(arrays)
        if self._options.watch_results and self._at_ends(outputs):
            outputs = self._again(given, outputs)
        if self.anchor is not None and torch.is_grad_enabled():
            return without_gradient(self.anchor, outputs, SOURCE)
        return outputs

    def _at_ends(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether a result reaches the end of a range that calibration left room in."""
        assert self._imported is not None
        pairs = zip(self._imported.outputs, outputs, strict=True)
        return any(
            port.dtype == "int16" and port.scale and float(t.abs().max()) >= port.ends[1]
            for port, t in pairs
        )

    def _again(
        self, given: Sequence[torch.Tensor], outputs: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        """The results of a range that has grown; as they are where it does not grow."""
        assert self._imported is not None
        before = self._imported.outputs
        if before == self._full or self.figures.calibrations > self._options.recalibrate:
            return outputs
        try:
            self.build([given, *self._samples])
        except PartError:
            return outputs
        if self._imported.outputs == before:
            self._full = before  # the format's own end, of a sigmoid for example
            return outputs
        return self._run(self._pack(given))

    def _unfit(self, tensors: Sequence[torch.Tensor]) -> str:
        """Why these inputs cannot run on the NPU, '' if they can; calibrates again if need be.

        `CompileError` for integers that the NPU cannot hold.
        """
        imported = self._imported
        assert imported is not None
        integers, beyond = {}, False
        for port, tensor, mask in zip(imported.inputs, tensors, self._masks, strict=True):
            if not tensor.is_floating_point():
                integers[port.name] = quantize_input(port, tensor.numpy())
                continue
            largest = float(tensor.abs().max())
            if not np.isfinite(largest):
                return "an input has NaN or infinite values"
            beyond |= not mask and far_outside(port, tensor.detach().numpy())
        found = outgrown_integers(imported, integers)
        require_int32(each for each in found if each.op and each.op.kind != "RESCALE")
        beyond |= bool(found)
        if beyond and self.figures.calibrations <= self._options.recalibrate:
            try:
                self.build([tensors, *self._samples])
            except PartError as error:
                return f"calibration with larger inputs: {error}"
        return ""

    def _pack(self, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """Integers by port; `CompileError` for what they cannot hold."""
        assert self._imported is not None
        ports = list(zip(self._imported.inputs, [t.numpy() for t in tensors], strict=True))
        arrays = {port.name: quantize_input(port, array) for port, array in ports}
        told = self._options.recalibrate, self.where
        for port, array in ports:
            self.figures.saturation.count(port, array, *told)
        found = outgrown_integers(self._imported, arrays)
        require_int32(found)
        for each in found:
            self.figures.saturation.count_integers(each, *told)
        return arrays

    def _run(self, arrays: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        imported, options, figures = self._imported, self._options, self.figures
        assert imported is not None
        if self._resident is None:
            self._resident = place(self._image, options.device_options(), options.check)
        done = self._resident.run(arrays)
        if options.verify:
            exact = run_graph(imported.graph, arrays)
            for name, array in exact.items():
                if not np.array_equal(array, done.outputs[name]):
                    raise SystolaError(
                        f"{self.title}: output {name} of device {options.device} is not what the "
                        f"reference interpreter computes"
                    )
            figures.verified += 1
        assert self.timing is not None
        figures.add(arrays, done, self._instructions, self.timing)
        pairs = zip(imported.outputs, self._made.outputs, strict=True)
        return tuple(_tensor(port, done.outputs[port.name], n.meta["val"]) for port, n in pairs)


def _tensor(port: ModelPort, array: np.ndarray[Any, Any], like: torch.Tensor) -> torch.Tensor:
    """A port's integers as the tensor that the operator would have made, strides included."""
    if port.scale:
        found = torch.from_numpy(dequantize_output(port, array))
    else:
        found = torch.from_numpy(np.array(port.layout.to_logical(array)))
    found = found.to(like.dtype)
    if found.stride() == like.stride():
        return found
    out = torch.empty_strided(tuple(like.shape), like.stride(), dtype=like.dtype)
    return out.copy_(found)


def _placeholders(module: GraphModule) -> list[Node]:
    return [n for n in module.graph.nodes if n.op == "placeholder"]


def _short(error: CompileError) -> str:
    """The first line of a compiler's error, without the node's name."""
    return str(error).splitlines()[0].removeprefix(f"{error.node}: ")
