"""`@systola.kernel`: a Python function over tiles as something that compiles."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from spec.config import NpuConfig, preset
from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.language.errors import AccumulatorFullError, KernelError
from sw.language.layer import TracedLayer, compile_layer, traced_layer
from sw.language.layout import Layout
from sw.language.program import CompiledKernel
from sw.language.races import check_order
from sw.language.source import Line, is_ours
from sw.language.tensor import Tensor
from sw.language.trace import Trace
from sw.language.types import Spec, as_spec, item_bytes

if TYPE_CHECKING:
    import torch

SYNC = ("auto", "manual")

Result = Callable[..., Spec]
"""The type and shape of the result, from those of the inputs and the other arguments by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel: `compile` traces it for shapes and a configuration.

    `tensors`: the parameters that are tensors, in order; the others are numbers of the host.
    """

    function: Callable[..., None]
    tensors: tuple[str, ...]
    result: Result | None = None
    sync: str = "auto"

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, in order."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def line(self) -> Line:
        code = self.function.__code__
        return Line(code.co_filename, code.co_firstlineno)

    def __call__(self, *args: Any, **keywords: Any) -> NoReturn:
        """Refused: a kernel is compiled for shapes first."""
        raise self._error(
            "is a kernel, no function of arrays",
            hint=f"{self.name}.compile(…).run(…), or as an operator of PyTorch as_torch_op(…)",
        )

    def compile(
        self, *specs: Any, config: NpuConfig | str | None = None, **values: Any
    ) -> CompiledKernel:
        """The program for these tensors (`int8[64, 128]`, or arrays) and other arguments.

        config: an `NpuConfig` or a preset's name (default: `default`). The result may be left out
        where the kernel says its shape (`result=`). Raises `KernelError` with the line of the
        kernel's source.
        """
        npu = preset(config or "default") if not isinstance(config, NpuConfig) else config
        arguments = self.arguments(*specs, **values)
        layer = self._layer(arguments, npu)
        trace, done = layer.trace, compile_layer(layer)
        if trace.manual:
            check_order(done.image, trace, done.program.instructions, layer.origins)
        return CompiledKernel(compilation=done, layer=layer)

    def as_torch_op(
        self, name: str, config: NpuConfig | str | None = None
    ) -> "Callable[..., torch.Tensor]":
        """Register the kernel as `torch.ops.library.operator` for name "library::operator".

        The operator takes the kernel's tensors but the result, which it returns, and its other
        parameters. It computes by the golden model of `config`, bit for bit what the NPU does; in
        `torch.compile(…, backend="systola")` it runs on the backend's device.
        """
        from sw.language.torch_op import as_torch_op

        npu = preset(config or "default") if not isinstance(config, NpuConfig) else config
        return as_torch_op(self, name, npu)

    def _layer(self, arguments: Mapping[str, Any], config: NpuConfig) -> TracedLayer:
        try:
            return traced_layer(self._trace(arguments, config, spread=True))
        except AccumulatorFullError:
            # Blocks of columns in banks of their own leave gaps.
            return traced_layer(self._trace(arguments, config, spread=False))

    def arguments(self, *specs: Any, **values: Any) -> dict[str, Any]:
        """Every argument by name: a `Spec` for a tensor."""
        signature = inspect.signature(self.function)
        try:
            bound = signature.bind_partial(*specs, **values)
        except TypeError as error:
            raise self._error(
                f"{error}", hint=f"its parameters are {', '.join(signature.parameters)}"
            ) from None
        bound.apply_defaults()
        found = dict(bound.arguments)
        for name in self.tensors:
            if name in found:
                found[name] = as_spec(f"{self.name}: {name}", found[name])
        missing = [name for name in signature.parameters if name not in found]
        if missing and self.result is not None and missing == [self.tensors[-1]]:
            found[missing[0]] = self._result(found)
            missing = []
        if missing:
            raise self._error(
                f"argument {missing[0]} is missing",
                hint=f"its parameters are {', '.join(signature.parameters)}",
            )
        return {name: found[name] for name in signature.parameters}

    def _result(self, found: Mapping[str, Any]) -> Spec:
        assert self.result is not None
        names = inspect.signature(self.result).parameters
        try:
            return self.result(**{name: found[name] for name in names})
        except KeyError as error:
            raise self._error(f"result=: the kernel has no parameter {error}") from None

    def _trace(self, arguments: Mapping[str, Any], config: NpuConfig, *, spread: bool) -> Trace:
        trace = Trace(
            name=self.name,
            config=config,
            manual=self.sync == "manual",
            spread=spread,
            line=self.line,
        )
        values = dict(arguments)
        for name in self.tensors:
            spec = trace.tensors[name] = values[name]
            layout = Layout.dense(spec.shape, item_bytes(spec.dtype))
            values[name] = Tensor(trace, name, spec.dtype, layout)
        self._call(values)
        if not trace.stored:
            raise self._error("stores nothing", hint="store(out[...], tile) writes a result")
        for name, pieces in trace.stored.items():
            _check_stored(trace, name, pieces)
        return trace

    def _call(self, values: Mapping[str, Any]) -> None:
        """Run the function; what Python refuses in it is an error at its line."""
        try:
            self.function(**values)
        except SystolaError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            at = next(f for f in reversed(frames) if not is_ours(f.filename))
            raise KernelError(
                f"{type(error).__name__}: {error}",
                node=self.name,
                source=str(Line(at.filename, at.lineno or 0)),
            ) from error

    def _error(self, message: str, hint: str = "") -> KernelError:
        return KernelError(message, node=self.name, source=str(self.line), hint=hint)


def _check_stored(trace: Trace, name: str, pieces: list[Layout]) -> None:
    """`KernelError` unless every element of a result is stored."""
    spec = trace.tensors[name]
    item = item_bytes(spec.dtype)
    done = np.zeros(spec.shape, np.bool_)
    flat = done.reshape(-1)
    for piece in pieces:
        steps = [s // item for s in piece.whole_strides]
        view = flat[piece.offset // item :]
        np.lib.stride_tricks.as_strided(view, piece.shape, steps)[...] = True
    if not done.all():
        first = [int(i) for i in np.argwhere(~done)[0]]
        raise trace.error(
            f"{name} {spec}: element {first} is never stored, of {int((~done).sum())}",
            trace.line,
            hint="store every tile of the result",
        )


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...


@overload
def kernel(
    *, result: Result | None = None, sync: str = "auto"
) -> Callable[[Callable[..., None]], Kernel]: ...


def kernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    result: Result | None = None,
    sync: str = "auto",
) -> Any:
    """Make a kernel of a function over tiles.

    Parameters annotated with `Tensor` are tensors in memory; those that the function stores to are
    its results. All others are values of the host: numbers, lists, NumPy arrays.
    result: gives the `Spec` of the last tensor from the arguments that it names.
    sync: `auto` derives order and semaphores from the bytes that statements touch; `manual` leaves
    both to the kernel, and refuses races.
    """
    if sync not in SYNC:
        raise KernelError(
            f"sync={sync!r}: must be one of {', '.join(SYNC)}{did_you_mean(sync, SYNC)}"
        )

    def make(function: Callable[..., None]) -> Kernel:
        return Kernel(function, _tensors(function), result, sync)

    return make if function is None else make(function)


def _tensors(function: Callable[..., None]) -> tuple[str, ...]:
    """The parameters that are tensors."""
    hints = {
        name: parameter.annotation
        for name, parameter in inspect.signature(function).parameters.items()
    }
    found = tuple(name for name, hint in hints.items() if hint is Tensor or _is_named(hint))
    if not found:
        raise KernelError(
            f"{function.__name__}: no parameter is a tensor", hint="annotate them: a: Tensor"
        )
    return found


def _is_named(hint: object) -> bool:
    return isinstance(hint, str) and hint.rpartition(".")[2] == "Tensor"
