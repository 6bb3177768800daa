"""Tensors to and from the input and output regions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.errors import HazardError, TensorError
from spec.program import Port

Bytes = NDArray[np.uint8]
Tensor = NDArray[Any]


def fill_inputs(region: Bytes, ports: Sequence[Port], tensors: Mapping[str, Tensor]) -> None:
    """Put every input in place; `TensorError` unless there is exactly one per port."""
    for name in tensors:
        _port(ports, name)
    for port in ports:
        if port.name not in tensors:
            raise TensorError(f"input {port.name!r} is missing; it is {_describe(port)}")
        write_port(region, ports, port.name, tensors[port.name])


def write_port(region: Bytes, ports: Sequence[Port], name: str, tensor: Tensor) -> None:
    """Put one tensor in place; its shape and dtype must be the port's."""
    port = _port(ports, name)
    tensor = np.asarray(tensor)
    if tensor.shape != port.shape or tensor.dtype != np.dtype(port.dtype):
        raise TensorError(
            f"input {name!r} is {tensor.dtype}{list(tensor.shape)}, the program takes "
            f"{_describe(port)}"
        )
    data = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    region[port.offset : port.offset + port.nbytes] = data


def read_port(region: Bytes, ports: Sequence[Port], name: str) -> Tensor:
    """A copy of one tensor, in its shape and dtype."""
    port = _port(ports, name)
    data = region[port.offset : port.offset + port.nbytes].copy()
    return data.view(port.dtype).reshape(port.shape)


def check_written(written: Bytes | None, port: Port) -> None:
    """`HazardError` unless the run wrote every byte of output `port`.

    written: 1 for each written byte of the output region; None: no program has run.
    """
    if written is None:
        raise _never(port, 0)
    part = written[port.offset : port.offset + port.nbytes]
    if not part.all():
        raise _never(port, int(np.argmin(part)))


def _never(port: Port, byte: int) -> HazardError:
    element = byte // np.dtype(port.dtype).itemsize
    place = [int(i) for i in np.unravel_index(element, port.shape)]
    return HazardError(
        f"the host reads output {port.name!r}, whose byte {byte} (element {place}) the program "
        "never wrote",
        "host",
        -1,
        "output",
        port.offset + byte,
    )


def _port(ports: Sequence[Port], name: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    known = ", ".join(p.name for p in ports) or "none"
    raise TensorError(f"tensor {name!r}: the program has no such port; ports are {known}")


def _describe(port: Port) -> str:
    return f"{port.dtype}{list(port.shape)}"
