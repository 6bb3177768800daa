"""One graph of Dynamo: its variants by shapes and parameters, and when it runs in eager mode."""

import re
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._guards import CompileContext
from torch.fx import GraphModule

from spec.errors import SystolaError
from sw.compiler.frontend.sources import line_or_module
from sw.torch_backend.bind import (
    Key,
    bind,
    identity,
    shape_key,
    signature,
    version,
)
from sw.torch_backend.device_tensors import NAME, any_on_device, host_graph, to_device, to_host
from sw.torch_backend.gradients import SOURCE
from sw.torch_backend.kept import Kept
from sw.torch_backend.options import Options
from sw.torch_backend.variant import NotCompiledError, Variant

_UPDATES = 8
"""Times that parameters may change in place before a graph is left to eager mode."""


class CompiledGraph:
    """What Dynamo calls in place of `module`. Compiles at the first call with real tensors."""

    def __init__(self, module: GraphModule, examples: Sequence[Any], options: Options,
                 given: Any, number: int, kept: Kept) -> None:  # fmt: skip
        self.module, self.options, self.given, self.number = module, options, given, number
        self._kept = kept
        compiling = CompileContext.current_compile_id()
        self.frame = None if compiling is None else compiling.frame_id
        self.born = time.time()
        self._signature = signature(module, examples)
        self._on_device = any_on_device(examples)
        self._host_module = host_graph(module) if self._on_device else module
        self._variable: set[int] = set()
        self._variants: OrderedDict[Key, Variant | str] = OrderedDict()
        self._versions: dict[Key, tuple[int, ...]] = {}
        self._released: list[Variant] = []
        self._updates = 0
        self._owners: list[weakref.ref[torch.Tensor]] = []
        self.calls = self.given_up = 0
        self.eager: dict[str, int] = {}
        self.notes: list[str] = []
        self.after: Callable[[], None] = lambda: None

    @property
    def variants(self) -> list[Variant]:
        """All that were compiled, those given up included."""
        return [*self._released, *(v for v in self._variants.values() if isinstance(v, Variant))]

    @property
    def kept(self) -> int:
        """How many compiled variants are ready to run."""
        return sum(isinstance(v, Variant) for v in self._variants.values())

    @property
    def place(self) -> str:
        """The first line of the model that the graph has."""
        return first_line(self.module)

    @property
    def files(self) -> set[str]:
        """The files of all calls in the user's model that led to the graph's operators."""
        traces = "\n".join(n.meta.get("stack_trace") or "" for n in self.module.graph.nodes)
        return {file for file in re.findall(r'File "(.+)", line', traces) if file[0] != "<"}

    def belongs_to(self, tensors: Iterable[torch.Tensor], otherwise: bool = True) -> bool:
        """Whether it has run with any of these parameters; `otherwise` if it never had any."""
        wanted = {id(t) for t in tensors}
        mine = [t for r in self._owners if (t := r()) is not None]
        return any(id(t) in wanted for t in mine) if self._owners else otherwise

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        try:
            return self._call(args)
        finally:
            self.after()

    def prepare(self, *args: Any) -> None:
        """Compile for such arguments now, not at the first call with them."""
        self._ready(args, self._host(args))

    def _call(self, args: Sequence[Any]) -> Any:
        host = self._host(args)
        found = self._ready(args, host)
        if isinstance(found, str):
            self.eager[found] = self.eager.get(found, 0) + 1
            return self.module(*args)
        result = found.run(*self._signature.pick(host, "input", self._variable))
        self._demote(args)
        return to_device(result, self._parameters(args), SOURCE) if self._on_device else result

    def _host(self, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments with tensors of the CPU."""
        return [to_host(a) for a in args] if self._on_device else args

    def _ready(self, args: Sequence[Any], host: Sequence[Any]) -> Variant | str:
        """What runs these arguments, or why eager mode does; `NotCompiledError` if it may not."""
        inputs = self._signature.pick(args, "input", self._variable)
        found: Variant | str = self._never(inputs) or self._variant(args, host)
        if isinstance(found, Variant):
            if not (found.training and torch.is_grad_enabled()):
                return found
            found = "operators in training mode, with gradients wanted"
        if not self.options.fallback:
            at = f"\n  at {self.place}" if self.place else ""
            raise NotCompiledError(f"graph {self.number}: {found}{at}")
        return found

    def _never(self, inputs: Sequence[Any]) -> str:
        """Why these arguments run in eager mode, whatever the graph is; '' if they need not."""
        if any(not isinstance(t, torch.Tensor) for t in inputs):
            return "inputs that are no tensors"
        if any(t.device.type not in ("cpu", NAME) for t in inputs):
            return "inputs that are no tensors of the CPU"
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) for t in inputs):
            return "inputs of a subclass of Tensor"
        if torch.is_autocast_enabled("cpu"):
            return "autocast: the NPU quantizes float32"
        if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
            return "an input wants a gradient, and the NPU computes none"
        if self._updates >= _UPDATES:
            return f"parameters that change ({self._updates} times): quantizing them costs more"
        return ""

    # Variants -------------------------------------------------------------------------------------

    def _parameters(self, args: Sequence[Any]) -> list[torch.Tensor]:
        own = [*self.module.parameters(), *self.module.buffers()]
        return [*self._signature.pick(args, "parameter", self._variable), *own]

    def _variant(self, args: Sequence[Any], host: Sequence[Any]) -> Variant | str:
        """host: `args` as tensors of the CPU; parameters are known by those that the user has."""
        parameters = self._parameters(args)
        inputs = self._signature.pick(host, "input", self._variable)
        shapes = shape_key(inputs, self._signature.pick(args, "number"))
        key = (shapes, tuple(identity(p) for p in parameters))
        versions = tuple(version(p) for p in parameters)
        if key in self._variants and self._versions[key] != versions:
            self._updates += 1
            self.notes.append("parameters were changed in place: quantized again")
            self.drop(key)
        if key not in self._variants:
            self._variants[key] = self._compile(host, inputs)
            self._versions[key] = versions
            self._owners += [weakref.ref(p) for p in parameters]
        self._kept.use(self, key, self.options.variants)
        self._variants.move_to_end(key)
        return self._variants[key]

    def _compile(self, args: Sequence[Any], inputs: Sequence[torch.Tensor]) -> Variant | str:
        bound = bind(self._host_module, self._signature, args, self._variable)
        try:
            made = Variant(bound, self._samples(inputs), self.options)
        except NotCompiledError:
            raise
        except SystolaError as error:
            return str(error).splitlines()[0]
        except Exception as error:  # whatever it is, eager mode can run the graph
            return f"{type(error).__name__}: {str(error).split(chr(10))[0]}"
        return made

    def _samples(self, inputs: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
        """Calls that calibrate: the user's where they fit this graph, else the first real one."""
        given = self.options.calibration
        calls = list(given() if callable(given) else given)
        found = []
        for call in calls:
            tensors = [call] if isinstance(call, torch.Tensor) else list(call)
            if _like(tensors, inputs):
                found.append(tensors)
        if calls and not found:
            self.notes.append("no call of the option calibration has this graph's shapes")
        return found or [list(inputs)]

    def _demote(self, args: Sequence[Any]) -> None:
        """What the graph itself has written to is an input from now on."""
        latest = next(reversed(self._variants))
        pairs = zip(self._parameters(args), self._versions[latest], strict=True)
        changed = {id(p) for p, before in pairs if version(p) != before}
        positions = {i for i, a in enumerate(args) if id(a) in changed}
        if positions:
            self._variable |= positions
            for key in list(self._variants):
                self.drop(key)

    def drop(self, key: Key) -> None:
        """Give a variant up; its figures stay."""
        variant = self._variants.pop(key)
        del self._versions[key]
        self._kept.forget(self, key)
        if isinstance(variant, Variant):
            variant.release()
            self._released.append(variant)
            self.given_up += 1


def first_line(module: GraphModule) -> str:
    """The first line of the user's model that a graph has, or its first module; '' if none."""
    return next(filter(None, (line_or_module(n) for n in module.graph.nodes)), "")


def _like(tensors: Sequence[Any], inputs: Sequence[torch.Tensor]) -> bool:
    return len(tensors) == len(inputs) and all(
        isinstance(a, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype
        for a, b in zip(tensors, inputs, strict=True)
    )
