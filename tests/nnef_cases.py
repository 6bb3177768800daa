"""NNEF models for tests: a call of each operation, and small networks; written as files."""

import io
import re
import tarfile
from pathlib import Path

import nnef
import numpy as np

NETWORK = """version 1.0;

graph net(x) -> (y)
{
    x = external<scalar>(shape = [1, 3, 8, 8]);
    w = variable<scalar>(shape = [8, 3, 3, 3], label = 'stem/weight');
    b = variable<scalar>(shape = [1, 8], label = 'stem/bias');
    c = conv(x, w, b, padding = [(1, 1), (1, 1)]);
    r = relu(c);
    dw = variable<scalar>(shape = [8, 1, 3, 3], label = 'deep/weight');
    d = conv(r, dw, 0.0, groups = 0);
    s = add(r, d);
    p = max_pool(s, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [], border = 'ignore');
    a = avg_pool(p, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [], border = 'ignore');
    f = reshape(a, shape = [0, -1]);
    lw = variable<scalar>(shape = [10, 32], label = 'head/weight');
    lb = variable<scalar>(shape = [1, 10], label = 'head/bias');
    l = linear(f, lw, lb);
    mw = variable<scalar>(shape = [10, 10], label = 'mix/weight');
    m = matmul(l, mw);
    y = softmax(m, axes = [1]);
}
"""
"""Convolution, depthwise convolution, sum, pools, a linear layer, a product, a softmax."""

WEIGHTS = {
    "stem/weight": (8, 3, 3, 3), "stem/bias": (1, 8), "deep/weight": (8, 1, 3, 3),
    "head/weight": (10, 32), "head/bias": (1, 10), "mix/weight": (10, 10),
}  # fmt: skip

_UNARY = (
    "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "copy", "cos", "cosh", "elu", "exp",
    "floor", "gelu", "log", "log2", "neg", "rcp", "relu", "round", "rsqr", "rsqrt", "selu",
    "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "sqr", "sqrt", "tan", "tanh",
)  # fmt: skip
_BINARY = ("add", "sub", "mul", "div", "min", "max", "pow")
IMAGE, ROWS, GRID = (1, 4, 6, 6), (3, 4), (2, 3, 4)

