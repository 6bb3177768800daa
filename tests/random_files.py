"""Files of other frameworks with mistakes at random: each becomes a model or an error of its door.

    PYTHONPATH=.:tests python -m random_files onnx --count 2000
    PYTHONPATH=.:tests python -m random_files microsoft --count 2000
    PYTHONPATH=.:tests python -m random_files litert --count 2000 --seed 1
    PYTHONPATH=.:tests python -m random_files nnef --count 2000
    PYTHONPATH=.:tests python -m random_files pt2 --count 2000
    PYTHONPATH=.:tests python -m random_files stablehlo --count 2000
    PYTHONPATH=.:tests python -m random_files tosa --count 2000

Nothing outside of the model's folder may be opened: the audit hook sees every file.
"""

import argparse
import io
import random
import re
import shutil
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import nnef_cases
import numpy as np
import onnx
import torch
from litert_networks import cnn
from onnx import TensorProto, helper
from onnx_models import array, model, value
from random_tosa import CASES, random_graph

from spec.errors import SystolaError
from sw.compiler.tosa.file import load_tosa
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.frontends.litert import load_litert
from sw.frontends.nnef import load_nnef
from sw.frontends.onnx import load_onnx
from sw.frontends.stablehlo import load_stablehlo
from sw.models.user import load_pt2

OPERATORS = (
    *("Conv", "Relu", "Add", "Reshape", "Transpose", "Concat", "Resize", "Softmax", "Expand"),
    *("MaxPool", "Gather", "Slice", "If", "Loop", "LSTM", "Pad", "Tile", "NoSuch"),
    *("FusedConv", "QLinearAdd", "QLinearConcat", "QGemm", "Attention", "MatMulNBits", "BiasGelu"),
    *("DynamicQuantizeMatMul", "QAttention", "EmbedLayerNormalization", "MultiHeadAttention"),
)
PLACES = (
    *("../secret.bin", "/etc/hostname", "link.bin", "w.bin", "", "..", ".", "none.bin"),
    *("../model/w.bin", "\0", "w.bin/../../secret.bin"),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 255, 1 << 31, (1 << 62) + 1, -(1 << 63))


