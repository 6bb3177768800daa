"""The program image: one safetensors file with instructions, constants and descriptors.

Compatibility: `isa_version` major must be equal and minor not newer than this release's, the ISA
digest must be equal, and the configuration digest must be the device's. Anything else is refused
with both values in the message. Readers ignore metadata keys that they do not know.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.image_file import ImageError as ImageError
from spec.image_file import cut, file_bytes, is_whole, parse_file, read_file, shown, write_file
from spec.isa import (
    GRANULE_BYTES,
    ISA_DIGEST,
    ISA_VERSION,
    Instruction,
    IsaError,
)
from spec.memmap import LIMIT_BITS, REGION_ALIGN
from spec.notebook import summary
from spec.repeat import executed_program, listing

FORMAT = "systola-image"
REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP = 0, 1, 2, 3
ALIGN = REGION_ALIGN
"""Bytes to which regions and ports are aligned."""

MAX_REGION_BYTES = (1 << LIMIT_BITS) - 1
"""Largest region that a port or `temp_bytes` may span."""
PORT_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32")

_MAX_RANK = 32
_MAX_NAME = 200
_MAX_SCALE = 1.7e308


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
        if not _is_file_name(self.name):
            raise ImageError(
                f"port name {shown(self.name)}: must be printable and of at most {_MAX_NAME} bytes"
            )
        where = f"port {self.name}"
        if self.dtype not in PORT_DTYPES:
            raise ImageError(
                f"{where}: dtype {self.dtype!r}: must be one of {', '.join(PORT_DTYPES)}"
            )
        sizes = self.shape
        if not isinstance(sizes, tuple) or not all(is_whole(n) and n > 0 for n in sizes):
            raise ImageError(
                f"{where}: shape {shown(sizes)}: must be a tuple of whole numbers above 0"
            )
        if len(sizes) > _MAX_RANK:
            raise ImageError(f"{where}: {len(sizes)} dimensions: at most {_MAX_RANK}")
        if not is_whole(self.offset) or self.offset < 0:
            raise ImageError(f"{where}: offset {shown(self.offset)}: must be a whole number from 0")
        if self.offset + self.nbytes > MAX_REGION_BYTES:
            raise ImageError(
                f"{where}: {shown(self.nbytes)} bytes at offset {self.offset}: must end within "
                f"{MAX_REGION_BYTES} bytes"
            )
        if isinstance(self.scale, bool) or not isinstance(self.scale, int | float):
            raise ImageError(f"{where}: scale {shown(self.scale)}: must be a number")
        if not 0 <= self.scale <= _MAX_SCALE:
            raise ImageError(f"{where}: scale {shown(self.scale)}: must be finite and not negative")
        if not is_whole(self.zero_point):
            raise ImageError(
                f"{where}: zero_point {shown(self.zero_point)}: must be a whole number"
            )

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
        if not is_whole(self.temp_bytes) or not 0 <= self.temp_bytes <= MAX_REGION_BYTES:
            raise ImageError(
                f"temp_bytes {shown(self.temp_bytes)}: must be a whole number in "
                f"0…{MAX_REGION_BYTES}"
            )
        if not isinstance(self.info, Mapping):
            raise ImageError(f"info {self.info!r}: must be a mapping of names to values")
        macs = self.info.get("macs", 0)
        if not is_whole(macs) or macs < 0:
            raise ImageError(f"info: macs {shown(macs)}: must be a whole number from 0")

    def instructions(self) -> list[Instruction]:
        """The program's instructions in the order of execution, without REPEAT.

        `ImageError` where it is not a legal one.
        """
        try:
            return executed_program(self.program.tobytes())
        except IsaError as error:
            raise ImageError(f"program: {error}") from None

    def listing(self) -> list[tuple[int, Instruction]]:
        """(index of its first execution, instruction) of the program as it is stored, REPEAT too.

        `ImageError` where it is not a legal one.
        """
        try:
            return list(listing(self.program.tobytes()))
        except IsaError as error:
            raise ImageError(f"program: {error}") from None

    def region_bytes(self, region: int) -> int:
        ports = {REGION_INPUT: self.inputs, REGION_OUTPUT: self.outputs}.get(region, ())
        size = max((p.offset + p.nbytes for p in ports), default=0)
        return {REGION_CONST: self.constants.size, REGION_TEMP: self.temp_bytes}.get(region, size)

    @property
    def memory_bytes(self) -> int:
        """Bytes of all regions."""
        regions = (REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP)
        return sum(self.region_bytes(region) for region in regions)

    def _repr_html_(self) -> str:
        """What a notebook shows: figures of the program and its layers."""
        info = self.info
        layers = info.get("layers", ())
        facts = [
            ("configuration", f"{self.config.name}, {self.config.rows}×{self.config.cols}"),
            ("inputs", ", ".join(map(_described, self.inputs))),
            ("outputs", ", ".join(map(_described, self.outputs))),
            ("MACs", info.get("macs")),
            ("predicted cycles", info.get("predicted_cycles")),
            ("layer bound, cycles", info.get("layer_bound")),
            ("program, bytes", self.program.size),
            ("constants, bytes", self.constants.size),
        ]
        keys = ("name", "macs", "predicted_cycles", "layer_bound", "module")
        head = ("layer", "MACs", "predicted cycles", "bound", "module")
        rows = [[layer.get(key) for key in keys] for layer in layers]
        title = f"Program {info.get('name', '')}".strip()
        return summary(title, [(a, b) for a, b in facts if b is not None], head, rows)

    def check_device(self, config: NpuConfig) -> None:
        """Refuse to run on another configuration; the message has both digests."""
        if config.digest() != self.config.digest():
            raise ImageError(
                f"image is for configuration {self.config.name} ({self.config.digest_hex}), the "
                f"device is {config.name} ({config.digest_hex}); compile it again with "
                f"{config.options}"
            )

    def to_bytes(self) -> bytes:
        """The content of an image file."""
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
        return file_bytes({"program": self.program, "constants": self.constants}, meta)

    def save(self, path: str | Path) -> None:
        write_file(Path(path), self.to_bytes())


def _described(port: Port) -> str:
    return f"{port.name} {port.dtype}[{'×'.join(map(str, port.shape))}]"


def _is_file_name(text: str) -> bool:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return size <= _MAX_NAME and text.isprintable()


def load_image(path: str | Path) -> Image:
    """Read an image; `ImageError` if it is cut off, malformed or of another ISA."""
    path = Path(path)
    return parse_image(read_file(path), path)


def parse_image(data: bytes, path: str | Path) -> Image:
    """`load_image` of a file's content. path: where it comes from, for messages."""
    tensors, meta = parse_file(data, path)
    if meta.get("format") != FORMAT:
        raise ImageError(
            f"{path}: format {shown(meta.get('format'))} is not {FORMAT!r}: no program image"
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
            temp_bytes=_whole(meta["temp_bytes"]),
            info=json.loads(meta["info"]),
        )
    except SystolaError as error:
        raise ImageError(f"{path}: malformed image: {cut(error)}") from None
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ImageError(f"{path}: malformed image: {cut(error)}") from None
    if config.digest_hex != meta.get("config_digest"):
        raise ImageError(
            f"{path}: configuration digest {meta.get('config_digest')} does not match the stored "
            f"configuration ({config.digest_hex}); compile the program again"
        )
    return image


def _check_isa(path: str | Path, meta: Mapping[str, str]) -> None:
    ours = ".".join(map(str, ISA_VERSION))
    theirs = meta.get("isa_version", "?")
    digest = meta.get("isa_digest")
    form = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", theirs)
    if form is None:
        raise ImageError(f"{path}: isa_version {shown(theirs)} is not of the form major.minor")
    major, minor = map(int, form.groups())
    if major != ISA_VERSION[0] or minor > ISA_VERSION[1] or digest != f"{ISA_DIGEST:016x}":
        raise ImageError(
            f"{path}: made for ISA {theirs} (digest {digest}), this release has {ours} "
            f"(digest {ISA_DIGEST:016x}); compile the program again"
        )


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,20}", text):
        raise ImageError(f"temp_bytes {shown(text)}: must be a whole number")
    return int(text)


def _ports(text: str) -> tuple[Port, ...]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise ImageError(f"ports {text[:60]!r}: must be a list")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
            raise ImageError(f"port {shown(entry)}: must be an object with a shape of numbers")
    return tuple(Port(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)