CALLS = [
    *(
        (kind, f"{kind}(x)", GRID, (0.1, 0.9))
        for kind in _UNARY
    ),
    *((kind, f"{kind}(x)", GRID, (-2, 2)) for kind in ("relu", "elu", "selu", "round", "sign")),
    ("acosh", "acosh(x)", GRID, (1.5, 3)),
    ("softabs", "softabs(x, epsilon = 0.1)", GRID, (-1, 1)),
    ("leaky_relu", "leaky_relu(x, alpha = 0.1)", GRID, (-1, 1)),
    ("prelu", "prelu(x, v)", IMAGE, (-1, 1)),
    ("clamp", "clamp(x, -0.5, 0.25)", GRID, (-1, 1)),
    ("clamp", "clamp(x, -0.5, v)", IMAGE, (-1, 1)),
    *((kind, f"{kind}(x, v)", IMAGE, (0.1, 1)) for kind in _BINARY),
    ("add", "add(x, 2.0)", GRID, (-1, 1)),
    *(
        (kind, f"select({kind}(x, 0.25), x, 0.0)", GRID, (-1, 1))
        for kind in ["lt", "gt", "le", "ge", "eq", "ne"]
    ),
    ("and", "select(and(lt(x, 0.5), gt(x, -0.5)), x, 0.0)", GRID, (-1, 1)),
    ("or", "select(or(gt(x, 0.5), lt(x, -0.5)), x, 0.0)", GRID, (-1, 1)),
    ("not", "select(not(lt(x, 0.0)), x, 0.0)", GRID, (-1, 1)),
    ("select", "select(lt(x, v), x, v)", IMAGE, (-1, 1)),
    ("conv", "conv(x, w)", IMAGE, (-1, 1)),
    ("conv", "conv(x, w, b, padding = [(0, 1), (2, 1)], stride = [2, 1])", IMAGE, (-1, 1)),
    ("conv", "conv(x, w, 0.5, stride = [2, 2], dilation = [2, 1])", IMAGE, (-1, 1)),
    ("conv", "conv(x, g, groups = 2)", IMAGE, (-1, 1)),
    ("conv", "conv(x, p, groups = 0)", IMAGE, (-1, 1)),
    ("deconv", "deconv(x, t, stride = [2, 2])", IMAGE, (-1, 1)),
    ("deconv", "deconv(x, t, stride = [2, 2], padding = [(1, 1), (1, 1)])", IMAGE, (-1, 1)),
    ("deconv", "deconv(x, t, stride = [2, 2], padding = [(1, 0), (1, 0)], "
               "output_shape = [1, 5, 12, 12])", IMAGE, (-1, 1)),
    ("separable_conv", "separable_conv(x, p, q)", IMAGE, (-1, 1)),
    *(
        (f"{kind}_pool", f"{kind}_pool(x, size = [1, 1, 3, 3], {how})", IMAGE, (-1, 1))
        for kind in ("max", "avg", "rms")
        for how in (
            "stride = [1, 1, 2, 2]",
            "stride = [1, 1, 2, 2], border = 'ignore'",
            "padding = [(0, 0), (0, 0), (1, 1), (1, 1)], border = 'constant'",
        )
        if kind != "rms" or "ignore" not in how
    ),
    ("box", "box(x, size = [1, 1, 3, 3])", IMAGE, (-1, 1)),
    ("box", "box(x, size = [1, 1, 2, 2], normalize = true, border = 'ignore')", IMAGE, (-1, 1)),
    ("nearest_upsample", "nearest_upsample(x, factor = [2, 3])", IMAGE, (-1, 1)),
    ("nearest_downsample", "nearest_downsample(x, factor = [2, 3])", IMAGE, (-1, 1)),
    ("area_downsample", "area_downsample(x, factor = [2, 3])", IMAGE, (-1, 1)),
    *(
        ("multilinear_upsample", f"multilinear_upsample(x, factor = [2, 2], method = '{method}')",
         IMAGE, (-1, 1))
        for method in ("symmetric", "asymmetric", "aligned")
    ),
    *((f"{kind}_reduce", f"{kind}_reduce(x, axes = [1])", GRID, (-1, 1))
      for kind in ("sum", "mean", "max", "min")),
    ("sum_reduce", "sum_reduce(x, axes = [0, 2], normalize = true)", GRID, (-1, 1)),
    *((f"{kind}_reduce", f"{kind}_reduce(x, axes = [1])", GRID, (-1, 1))
      for kind in ("argmax", "argmin")),
    ("softmax", "softmax(x, axes = [1])", ROWS, (-1, 1)),
    ("matmul", "matmul(x, m, transposeB = true)", ROWS, (-1, 1)),
    ("matmul", "matmul(x, x, transposeA = true)", ROWS, (-1, 1)),
    ("linear", "linear(x, m, n)", ROWS, (-1, 1)),
    ("linear", "linear(x, m)", ROWS, (-1, 1)),
    ("batch_normalization", "batch_normalization(x, v, v, v, v, epsilon = 0.1)", IMAGE, (-1, 1)),
    ("local_response_normalization", "local_response_normalization(x, size = [1, 3, 1, 1])", IMAGE,
     (-1, 1)),
    ("l1_normalization", "l1_normalization(x, axes = [1], bias = 0.1)", GRID, (-1, 1)),
    ("l2_normalization", "l2_normalization(x, axes = [1], epsilon = 0.01)", GRID, (-1, 1)),
    ("local_mean_normalization", "local_mean_normalization(x, size = [1, 1, 3, 3])", IMAGE,
     (-1, 1)),
    ("reshape", "reshape(x, shape = [0, -1])", GRID, (-1, 1)),
    ("reshape", "reshape(x, shape = [12], axis_start = 1, axis_count = 2)", GRID, (-1, 1)),
    ("transpose", "transpose(x, axes = [1, 0])", GRID, (-1, 1)),
    ("squeeze", "squeeze(x, axes = [0])", IMAGE, (-1, 1)),
    ("unsqueeze", "unsqueeze(x, axes = [0, 2])", GRID, (-1, 1)),
    ("concat", "concat([x, x], axis = 1)", GRID, (-1, 1)),
    ("stack", "stack([x, x], axis = 1)", GRID, (-1, 1)),
    ("slice", "slice(x, axes = [1, 2], begin = [1, -3], end = [0, -1])", GRID, (-1, 1)),
    ("slice", "slice(x, axes = [2], begin = [0], end = [4], stride = [2])", GRID, (-1, 1)),
    ("pad", "pad(x, padding = [(0, 0), (1, 2), (0, 1)], value = 0.5)", GRID, (-1, 1)),
    ("tile", "tile(x, repeats = [2, 1, 3])", GRID, (-1, 1)),
    ("add_n", "add_n([x, x, x])", GRID, (-1, 1)),
    ("gather", "gather(x, i, axis = 1)", GRID, (-1, 1)),
    ("split", "[z, y] = split(x, axis = 2, ratios = [1, 3])", GRID, (-1, 1)),
    ("unstack", "[z, y] = unstack(x, axis = 0)", GRID, (-1, 1)),
    ("copy_n", "[z, y] = copy_n(x, times = 2)", GRID, (-1, 1)),
    ("moments", "(z, y) = moments(x, axes = [1, 2])", GRID, (-1, 1)),
    ("separable_deconv", "separable_deconv(x, u, q)", (1, 5, 6, 6), (-1, 1)),
    ("local_variance_normalization",
     "local_variance_normalization(x, size = [1, 1, 3, 3], bias = 0.1)", IMAGE, (-1, 1)),
    ("local_contrast_normalization",
     "local_contrast_normalization(x, size = [1, 1, 3, 3], epsilon = 0.1)", IMAGE, (-1, 1)),
]  # fmt: skip
"""(operation, a call of it, the shape of x, its range)"""

