"""The program image: one safetensors file with instructions, constants and descriptors.

Compatibility: `isa_version` major must be equal and minor not newer than this release's, the ISA
digest must be equal, and the configuration digest must be the device's. Anything else is refused
with both values in the message. Readers ignore metadata keys that they do not know.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.isa import ISA_DIGEST, ISA_VERSION, Instruction, IsaError, decode_program

FORMAT = "systola-image"
REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP = 0, 1, 2, 3
ALIGN = 64
"""Bytes to which regions and ports are aligned."""

_MAX_HEADER = 64 << 20


class ImageError(SystolaError, ValueError):
    """An image that is cut off, malformed, or made for another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output tensor: where it lies in its region and how to read it.

    `dtype` is a NumPy name; `scale`/`zero_point` are the quantization (scale 0: not quantized).
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float = 0.0
    zero_point: int = 0

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Image:
    """A compiled program.

    program: encoded instructions (uint8, multiple of 16 bytes).
    constants: bytes of region 0 (weights, parameters, tables).
    inputs, outputs: ports of regions 1 and 2; temp_bytes: size of region 3.
    info: free metadata for people and reports (name, macs, shape…), JSON-able.
    """

    config: NpuConfig
    program: NDArray[np.uint8]
    constants: NDArray[np.uint8]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    temp_bytes: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    def instructions(self) -> list[Instruction]:
        """The decoded program; `ImageError` where it is not a legal one."""
        try:
            return decode_program(self.program.tobytes())
        except IsaError as error:
            raise ImageError(f"program: {error}") from None

    def region_bytes(self, region: int) -> int:
        ports = {REGION_INPUT: self.inputs, REGION_OUTPUT: self.outputs}.get(region, ())
        size = max((p.offset + p.nbytes for p in ports), default=0)
        return {REGION_CONST: self.constants.size, REGION_TEMP: self.temp_bytes}.get(region, size)

    def check_device(self, config: NpuConfig) -> None:
        """Refuse to run on another configuration; the message has both digests."""
        if config.digest() != self.config.digest():
            raise ImageError(
                f"image is for configuration {self.config.name} ({self.config.digest_hex}), the "
                f"device is {config.name} ({config.digest_hex}); compile it again with "
                f"--config {config.name}"
            )

    def save(self, path: str | Path) -> None:
        meta = {
            "format": FORMAT,
            "isa_version": ".".join(map(str, ISA_VERSION)),
            "isa_digest": f"{ISA_DIGEST:016x}",
            "config_digest": self.config.digest_hex,
            "config": json.dumps(self.config.to_dict()),
            "inputs": json.dumps([asdict(p) for p in self.inputs]),
            "outputs": json.dumps([asdict(p) for p in self.outputs]),
            "temp_bytes": str(self.temp_bytes),
            "info": json.dumps(dict(self.info)),
        }
        _write(Path(path), {"program": self.program, "constants": self.constants}, meta)


def load_image(path: str | Path) -> Image:
    """Read an image; `ImageError` if it is cut off, malformed or of another ISA."""
    path = Path(path)
    tensors, meta = _read(path)
    if meta.get("format") != FORMAT:
        raise ImageError(
            f"{path}: format {meta.get('format')!r} is not {FORMAT!r}: no program image"
        )
    _check_isa(path, meta)
    try:
        config = NpuConfig(**json.loads(meta["config"]))
        image = Image(
            config=config,
            program=tensors["program"],
            constants=tensors["constants"],
            inputs=_ports(meta["inputs"]),
            outputs=_ports(meta["outputs"]),
            temp_bytes=int(meta["temp_bytes"]),
            info=json.loads(meta["info"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ImageError(f"{path}: malformed image: {error}") from None
    if config.digest_hex != meta.get("config_digest"):
        raise ImageError(
            f"{path}: configuration digest {meta.get('config_digest')} does not match the stored "
            f"configuration ({config.digest_hex}); compile the program again"
        )
    return image


def _check_isa(path: Path, meta: Mapping[str, str]) -> None:
    ours = ".".join(map(str, ISA_VERSION))
    theirs = meta.get("isa_version", "?")
    digest = meta.get("isa_digest")
    try:
        major, minor = map(int, theirs.split("."))
    except ValueError:
        raise ImageError(f"{path}: isa_version {theirs!r} is not of the form major.minor") from None
    if major != ISA_VERSION[0] or minor > ISA_VERSION[1] or digest != f"{ISA_DIGEST:016x}":
        raise ImageError(
            f"{path}: made for ISA {theirs} (digest {digest}), this release has {ours} "
            f"(digest {ISA_DIGEST:016x}); compile the program again"
        )


def _ports(text: str) -> tuple[Port, ...]:
    return tuple(Port(**{**p, "shape": tuple(p["shape"])}) for p in json.loads(text))


def _write(path: Path, tensors: Mapping[str, NDArray[np.uint8]], meta: Mapping[str, str]) -> None:
    header: dict[str, Any] = {"__metadata__": dict(meta)}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [data.size], "data_offsets": [at, at + data.size]}
        at += data.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for data in tensors.values():
            out.write(np.ascontiguousarray(data, np.uint8).tobytes())
    temporary.replace(path)


def _read(path: Path) -> tuple[dict[str, NDArray[np.uint8]], dict[str, str]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: cannot read: {error.strerror}") from None
    if len(data) < 8:
        raise ImageError(f"{path}: {len(data)} bytes: too short for a program image (cut off?)")
    (size,) = struct.unpack_from("<Q", data)
    if size > _MAX_HEADER:
        raise ImageError(f"{path}: header length {size} is not credible: no program image")
    if len(data) < 8 + size:
        raise ImageError(
            f"{path}: cut off: header needs {8 + size} bytes, the file has {len(data)}"
        )
    try:
        header = json.loads(data[8 : 8 + size])
        meta = header.pop("__metadata__")
        spans = {name: tuple(entry["data_offsets"]) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(f"{path}: malformed header: {error}") from None
    need = 8 + size + max((end for _, end in spans.values()), default=0)
    if len(data) < need:
        raise ImageError(f"{path}: cut off: {need} bytes expected, the file has {len(data)}")
    body = np.frombuffer(data, np.uint8, offset=8 + size)
    return {name: body[a:b].copy() for name, (a, b) in spans.items()}, meta
