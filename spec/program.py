"""The program image: one safetensors file with instructions, constants and descriptors.

Compatibility: `isa_version` major must be equal and minor not newer than this release's, the ISA
digest must be equal, and the configuration digest must be the device's. Anything else is refused
with both values in the message. Readers ignore metadata keys that they do not know.
"""

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.isa import (
    GRANULE_BYTES,
    ISA_DIGEST,
    ISA_VERSION,
    Instruction,
    IsaError,
    decode_program,
)

FORMAT = "systola-image"
REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP = 0, 1, 2, 3
ALIGN = 64
"""Bytes to which regions and ports are aligned."""

MAX_REGION_BYTES = 1 << 32
"""Largest region that a port or `temp_bytes` may span."""
PORT_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32")

_MAX_HEADER = 64 << 20


class ImageError(SystolaError, ValueError):
    """An image that is cut off, malformed, or made for another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output tensor: where it lies in its region and how to read it.

    `dtype` is one of `PORT_DTYPES`; `scale`/`zero_point` are the quantization (scale 0: not
    quantized). `ImageError` for anything that cannot lie in a region.
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float = 0.0
    zero_point: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ImageError(f"port name {self.name!r}: must be a text that is not empty")
        if any(c in self.name for c in "/\\\0"):
            raise ImageError(f"port name {self.name!r}: must be a file's name, without / and \\")
        where = f"port {self.name}"
        if self.dtype not in PORT_DTYPES:
            raise ImageError(
                f"{where}: dtype {self.dtype!r}: must be one of {', '.join(PORT_DTYPES)}"
            )
        sizes = self.shape
        if not isinstance(sizes, tuple) or not all(_is_whole(n) and n > 0 for n in sizes):
            raise ImageError(f"{where}: shape {sizes!r}: must be a tuple of whole numbers above 0")
        if not _is_whole(self.offset) or self.offset < 0:
            raise ImageError(f"{where}: offset {self.offset!r}: must be a whole number from 0")
        if self.offset + self.nbytes > MAX_REGION_BYTES:
            raise ImageError(
                f"{where}: {self.nbytes} bytes at offset {self.offset}: must end within "
                f"{MAX_REGION_BYTES} bytes"
            )
        if isinstance(self.scale, bool) or not isinstance(self.scale, int | float):
            raise ImageError(f"{where}: scale {self.scale!r}: must be a number")
        if not (self.scale >= 0 and math.isfinite(self.scale)):
            raise ImageError(f"{where}: scale {self.scale!r}: must be finite and not negative")
        if not _is_whole(self.zero_point):
            raise ImageError(f"{where}: zero_point {self.zero_point!r}: must be a whole number")

    @property
    def nbytes(self) -> int:
        # Exact integers: NumPy's product would wrap around on a forged shape.
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Image:
    """A compiled program.

    program: encoded instructions (uint8, multiple of 16 bytes).
    constants: bytes of region 0 (weights, parameters, tables).
    inputs, outputs: ports of regions 1 and 2; temp_bytes: size of region 3.
    info: free metadata for people and reports (name, macs, shape…), JSON-able; `macs` is a number.
    `ImageError` names the part that is malformed.
    """

    config: NpuConfig
    program: NDArray[np.uint8]
    constants: NDArray[np.uint8]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    temp_bytes: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("program", "constants"):
            data = getattr(self, name)
            if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1:
                raise ImageError(f"{name}: must be a one-dimensional array of uint8")
        if self.program.size % GRANULE_BYTES:
            raise ImageError(
                f"program: {self.program.size} bytes: must be a multiple of {GRANULE_BYTES}"
            )
        for kind in ("inputs", "outputs"):
            names = [port.name for port in getattr(self, kind)]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ImageError(f"{kind}: {', '.join(twice)}: each name may occur only once")
        if not _is_whole(self.temp_bytes) or not 0 <= self.temp_bytes <= MAX_REGION_BYTES:
            raise ImageError(
                f"temp_bytes {self.temp_bytes!r}: must be a whole number in 0…{MAX_REGION_BYTES}"
            )
        if not isinstance(self.info, Mapping):
            raise ImageError(f"info {self.info!r}: must be a mapping of names to values")
        macs = self.info.get("macs", 0)
        if not _is_whole(macs) or macs < 0:
            raise ImageError(f"info: macs {macs!r}: must be a whole number from 0")

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
                f"{config.options}"
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


def _is_whole(value: object) -> bool:
    """An int; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


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
    except (KeyError, TypeError, ValueError, RecursionError) as error:
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
    form = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", theirs)
    if form is None:
        raise ImageError(f"{path}: isa_version {theirs!r} is not of the form major.minor")
    major, minor = map(int, form.groups())
    if major != ISA_VERSION[0] or minor > ISA_VERSION[1] or digest != f"{ISA_DIGEST:016x}":
        raise ImageError(
            f"{path}: made for ISA {theirs} (digest {digest}), this release has {ours} "
            f"(digest {ISA_DIGEST:016x}); compile the program again"
        )


def _ports(text: str) -> tuple[Port, ...]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise ImageError(f"ports {text[:60]!r}: must be a list")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
            raise ImageError(f"port {entry!r}: must be an object with a shape of numbers")
    return tuple(Port(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)


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
        spans = {name: _span(name, entry["data_offsets"]) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ImageError(f"{path}: malformed header: {error}") from None
    if not isinstance(meta, dict) or not all(isinstance(v, str) for v in meta.values()):
        raise ImageError(f"{path}: malformed header: __metadata__ must map names to texts")
    need = 8 + size + max((end for _, end in spans.values()), default=0)
    if len(data) < need:
        raise ImageError(f"{path}: cut off: {need} bytes expected, the file has {len(data)}")
    body = np.frombuffer(data, np.uint8, offset=8 + size)
    return {name: body[a:b].copy() for name, (a, b) in spans.items()}, meta


def _span(name: str, offsets: Any) -> tuple[int, int]:
    """(start, end) of a tensor in the file's body."""
    if isinstance(offsets, list) and len(offsets) == 2 and all(map(_is_whole, offsets)):
        start, end = offsets
        if 0 <= start <= end:
            return start, end
    raise ImageError(
        f"{name}: data_offsets {offsets!r}: must be two whole numbers, 0 <= start <= end"
    )
