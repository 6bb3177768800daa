"""What is stored of a delegate: a program image, and how tensors become its integers.

Layout: 8 bytes of magic, the SHA-256 of all that follows, the length of a JSON text (4 bytes,
little endian), that text, the image as `systola compile -o` writes it, and, where it was kept, the
graph that the program was compiled of, as a TOSA flatbuffer. Reading it executes nothing, and needs
neither PyTorch nor the other framework.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spec.errors import SystolaError
from spec.image_file import cut, shown
from spec.program import Image, Port, parse_image
from sw.compiler.frontend.ports import ModelPort
from sw.compiler.frontend.quantized import port_json, port_of
from sw.frontends.delegates.errors import DelegateError

MAGIC = b"SYSTOLA\x01"
_DIGEST = 32
IDENTITY = len(MAGIC) + _DIGEST
"""Bytes that a payload begins with, and that no other payload does."""

_HEAD = IDENTITY + 4
DTYPES = ("float32", "bool", "uint8", "int8", "int16", "int32", "int64")
"""Types of the tensors that a delegate takes and gives."""


Positions = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A tensor of the delegate's call. position: in the call; dtype: of the tensor.

    mask: it is added to scores only, so that −∞ stands for a large negative number.
    """

    port: ModelPort
    position: int
    dtype: str
    mask: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A compiled delegate. Positions of outputs count behind those of the inputs.

    arguments: how many tensors the call has. graph: what the program was compiled of, as a TOSA
    flatbuffer; empty where it was not kept.
    """

    name: str
    policy: str
    image: Image
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    arguments: int
    graph: bytes = b""

    def placed(self, inputs: Positions, outputs: Positions, arguments: int) -> "Payload":
        """The same with other positions, in the order of `inputs` and of `outputs`."""
        return replace(
            self,
            inputs=_moved(self.inputs, inputs),
            outputs=_moved(self.outputs, outputs),
            arguments=arguments,
        )

    def to_bytes(self) -> bytes:
        header = {
            "name": self.name,
            "policy": self.policy,
            "inputs": [_json(a) for a in self.inputs],
            "outputs": [_json(a) for a in self.outputs],
            "arguments": self.arguments,
            "graph": len(self.graph),
        }
        text = json.dumps(header).encode()
        body = struct.pack("<I", len(text)) + text + self.image.to_bytes() + self.graph
        return MAGIC + hashlib.sha256(body).digest() + body


def _moved(arguments: tuple[Argument, ...], positions: Positions) -> tuple[Argument, ...]:
    pairs = zip(arguments, positions, strict=True)
    return tuple(replace(argument, position=at) for argument, at in pairs)


def read_payload(data: bytes, where: str) -> Payload:
    """The payload in `data`; `DelegateError` says what is wrong with it. where: for messages."""
    if data[: len(MAGIC)] != MAGIC:
        raise DelegateError(
            f"{where}: begins with {shown(data[: len(MAGIC)])}, not {MAGIC!r}: it is no program of "
            "this release of Systola; lower the model again"
        )
    body = data[IDENTITY:]
    if len(data) < _HEAD or hashlib.sha256(body).digest() != data[len(MAGIC) : -len(body)]:
        raise DelegateError(
            f"{where}: damaged: {len(data)} bytes that are not what was written; lower the model "
            "again"
        )
    try:
        (size,) = struct.unpack_from("<I", body)
        header = json.loads(body[4 : 4 + size])
        end = len(body) - int(header["graph"])
        if not 4 + size <= end <= len(body):
            raise ValueError(f"a graph of {header['graph']} bytes, of {len(body) - size - 4}")
        return _parsed(header, parse_image(body[4 + size : end], where), body[end:])
    except SystolaError as error:
        raise DelegateError(f"{where}: {str(error).removeprefix(f'{where}: ')}") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise DelegateError(f"{where}: malformed header: {cut(error)}") from None
    except RecursionError:
        raise DelegateError(f"{where}: malformed header: nested too deep") from None


def _parsed(header: Mapping[str, Any], image: Image, graph: bytes) -> Payload:
    inputs = tuple(map(_argument, header["inputs"]))
    outputs = tuple(map(_argument, header["outputs"]))
    count = int(header["arguments"])
    for kind, found, ports in (
        ("inputs", inputs, image.inputs),
        ("outputs", outputs, image.outputs),
    ):
        if len(found) != len(ports):
            raise ValueError(f"{len(found)} {kind}, the image has {len(ports)}")
        for argument, port in zip(found, ports, strict=True):
            _check(argument, port, count)
    return Payload(
        name=str(header["name"]),
        policy=str(header["policy"]),
        image=image,
        inputs=inputs,
        outputs=outputs,
        arguments=count,
        graph=graph,
    )


def _check(argument: Argument, port: Port, count: int) -> None:
    """`ValueError` unless the argument is one of the call's, and its port the image's."""
    own = argument.port
    if not 0 <= argument.position < count:
        raise ValueError(f"port {own.name}: position {argument.position} of {count} arguments")
    if argument.dtype not in DTYPES:
        raise ValueError(f"port {own.name}: type {shown(argument.dtype)}")
    stored = (own.name, own.dtype, math.prod(own.shape))
    if stored != (port.name, port.dtype, math.prod(port.shape)):
        raise ValueError(f"port {shown(stored)} is not the image's, {port.name} {port.dtype}")
    if not (math.isfinite(own.scale) and own.scale >= 0):
        raise ValueError(f"port {own.name}: scale {own.scale}")
    np.iinfo(np.int32 if own.dtype == "bool" else own.dtype)


def _json(argument: Argument) -> dict[str, Any]:
    return {
        "port": port_json(argument.port),
        "position": argument.position,
        "dtype": argument.dtype,
        "mask": argument.mask,
    }


def _argument(stored: Mapping[str, Any]) -> Argument:
    return Argument(
        port=port_of(stored["port"]),
        position=int(stored["position"]),
        dtype=str(stored["dtype"]),
        mask=bool(stored["mask"]),
    )