BY_DEFINITION = [
    "add_n", "area_downsample", "batch_normalization", "clamp", "l1_normalization",
    "l2_normalization", "local_contrast_normalization", "local_mean_normalization",
    "local_response_normalization", "local_variance_normalization", "moments",
    "nearest_downsample", "nearest_upsample", "prelu", "rms_pool", "separable_conv",
    "separable_deconv", "softabs", "copy_n",
]  # fmt: skip
"""Operations that Khronos' interpreter computes by the language's definitions of them."""

NOT_INTERPRETED = {"multilinear_upsample(x, factor = [2, 2], method = 'aligned')"}

_CONSTANTS = {
    "v": (1, 4), "w": (5, 4, 3, 3), "b": (1, 5), "g": (6, 2, 3, 3), "p": (4, 1, 3, 3),
    "t": (4, 5, 3, 3), "q": (5, 4, 1, 1), "u": (4, 1, 3, 3), "m": (2, 4), "n": (1, 2),
}  # fmt: skip


def values(shape, low=-1.0, high=1.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def library(calls) -> str:
    """A graph with an input x0, x1, … and a result y0, y1, … for each call."""
    lines = ["i = constant<integer>(shape = [2], value = [2, 0]);"]
    for i, (name, size) in enumerate(_CONSTANTS.items()):
        data = [round(float(v), 3) for v in values(size, 0.2, 1.0, i).ravel()]
        lines.append(f"{name} = constant<scalar>(shape = {list(size)}, value = {data});")
    for i, (_, call, shape, _) in enumerate(calls):
        lines.append(f"x{i} = external<scalar>(shape = {list(shape)});")
        whole = call if "] = " in call[:10] or ") = " in call[:10] else f"y = {call}"
        lines.append(re.sub(r"\b([xyz])\b", rf"\g<1>{i}", whole) + ";")
    body = "\n    ".join(lines)
    names = [", ".join(f"{side}{i}" for i in range(len(calls))) for side in "xy"]
    return f"version 1.0;\n\ngraph library({names[0]}) -> ({names[1]})\n{{\n    {body}\n}}\n"


def write(folder: Path, text: str = NETWORK, weights=WEIGHTS) -> Path:
    """A model as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.nnef").write_text(text)
    for i, (label, shape) in enumerate(weights.items()):
        path = folder / f"{label}.dat"
        path.parent.mkdir(exist_ok=True)
        scale = float(np.prod(shape[1:])) ** -0.5
        with path.open("wb") as file:
            nnef.write_tensor(file, values(shape, seed=i) * np.float32(scale * 1.7))
    return folder


def pack(folder: Path, archive: Path) -> Path:
    """The folder as an archive."""
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                info = tarfile.TarInfo(str(path.relative_to(folder)))
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
    return archive


def interpreted(folder: Path, *inputs, lowered=()):
    """What Khronos' interpreter computes."""
    with nnef.Session(str(folder), lowered=list(lowered)) as session:
        return [np.array(each) for each in session(*inputs)]