def network():
    """A small ONNX model with a few of each: attributes, constants, shapes, quantized values."""
    nodes = [
        ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("QuantizeLinear", ["c", "s", "z"], ["q"]),
        ("DequantizeLinear", ["q", "s", "z"], ["d"]),
        ("MaxPool", ["d"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Reshape", ["p", "shape"], ["r"]),
        ("Gemm", ["r", "g"], ["m"], {"alpha": 1.0, "transB": 1}),
        ("Softmax", ["m"], ["y"], {"axis": -1}),
    ]
    rng = np.random.default_rng(0)
    arrays = [
        array("w", rng.normal(size=(4, 3, 3, 3))), array("s", 0.1), array("z", 3, np.int8),
        array("shape", [1, -1], np.int64), array("g", rng.normal(size=(5, 64))),
    ]  # fmt: skip
    return model(nodes, [value("x")], [value("y", (1, 5))], arrays)


def own_operators():
    """A small model with ONNX Runtime's own operators; one product is quantized at run time."""
    own = {"domain": "com.microsoft"}
    nodes = [
        ("FusedConv", ["x", "w"], ["c"], {**own, "activation": "Relu", "pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", ["c", "s", "z"], ["q"]),
        ("QLinearAdd", ["q", "s", "z", "q", "s", "z", "t", "z"], ["a"], own),
        ("DequantizeLinear", ["a", "t", "z"], ["d"]),
        ("Reshape", ["d", "shape"], ["r"]),
        ("DynamicQuantizeLinear", ["r"], ["i", "is", "iz"]),
        ("MatMulInteger", ["i", "m", "iz", "mz"], ["p"]),
        ("Cast", ["p"], ["pf"], {"to": 1}),
        ("Mul", ["is", "ms"], ["both"]),
        ("Mul", ["pf", "both"], ["h"]),
        ("SkipLayerNormalization", ["h", "h", "g", "b"], ["n"], {**own, "epsilon": 1e-5}),
        ("Attention", ["n", "k", "kb"], ["o"], {**own, "num_heads": 2}),
        ("MatMulNBits", ["o", "few", "fs"], ["y"],
         {**own, "K": 8, "N": 5, "bits": 4, "block_size": 16}),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = [
        array("w", rng.normal(size=(4, 3, 3, 3))), array("s", 0.1), array("t", 0.2),
        array("z", 3, np.int8), array("shape", [1, 8, -1], np.int64),
        array("m", rng.integers(-99, 99, (32, 8)), np.int8), array("mz", 0, np.int8),
        array("ms", 0.01), array("g", np.ones(8)), array("b", np.zeros(8)),
        array("k", rng.normal(size=(8, 24))), array("kb", np.zeros(24)),
        array("few", rng.integers(0, 255, (5, 1, 8)), np.uint8), array("fs", np.ones(5)),
    ]  # fmt: skip
    domains = {"com.microsoft": 1}
    return model(nodes, [value("x")], [value("y", (1, 8, 5))], arrays, domains=domains)


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut off, or with bytes that are changed, left out or repeated."""
    out = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(out[: rng.randrange(len(out))])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, size = rng.randrange(len(out) or 1), rng.choice((1, 2, 4, 16))
        if kind == 1:
            out[at : at + size] = rng.randbytes(len(out[at : at + size]))
        elif kind == 2:
            del out[at : at + size]
        else:
            out[at:at] = out[at : at + size]
    return bytes(out)


def damaged_model(proto, rng: random.Random):
    """One to three fields of the message that are wrong."""
    for _ in range(rng.randint(1, 3)):
        rng.choice(DAMAGES)(proto, proto.graph, rng)
    return proto


def _operator(proto, graph, rng):
    rng.choice(graph.node).op_type = rng.choice(OPERATORS)


def _operand(proto, graph, rng):
    node = rng.choice(graph.node)
    names = [n for each in graph.node for n in (*each.input, *each.output)] + ["", "none"]
    row = rng.choice((node.input, node.output))
    if row:
        row[rng.randrange(len(row))] = rng.choice(names)  # circles, and values that are made twice


def _attribute(proto, graph, rng):
    node = rng.choice(graph.node)
    if node.attribute and rng.random() < 0.5:
        each = rng.choice(node.attribute)
        if each.ints:
            each.ints[rng.randrange(len(each.ints))] = rng.choice(NUMBERS)
        each.i = rng.choice(NUMBERS)
        each.type = rng.randrange(12)
    else:
        name = rng.choice(("axis", "group", "strides", "pads", "to", "then_branch", "value"))
        node.attribute.append(helper.make_attribute(name, rng.choice((1, -1, 2.5, "x", [1, 2]))))


def _initializer(proto, graph, rng):
    tensor = rng.choice(graph.initializer)
    kind = rng.randrange(3)
    if kind == 0:
        tensor.data_type = rng.randrange(25)
    elif kind == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
    else:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]


def _external(proto, graph, rng):
    tensor = rng.choice(graph.initializer)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=rng.choice(PLACES))
    for key in ("offset", "length"):
        if rng.random() < 0.6:
            tensor.external_data.add(key=key, value=rng.choice(("0", "4", "-4", "x", "9" * 30)))


def _input(proto, graph, rng):
    info = rng.choice((*graph.input, *graph.output)).type.tensor_type
    info.elem_type = rng.choice((0, 1, 1, 6, 7, 8, 99))
    if info.shape.dim:
        rng.choice(info.shape.dim).dim_value = rng.choice(NUMBERS)


def _version(proto, graph, rng):
    proto.opset_import[0].version = rng.choice((0, 1, 7, 11, 13, 21, 99, -1))


def _nothing(proto, graph, rng):
    part = rng.choice((graph.node, graph.initializer, graph.input, graph.output))
    if part:
        del part[rng.randrange(len(part))]


DAMAGES = (_operator, _operand, _attribute, _initializer, _external, _input, _version, _nothing)


def run(door: str, count: int, seed: int = 0) -> tuple[Counter, list[str]]:
    """(how many loaded, and were refused; what went wrong otherwise) of `count` files."""
    outcomes, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "model")
        folder.mkdir()
        secret = Path(name, "secret.bin")
        secret.write_bytes(bytes(1 << 12))
        shutil.copy(secret, Path(name, "secret.dat"))
        (folder / "w.bin").write_bytes(bytes(1 << 12))
        (folder / "link.bin").symlink_to(secret)
        (folder / "link.dat").symlink_to(secret)
        hidden = {str(secret), str(Path(name, "secret.dat")), "/etc/hostname"}
        opened = watched(hidden | {str(folder / "link.bin")})
        load, write = DOORS[door](folder)
        for number in range(count):
            rng = random.Random(f"{door} {seed} {number}")
            path = write(rng)
            before = len(opened)
            try:
                load(path)
                outcomes["loaded"] += 1
            except SystolaError:
                outcomes["refused"] += 1
            except Exception:
                wrong.append(f"{door} {seed} {number}: {traceback.format_exc()}")
            wrong += [f"{door} {seed} {number}: opened {file}" for file in opened[before:]]
    return outcomes, wrong


def _onnx(folder: Path, make=network):
    net, path = make(), folder / "net.onnx"

    def write(rng: random.Random) -> Path:
        if rng.random() < 0.3:
            path.write_bytes(damaged_bytes(net.SerializeToString(), rng))
            return path
        proto = onnx.ModelProto()
        proto.CopyFrom(net)
        path.write_bytes(damaged_model(proto, rng).SerializeToString())
        return path

    return load_onnx, write


def _litert(folder: Path):
    base, path = cnn(), folder / "net.litert"

    def write(rng: random.Random) -> Path:
        path.write_bytes(damaged_bytes(base, rng))
        return path

    return load_litert, write


_NNEF_WORDS = (
    *("0", "-1", "9999999999", "1e400", "[]", "[[]]", "(1,1)", "'stem/weight'", "x", "y", "{", "}"),
    *("external", "variable", "conv", "softmax", "reshape", "<integer>", "true", "[c, r]", ";"),
    *("'../secret'", "'/etc/hostname'", "'link'", "'w.bin/../../secret'", "groups = 0", "=", "->"),
)


def _nnef(folder: Path):
    """A folder, of which the text or a file of values is damaged; or an archive that is."""
    whole = folder / "whole"
    archive = nnef_cases.pack(nnef_cases.write(whole), folder / "whole.tgz").read_bytes()
    path = folder / "net"
    shutil.copytree(whole, path)

    def write(rng: random.Random) -> Path:
        shutil.copytree(whole, path, dirs_exist_ok=True)
        kind = rng.randrange(10)
        if kind == 0:
            (folder / "net.tgz").write_bytes(damaged_bytes(archive, rng))
            return folder / "net.tgz"
        if kind < 3:
            file = rng.choice(sorted(path.rglob("*.dat")))
            data, whole_header = file.read_bytes(), rng.choice((0, 128))
            file.write_bytes(data[:whole_header] + damaged_bytes(data[whole_header:], rng))
        elif kind == 3:
            (path / "graph.nnef").write_bytes(damaged_bytes(nnef_cases.NETWORK.encode(), rng))
        else:
            (path / "graph.nnef").write_text(_damaged_text(nnef_cases.NETWORK, rng))
        return path

    return load_nnef, write


_NNEF_KINDS = ("relu", "conv", "max_pool", "avg_pool", "sqrt", "softmax", "tile", "copy", "add")
_NNEF_NUMBERS = ("0", "-1", "1", "2", "3", "7", "8", "10", "32", "1000000", "4294967295", "1e30")


def _damaged_text(text: str, rng: random.Random) -> str:
    """One to three words that are others, left out, or repeated; in half of all texts one number or
    name is another of its kind, which the parser may take.
    """
    words = re.findall(r"\s+|'[^']*'|[\w./-]+|.", text)
    places = [i for i, word in enumerate(words) if word.strip()]
    if rng.random() < 0.5:
        alike = rng.choice((_NNEF_NUMBERS, _NNEF_KINDS, ("x", "w", "c", "r", "p", "l", "m")))
        words[rng.choice([i for i in places if words[i] in alike])] = rng.choice(alike)
        return "".join(words)
    for _ in range(rng.randint(1, 3)):
        at = rng.choice([i for i, word in enumerate(words) if word.strip()])
        change = rng.randrange(4)
        if change == 0:
            words[at] = words[rng.choice([i for i, word in enumerate(words) if word.strip()])]
        elif change == 1:
            words[at] = rng.choice(_NNEF_WORDS)
        elif change == 2:
            del words[at]
        else:
            words.insert(at, words[at])
    return "".join(words)


def _pt2(folder: Path):
    """An archive that is damaged, or one of its files, whose checksum is right."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(net, (torch.ones(1, 3, 8, 8),)), buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path = folder / "net.pt2"

    def write(rng: random.Random) -> Path:
        if rng.random() < 0.2:
            path.write_bytes(damaged_bytes(buffer.getvalue(), rng))
            return path
        chosen = rng.choice(sorted(members))
        is_text = chosen.endswith(".json") and rng.random() < 0.8
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                if name != chosen:
                    archive.writestr(name, data)
                elif is_text:
                    archive.writestr(name, _damaged_words(data.decode(), rng))
                elif rng.random() < 0.8:
                    archive.writestr(name, damaged_bytes(data, rng))
        return path

    return load_pt2, write


def _damaged_words(text: str, rng: random.Random) -> str:
    """One to three numbers or names that are others of the text, or none that it has; in three
    of ten texts one of them is another wherever it stands.
    """
    words = re.findall(r'"[^"]*"|[%@\w.-]+|.', text, re.DOTALL)
    places = [i for i, word in enumerate(words) if len(word) > 1 or word.isdigit()]
    known = [words[i] for i in places]
    if rng.random() < 0.3:
        old, new = rng.choice(known), rng.choice((*known, "1", "2", "-3.5", "stablehlo.add"))
        return "".join(new if word == old else word for word in words)
    for _ in range(rng.randint(1, 3)):
        other = (*map(str, NUMBERS), "null", "true", '"none"', "[]", "{}")
        words[rng.choice(places)] = rng.choice(known if rng.random() < 0.6 else other)
    return "".join(words)


_HLO = """module {
  func.func @main(%x: tensor<1x8x8x3xf32>) -> tensor<1x5xf32> {
    %w = stablehlo.constant dense<2.5e-01> : tensor<3x3x3x4xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]], rhs_dilate = [1, 1]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x8x8x4xf32>
    %b = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<1x8x8x4xf32>
    %r = stablehlo.maximum %c, %b : tensor<1x8x8x4xf32>
    %p = "stablehlo.reduce_window"(%r, %low) <{window_dimensions = array<i64: 1, 2, 2, 1>,
      window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %d: tensor<f32>):
      %m = stablehlo.maximum %a, %d : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<1x8x8x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
    %f = stablehlo.reshape %p : (tensor<1x4x4x4xf32>) -> tensor<1x64xf32>
    %k = stablehlo.constant dense<1.25e-01> : tensor<64x5xf32>
    %y = stablehlo.dot_general %f, %k, contracting_dims = [1] x [0]
      : (tensor<1x64xf32>, tensor<64x5xf32>) -> tensor<1x5xf32>
    return %y : tensor<1x5xf32>
  }
}
"""


def _stablehlo(folder: Path):
    path = folder / "net.mlir"
    text = _HLO

    def write(rng: random.Random) -> Path:
        if rng.random() < 0.3:
            path.write_bytes(damaged_bytes(text.encode(), rng))
        else:
            path.write_text(_damaged_words(text, rng))
        return path

    return load_stablehlo, write


def _tosa(folder: Path):
    graphs = [random_graph(kind, np.random.default_rng(3), 4)[0] for kind in CASES]
    whole, path = [to_flatbuffer(graph) for graph in graphs], folder / "net.tosa"

    def write(rng: random.Random) -> Path:
        path.write_bytes(damaged_bytes(rng.choice(whole), rng))
        return path

    return load_tosa, write


DOORS = {
    "onnx": _onnx,
    "microsoft": partial(_onnx, make=own_operators),
    "litert": _litert,
    "nnef": _nnef,
    "pt2": _pt2,
    "stablehlo": _stablehlo,
    "tosa": _tosa,
}
"""For each door a function of the model's folder: what loads, and what writes a damaged file."""


def watched(files: set[str]) -> list[str]:
    """Those of `files` that are opened from now on, as they are."""
    found: list[str] = []
    real = {str(Path(file).resolve()) for file in files} | files

    def hook(event, args):
        if event == "open" and isinstance(args[0], str | bytes | Path):
            text = args[0].decode() if isinstance(args[0], bytes) else str(args[0])
            if "\0" not in text and str(Path(text).resolve()) in real:
                found.append(text)

    sys.addaudithook(hook)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("door", choices=sorted(DOORS))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    outcomes, wrong = run(args.door, args.count, args.seed)
    print("\n".join(wrong))
    print(f"{args.count} files, seed {args.seed}: {dict(outcomes)}, {len(wrong)} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
