"""Malformed inputs of the command line, made from good files by seeded changes."""

import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from cli_helpers import copy_image
from frontend_helpers import run_case
from torch import nn

from sw.compiler.frontend.quantized import QuantizedModel
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.models.kernels import kernel

SEED = 20
Kind = Callable[[Path, random.Random], "Iterator[Case]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command line, in which `{file}` is a file of these bytes and `{folder}` one for others.

    legal: the change may have left a good file behind.
    """

    name: str
    arguments: tuple[str, ...]
    suffix: str = ""
    data: bytes = b""
    legal: bool = False


def cut_off(data: bytes, count: int) -> Iterator[bytes]:
    """`data` cut off at `count` places, from 0 bytes to all but one."""
    places = np.unique(np.linspace(0, len(data) - 1, count).astype(int))
    yield from (data[:at] for at in places)


def damaged(data: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """`data` with bits, bytes and words changed at random."""
    for _ in range(count):
        out = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(out))
            word = struct.pack("<I", rng.choice((0, 1, 1 << 20, 1 << 31, (1 << 32) - 1)))
            out[at : at + 4] = rng.choice((word, bytes([out[at] ^ 1 << rng.randrange(8)]), b""))
        yield bytes(out)


def arrays(folder: Path, rng: random.Random) -> Iterator[Case]:
    image = folder / "copy.systola"
    copy_image().save(image)
    np.save(folder / "x.npy", np.arange(64, dtype=np.int8))
    good = (folder / "x.npy").read_bytes()
    command = ("exec", str(image), "--device", "golden", "--input", "x={file}")
    edits = {
        "|i1": ("|O", "<U4", "<f4", "<c16", "|V8", "<i3", ">M8"),
        "(64,)": ("(65,)", "(63,)", "(-1,)", "(6e9,)", "64", "(8, 8)", "()", "[64]", "(2**9,)"),
        "False": ("0", "None", "[[["),
        "descr": ("shape", "x"),
    }
    texts = [good.replace(a.encode(), b.encode()) for a, row in edits.items() for b in row]
    wide = [good.replace(b"(64,), ", f"({10**n},), ".encode()) for n in (6, 12, 18, 30)]
    for i, data in enumerate([*cut_off(good, 40), *texts, *wide, b"PK\3\4", b"\x93NUMPY\3\0" * 9]):
        yield Case(name=f"npy {i}", arguments=command, suffix=".npy", data=data)
    for i, data in enumerate(damaged(good[:80], 20, rng)):
        yield Case(name=f"npy header {i}", arguments=command, suffix=".npy", data=data)


BAD_TEXTS = ("", "null", "7", "[", "[" * 50_000, '{"a": 1}', '"\\ud800"', "[1e999]", "[null]")


def with_metadata(data: bytes, key: str, text: str | None) -> bytes:
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"].pop(key)
    if text is not None:
        header["__metadata__"][key] = text
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data[8 + size :]


def images(folder: Path, rng: random.Random) -> Iterator[Case]:
    copy_image().save(folder / "copy.systola")
    good = (folder / "copy.systola").read_bytes()
    (size,) = struct.unpack_from("<Q", good)
    keys = set(json.loads(good[8 : 8 + size])["__metadata__"])
    whole = [with_metadata(good, key, None) for key in sorted(keys)]
    for key in sorted(keys - {"info"}):
        bad = [text for text in BAD_TEXTS if (key, text) != ("temp_bytes", "7")]
        whole += [with_metadata(good, key, text) for text in bad]
    for i, data in enumerate([*cut_off(good, 40), *whole]):
        yield Case(name=f"image {i}", arguments=("disasm", "{file}"), suffix=".bin", data=data)
    command = ("exec", "{file}", "--device", "golden")
    for i, data in enumerate(damaged(good, 60, rng)):
        yield Case(
            name=f"damaged image {i}", arguments=command, suffix=".bin", data=data, legal=True
        )


def graphs(_folder: Path, rng: random.Random) -> Iterator[Case]:
    good = to_flatbuffer(kernel("matmul", {"m": 4, "k": 8, "n": 4}).graph)
    command = ("compile", "{file}", "-c", "tiny", "-o", "{folder}/out.systola")
    for i, data in enumerate(cut_off(good[:-16], 30)):
        yield Case(name=f"tosa {i}", arguments=command, suffix=".tosa", data=data)
    for i, data in enumerate(damaged(good, 60, rng)):
        yield Case(
            name=f"damaged tosa {i}", arguments=command, suffix=".tosa", data=data, legal=True
        )


def models(folder: Path, rng: random.Random) -> Iterator[Case]:
    path = folder / "model.safetensors"
    QuantizedModel(imported=run_case("flatten_linear").imported).save(path)
    good = path.read_bytes()
    command = ("compile", "{file}", "-c", "tiny", "-o", "{folder}/out.systola")
    whole = [with_metadata(good, key, None) for key in ("graph", "inputs", "outputs", "info")]
    for key in ("format", "version", "graph", "inputs", "outputs", "info"):
        whole += [with_metadata(good, key, t) for t in BAD_TEXTS if t != '{"a": 1}']
    for i, data in enumerate([*cut_off(good, 20), *whole]):
        yield Case(name=f"model {i}", arguments=command, suffix=".safetensors", data=data)
    program = folder / "program.pt2"
    example = (torch.zeros(1, 4),)
    torch.export.save(torch.export.export(nn.Linear(4, 2).eval(), example), program)
    for i, data in enumerate(cut_off(program.read_bytes(), 12)):
        yield Case(name=f"pt2 {i}", arguments=command, suffix=".pt2", data=data)


SUITE = """description: all kinds of keys
limit_s: 7
entries:
  - {workloads: [add, 'matmul:8x8x8'], configs: [tiny, tiny+rows=8], seeds: [0, 3]}
"""
SPACE = "base: tiny\naxes: {rows: [4], cols: [4, 12]}\nworkloads: [add]\nmemory: {latency: 20}\n"
YAMLS = (
    *("", "7", "- 1", "entries: [", "entries: " + "[" * 20_000, "{" * 20_000, "a: &a [*a]"),
    *("limit_s: 2024-13-45", "limit_s: !!int 'abc'", "limit_s: " + "9" * 5000, "limit_s: .nan"),
    *("entries: !!python/object:os.system {}", "entries: 1\x00", "1: 2", "a: 1\na: 2", "\ud800"),
    *(SUITE.replace("[0, 3]", t) for t in ("1000000000", "-1", "[-1]", "[0.5]", "１２", "{}", "x")),
    *(SUITE.replace("rows=8", t) for t in ("rows=８", "rows=-1", "rosw=8", "rows=1e9", "rows=")),
    *(SUITE.replace("add,", t) for t in ("'add:h=８',", "[add],", "sub,", "'add:h=0',", "7,")),
    *(SUITE.replace("7", t, 1) for t in ("-7", "x", "[7]", "1e400", "true", "2020-01-01")),
)
SPACES = (
    *(SPACE.replace("[4]", t) for t in ("4", "[]", "['4']", "[true]", "{}", "[4.5]", "x")),
    *(SPACE.replace("rows", t) for t in ("rosw", "name", "[1]")),
    *(SPACE.replace("20", t) for t in ("0", "-1", "x", "[20]", "9" * 30)),
    *(SPACE.replace("base: tiny", t) for t in ("base: vast", "base: 7", "seed: -1", "x: 1")),
)


def texts(_folder: Path, _rng: random.Random) -> Iterator[Case]:
    for i, text in enumerate(YAMLS):
        command = ("regress", "{file}", "--db", "{folder}/db.sqlite")
        data = text.encode("utf-8", "surrogatepass")
        yield Case(name=f"suite {i}", arguments=command, suffix=".yaml", data=data)
    for i, text in enumerate(SPACES):
        command = ("sweep", "{file}", "--db", "{folder}/db.sqlite", "--out", "{folder}/sweep")
        yield Case(name=f"space {i}", arguments=command, suffix=".yaml", data=text.encode())
    rows = ("", "{", "7", "[7]", "[{}]", "[" * 50_000, "\udcff", '[{"name": 1}]', "null", "[[]]")
    marked = ('[{"name": "a", "config_digest": 7}]', '[{"name": [], "config_digest": {}}]')
    for i, text in enumerate((*rows, *marked)):
        command = ("pages", "benchmarks", "--data", "{file}", "-o", "-")
        data = text.encode("utf-8", "surrogateescape")
        yield Case(name=f"rows {i}", arguments=command, suffix=".json", data=data)


SETTINGS = (
    *("", "=", "rows", "rows=", "=8", "rows=x", "rows=８", "rows=1e9", "rows=-8", "rows=8.0"),
    *("rows=" + "9" * 5000, "rows=1_6", "rows= 8", "name=x", "rosw=8", "rows=8=9", "rows=0x"),
    *("depthwise=2", "banks=3", "axi_addr_bits=999", "rows=\ud800", "a" * 10_000, "rows=8\n"),
)
SHAPES = (
    *("x", "8x8", "8x8x8x8", "0x8x8", "-1x8x8", "８x8x8", "8x8x1e9", "m=8,m", "m", "=", "m=", "=8"),
    *(
        "9" * 30 + "x8x8",
        "m=8,z=8",
        "65535x65535x65535",
        "8 x",
        "8xx8",
        "m=0x8,k=8",
        "k=９",
        "m=1_0",
    ),
    *("\ud800", "m=" + "9" * 5000, "8×8×8", "[8,8,8]", "m=8;k=8"),
)
NAMES = (
    *("", " ", "nothing", "none.py:make", "none.pt2", "none.tosa", "none.safetensors", "x" * 5000),
    *(
        "\ud800",
        "a\0b",
        "/",
        ".",
        "..",
        "digits:8",
        "DIGITS",
        "./",
        "none.py:",
        ".py:x",
        "~",
        "-1x",
    ),
)


def words(_folder: Path, _rng: random.Random) -> Iterator[Case]:
    for i, text in enumerate(SETTINGS):
        yield Case(name=f"setting {i}", arguments=("config", "show", "tiny", f"--set={text}"))
    for i, text in enumerate(SHAPES):
        shape = ("compile", "matmul", f"--shape={text}", "-c", "tiny", "-o", "{folder}/out")
        yield Case(name=f"shape {i}", arguments=shape)
    for i, text in enumerate(NAMES):
        for command in ("run", "compile"):
            yield Case(name=f"{command} {i}", arguments=(command, "-c", "tiny", "--", text))


KINDS: tuple[Kind, ...] = (arrays, images, graphs, models, texts, words)

"""What makes the cases of a kind of file, in a folder with the good ones."""
