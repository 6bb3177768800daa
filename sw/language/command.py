"""Kernels on the command line: `systola sim file.py:kernel --shape a=64x32,b=32x16,scale=0.01`."""

import ast
import re
from typing import Any

from spec.config import NpuConfig
from sw.language.errors import KernelError
from sw.language.kernel import Kernel
from sw.language.types import as_spec
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, random_inputs, run_program

_SIZES = re.compile(r"(?:(?P<dtype>[a-z]+\d+):)?(?P<sizes>\d+(?:x\d+)*)")


def run_text(kernel: Kernel, text: str | None, config: NpuConfig, options: DeviceOptions) -> Report:
    """Compile a kernel for the arguments that `text` names, and run it on random inputs."""
    program = kernel.compile(config=config, **arguments_of(kernel, text or ""))
    image = program.image
    report, _ = run_program(image, random_inputs(image, options.seed), config, options)
    return report


def arguments_of(kernel: Kernel, text: str) -> dict[str, Any]:
    """`a=64x32,b=int16:32x16,scale=0.01,rows=[1,2]`: specs of tensors (int8), and other values."""
    found: dict[str, Any] = {}
    # Commas within brackets are part of a list.
    for item in filter(None, re.split(r",(?![^\[]*\])", text.replace(" ", ""))):
        name, equals, value = item.partition("=")
        if not equals:
            raise KernelError(
                f"--shape {text!r}: {item!r} is not of the form name=value",
                node=kernel.name,
                hint=f"its parameters are {', '.join(kernel.parameters)}",
            )
        tensor = name in kernel.tensors
        found[name] = _spec(name, value) if tensor else _value(kernel, name, value)
    return found


def _spec(name: str, text: str) -> Any:
    match = _SIZES.fullmatch(text)
    if match is None:
        raise KernelError(f"{name}={text}: a tensor is given as 64x32, or int16:64x32")
    sizes = tuple(int(size) for size in match["sizes"].split("x"))
    return as_spec(name, (match["dtype"] or "int8", sizes))


def _value(kernel: Kernel, name: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise KernelError(
            f"{name}={text}: neither a number nor a list of numbers", node=kernel.name
        ) from None
