"""ONNX and LiteRT files with mistakes at random: each becomes a model or an error of its door.

    PYTHONPATH=.:tests python -m random_files onnx --count 2000
    PYTHONPATH=.:tests python -m random_files litert --count 2000 --seed 1

Nothing outside of the model's folder may be opened: the audit hook sees every file.
"""

import argparse
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from litert_networks import cnn
from onnx import TensorProto, helper
from onnx_models import array, model, value

from spec.errors import SystolaError
from sw.frontends.litert import load_litert
from sw.frontends.onnx import load_onnx

OPERATORS = (
    *("Conv", "Relu", "Add", "Reshape", "Transpose", "Concat", "Resize", "Softmax", "Expand"),
    *("MaxPool", "Gather", "Slice", "If", "Loop", "LSTM", "Pad", "Tile", "NoSuch"),
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


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut off, or with bytes that are changed, left out or repeated."""
    out = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(out[: rng.randrange(len(out))])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, size = rng.randrange(len(out)), rng.choice((1, 2, 4, 16))
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
    base, net = cnn(), network()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "model")
        folder.mkdir()
        secret = Path(name, "secret.bin")
        secret.write_bytes(bytes(1 << 12))
        (folder / "w.bin").write_bytes(bytes(1 << 12))
        (folder / "link.bin").symlink_to(secret)
        opened = watched({str(secret), str(folder / "link.bin"), "/etc/hostname"})
        path = folder / f"net.{door}"
        for number in range(count):
            rng = random.Random(f"{door} {seed} {number}")
            path.write_bytes(_file(door, base, net, rng))
            before = len(opened)
            try:
                load_onnx(path) if door == "onnx" else load_litert(path)
                outcomes["loaded"] += 1
            except SystolaError:
                outcomes["refused"] += 1
            except Exception:
                wrong.append(f"{door} {seed} {number}: {traceback.format_exc()}")
            wrong += [f"{door} {seed} {number}: opened {file}" for file in opened[before:]]
    return outcomes, wrong


def _file(door: str, base: bytes, net, rng: random.Random) -> bytes:
    if door == "litert":
        return damaged_bytes(base, rng)
    if rng.random() < 0.3:
        return damaged_bytes(net.SerializeToString(), rng)
    proto = onnx.ModelProto()
    proto.CopyFrom(net)
    return damaged_model(proto, rng).SerializeToString()


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
    parser.add_argument("door", choices=("onnx", "litert"))
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
