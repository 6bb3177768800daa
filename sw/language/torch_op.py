"""A kernel as an operator of PyTorch: `torch.ops.mylib.matmul(a, b)`.

On the CPU it computes by the golden model. `torch.compile(…, backend="systola")` finds the kernel
by the operator (`kernel_of`) and runs its program on its device.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spec.config import NpuConfig
from sw.language.errors import KernelError
from sw.language.program import CompiledKernel
from sw.language.source import Line
from sw.language.types import Spec, as_spec

if TYPE_CHECKING:
    import torch

_ATTRIBUTE = "systola_kernel"
"""Of the operator in `torch.ops`: its `KernelOperator`."""

_TYPES = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    list[int]: "int[]",
    list[float]: "float[]",
    Sequence[int]: "int[]",
    Sequence[float]: "float[]",
}
"""Parameters of a kernel in a schema of PyTorch."""


class Compilable(Protocol):
    """What a kernel offers: see `Kernel` in `sw/language/kernel.py`."""

    @property
    def name(self) -> str: ...
    @property
    def line(self) -> Line: ...
    @property
    def function(self) -> Callable[..., None]: ...
    @property
    def tensors(self) -> tuple[str, ...]: ...
    @property
    def result(self) -> Callable[..., Spec] | None: ...
    def arguments(self, *specs: Any, **values: Any) -> dict[str, Any]: ...
    def compile(
        self, *specs: Any, config: NpuConfig | str | None = None, **values: Any
    ) -> CompiledKernel: ...


@dataclass(frozen=True, slots=True, eq=False)
class KernelOperator:
    """A kernel that is an operator of PyTorch, and its programs by shapes and values."""

    kernel: Compilable
    programs: dict[object, CompiledKernel] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The parameters that are tensors, without the result."""
        return self.kernel.tensors[:-1]

    def program(self, arguments: Mapping[str, Any], config: NpuConfig) -> CompiledKernel:
        """The program for arguments by name: tensors (or their specs), and values."""
        given = {
            name: as_spec(f"{self.kernel.name}: {name}", value) if name in self.inputs else value
            for name, value in arguments.items()
        }
        key = (*((name, repr(value)) for name, value in given.items()), config.digest())
        if key not in self.programs:
            self.programs[key] = self.kernel.compile(config=config, **given)
        return self.programs[key]

    def bind(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call of the operator by name."""
        signature = inspect.signature(self.kernel.function)
        names = [name for name in signature.parameters if name != self.kernel.tensors[-1]]
        return dict(zip(names, args, strict=False)) | dict(keywords)

    def result(self, arguments: Mapping[str, Any]) -> Spec:
        """Type and shape of what the operator returns."""
        return as_spec("result", self.kernel.arguments(**arguments)[self.kernel.tensors[-1]])


def kernel_of(target: object) -> KernelOperator | None:
    """The kernel behind an operator of a graph; None for every other operator."""
    found = getattr(target, _ATTRIBUTE, None)
    return found if isinstance(found, KernelOperator) else None


def as_torch_op(kernel: Compilable, name: str, config: NpuConfig) -> Callable[..., "torch.Tensor"]:
    """Register a kernel as operator `name` ("library::operator"), and return it.

    Tensors of the operator are the kernel's inputs, its result is returned. `config`: what the
    operator computes with outside of `torch.compile`.
    """
    import torch

    if kernel.result is None:
        raise KernelError(
            "an operator of PyTorch needs the shape of its result",
            node=kernel.name,
            source=str(kernel.line),
            hint="@kernel(result=lambda a, b: int8[…])",
        )
    library, colons, operator = name.partition("::")
    if not (colons and library.isidentifier() and operator.isidentifier()):
        raise KernelError(f"name {name!r}: must be of the form library::operator", node=kernel.name)
    made = KernelOperator(kernel)

    def compute(*args: Any, **keywords: Any) -> torch.Tensor:
        arguments = made.bind(args, keywords)
        program = made.program(arguments, config)
        arrays = {name: arguments[name].numpy(force=True) for name in made.inputs}
        (array,) = program.reference(arrays).values()
        return torch.from_numpy(array)

    def shape(*args: Any, **keywords: Any) -> torch.Tensor:
        arguments = made.bind(args, keywords)
        spec = made.result(arguments)
        like = arguments[made.inputs[0]]
        return like.new_empty(spec.shape, dtype=getattr(torch, spec.dtype))

    defined = torch.library.custom_op(name, compute, mutates_args=(), schema=_schema(kernel))
    defined.register_fake(shape)
    setattr(getattr(getattr(torch.ops, library), operator).default, _ATTRIBUTE, made)
    return defined


def _schema(kernel: Compilable) -> str:
    """The operator's parameters as PyTorch writes them."""
    shown = []
    for name, parameter in inspect.signature(kernel.function, eval_str=True).parameters.items():
        if name == kernel.tensors[-1]:
            continue
        if name in kernel.tensors:
            shown.append(f"Tensor {name}")
            continue
        kind = _TYPES.get(parameter.annotation)
        if kind is None:
            raise KernelError(
                f"parameter {name}: {parameter.annotation}: an operator of PyTorch takes "
                "int, float, bool, str, list[int] and list[float]",
                node=kernel.name,
                source=str(kernel.line),
            )
        default = parameter.default
        given = "" if default is parameter.empty else f"={_default(default)}"
        shown.append(f"{kind} {name}{given}")
    return f"({', '.join(shown)}) -> Tensor"


def _default(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(list(value)) if isinstance(value, tuple | list) else str(value)
