"""Whole hand-written programs, with all checks on, against straightforward NumPy."""

import dataclasses

import numpy as np
import pytest
from golden_programs import image, serial

from examples.handwritten_matmul import K, M, N, matmul
from golden_model import Machine
from spec import NpuConfig, Opcode, preset
from spec.isa import Alu, DType, Reduce, Scale, Space
from spec.numerics import reciprocal_scale, rescale

LOAD, STORE, MATRIX, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.VECTOR
TINY, DEFAULT, ODD, RECT = (preset(n) for n in ("tiny", "default", "odd", "rect"))
I8 = {"o_min": -128, "o_max": 127}


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def ints(seed: int, *shape: int, low: int = -128, high: int = 127) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high + 1, shape)


@pytest.mark.parametrize("name", ["tiny", "small", "default", "large", "rect", "odd"])
def test_the_handwritten_matmul_is_right_on_every_preset(name: str) -> None:
    config = preset(name)
    a, b = ints(1, M, K).astype(np.int8), ints(2, K, N).astype(np.int8)
    got = Machine(config).run(matmul(config), {"a": a, "b": b})["c"]
    want = np.clip((a.astype(np.int64) @ b.astype(np.int64) + 64) >> 7, -128, 127)
    np.testing.assert_array_equal(got, want)


def test_running_again_gives_the_new_inputs_results() -> None:
    machine, program = Machine(TINY), matmul(TINY)
    for seed in range(3):
        a, b = ints(seed, M, K).astype(np.int8), ints(seed + 9, K, N).astype(np.int8)
        want = np.clip((a.astype(int) @ b.astype(int) + 64) >> 7, -128, 127)
        np.testing.assert_array_equal(machine.run(program, {"a": a, "b": b})["c"], want)


def blocks(total: int, size: int) -> tuple[int, int]:
    """Blocks and what is in the last one."""
    many = ceil(total, size)
    return many, total - (many - 1) * size


def parameters(config: NpuConfig, bias: np.ndarray, mult: np.ndarray, shift: np.ndarray) -> bytes:
    """Parameter entries of consecutive channel blocks."""
    out = b""
    for at in range(0, bias.size, config.cols):
        entry = b"".join(
            np.resize(np.append(part[at : at + config.cols], [2] * config.cols), config.cols)
            .astype(kind)
            .tobytes()
            for part, kind in ((bias, "<i4"), (mult, "<i4"), (shift, "i1"))
        )
        out += entry.ljust(config.param_entry_bytes, b"\0")
    return out


def conv_program(config: NpuConfig, h, w, ci, co, k, stride, pads, dilation, zps):
    """NHWC convolution: loops co-block, kh, kw, ci-block; then y and x stream."""
    top, left, oh, ow = pads
    rows, cols = config.rows, config.cols
    (cob, co_last), (cib, ci_last) = blocks(co, cols), blocks(ci, rows)
    weights = h * w * ci
    result = weights + k * k * ci * co
    nest = [
        {"count": cob, "wgt": cols, "acc": oh * ow},
        {"count": k, "wgt": k * ci * co, "act": dilation * w * ci, "dy": dilation},
        {"count": k, "wgt": ci * co, "act": dilation * ci, "dx": dilation},
        {"count": cib, "wgt": rows * co, "act": rows},
        {"count": oh, "act": stride * w * ci, "dy": stride, "acc": ow},
        {"count": ow, "act": stride * ci, "dx": stride, "acc": 1},
    ]
    multiply = {
        "act_base": (-top * w - left) * ci % (1 << 24),
        "wgt_base": weights,
        "wgt_row": co,
        "y0": -top,
        "x0": -left,
        "height": h,
        "width": w,
        "act_zp": zps[0],
        "wgt_zp": zps[1],
        "fold_loops": 4,
        "k_loops": 0b1110,
        "row_loop": 3,
        "rows": rows,
        "rows_last": ci_last,
        "col_loop": 0,
        "cols": cols,
        "cols_last": co_last,
        "loop": nest,
    }
    multiply |= {"rows": min(rows, ci), "cols": min(cols, co)}
    epilogue = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "bias": 1,
        "o_scale": Scale.CHANNEL,
        "o_zp": zps[2],
        **I8,
        "o_base": result,
        "lane_loop": 0,
        "lanes": min(cols, co),
        "lanes_last": co_last,
        "loop": [
            {"count": cob, "a": oh * ow, "o": cols, "param": 1},
            {"count": oh * ow, "a": 1, "o": co},
        ],
    }
    entry_bytes = cob * config.param_entry_bytes
    return serial(
        [
            (LOAD, {"region": 1, "run": weights}),
            (LOAD, {"region": 0, "chip_base": weights, "run": k * k * ci * co}),
            (
                LOAD,
                {
                    "region": 0,
                    "mem_base": ceil(k * k * ci * co, 64) * 64,
                    "space": Space.PARAM,
                    "run": entry_bytes,
                },
            ),
            (MATRIX, multiply),
            (VECTOR, epilogue),
            (STORE, {"region": 2, "chip_base": result, "run": oh * ow * co}),
        ]
    )


@pytest.mark.parametrize(
    ("config", "h", "w", "ci", "co", "k", "stride", "pads", "dilation"),
    [
        (TINY, 5, 6, 3, 5, 3, 1, (1, 1, 5, 6), 1),
        (TINY, 7, 5, 9, 4, 3, 2, (1, 0, 4, 2), 1),
        (DEFAULT, 8, 8, 17, 33, 3, 1, (1, 1, 8, 8), 1),
        (ODD, 6, 6, 13, 25, 1, 1, (0, 0, 6, 6), 1),
        (RECT, 9, 9, 10, 18, 3, 1, (2, 2, 9, 9), 2),
        (DEFAULT, 7, 7, 64, 32, 5, 2, (2, 2, 4, 4), 1),
    ],
)
def test_convolution_equals_a_direct_one(
    config: NpuConfig, h, w, ci, co, k, stride, pads, dilation
) -> None:
    top, left, oh, ow = pads
    zps = (-7, 3, 11)
    x, kernel = ints(1, h, w, ci).astype(np.int8), ints(2, k, k, ci, co).astype(np.int8)
    bias, shift = ints(3, co, low=-20000, high=20000), ints(5, co, low=38, high=40)
    mult = ints(4, co, low=1 << 30, high=(1 << 31) - 1)
    constants = kernel.tobytes().ljust(ceil(kernel.size, 64) * 64, b"\0")
    program = image(
        config,
        conv_program(config, h, w, ci, co, k, stride, pads, dilation, zps),
        inputs=[("x", x)],
        outputs=[("y", (oh, ow, co), "int8")],
        constants=np.frombuffer(constants + parameters(config, bias, mult, shift), np.uint8),
    )
    want = np.zeros((oh, ow, co), np.int64)
    for oy, ox, ky, kx in np.ndindex(oh, ow, k, k):
        y, x_ = oy * stride - top + ky * dilation, ox * stride - left + kx * dilation
        if 0 <= y < h and 0 <= x_ < w:
            window = x[y, x_].astype(np.int64) - zps[0]
            want[oy, ox] += window @ (kernel[ky, kx].astype(np.int64) - zps[1])
    want = rescale(want + bias, mult, shift, 0, zps[2], DType.I8)
    np.testing.assert_array_equal(Machine(config).run(program, {"x": x})["y"], want)


@pytest.mark.parametrize("kind", [Reduce.MAX, Reduce.SUM])
def test_pooling_skips_the_padding(kind: Reduce) -> None:
    h = w = 5
    channels, size, stride, out = 6, 3, 2, 3
    x = ints(6, h, w, channels).astype(np.int8)
    mult, shift = reciprocal_scale(9)
    pool = {
        "a_base": -(w + 1) * channels % (1 << 24),
        "y0": -1,
        "x0": -1,
        "height": h,
        "width": w,
        "reduce": kind,
        "reduce_loops": 0b11000,
        **(
            {"o_scale": Scale.TENSOR, "o_mult": mult, "o_shift": shift}
            if kind is Reduce.SUM
            else {}
        ),
        **I8,
        "o_base": 1024,
        "lane_loop": 0,
        "lanes": 4,
        "lanes_last": 2,
        "loop": [
            {"count": 2, "a": 4, "o": 4},
            {"count": out, "a": stride * w * channels, "dy": stride, "o": out * channels},
            {"count": out, "a": stride * channels, "dx": stride, "o": channels},
            {"count": size, "a": w * channels, "dy": 1},
            {"count": size, "a": channels, "dx": 1},
        ],
    }
    body = serial(
        [
            (LOAD, {"region": 1, "run": x.size}),
            (VECTOR, pool),
            (STORE, {"region": 2, "chip_base": 1024, "run": out * out * channels}),
        ]
    )
    program = image(TINY, body, [("x", x)], [("y", (out, out, channels), "int8")])
    padded = np.full((h + 2, w + 2, channels), -128 if kind is Reduce.MAX else 0, np.int64)
    padded[1:-1, 1:-1] = x
    want = np.zeros((out, out, channels), np.int64)
    for y, x_ in np.ndindex(out, out):
        window = padded[2 * y : 2 * y + size, 2 * x_ : 2 * x_ + size].reshape(-1, channels)
        want[y, x_] = window.max(0) if kind is Reduce.MAX else window.sum(0)
    if kind is Reduce.SUM:
        want = np.clip((want * mult + (1 << (shift - 1))) >> shift, -128, 127)
    np.testing.assert_array_equal(Machine(TINY).run(program, {"x": x})["y"], want)


def elementwise(count: int, **values: object) -> list:
    """Two int8 inputs of `count` elements, 64-byte aligned, to one result; 4 lanes at a time."""
    at = ceil(count, 64) * 64
    many, last = blocks(count, 4)
    fixed = {"b_base": at, "o_base": 2 * at, "lane_loop": 0, "lanes": 4, "lanes_last": last}
    size = DType(values.get("o_type", DType.I8)).bytes
    loop = [{"count": many, "a": 4, "b": 4, "o": 4 * size}]
    return serial(
        [
            (LOAD, {"region": 1, "run": at + count}),
            (LOAD, {"region": 0, "space": Space.TABLE, "run": 256}),
            (VECTOR, {**fixed, **I8, "loop": loop, **values}),
            (STORE, {"region": 2, "chip_base": 2 * at, "run": count * size}),
        ]
    )


TABLE = ints(11, 256).astype(np.int8)


def run_elementwise(a: np.ndarray, b: np.ndarray, out: str, **values: object) -> np.ndarray:
    program = image(
        TINY,
        elementwise(a.size, **values),
        [("a", a), ("b", b)],
        [("y", a.shape, out)],
        constants=TABLE.view(np.uint8),
    )
    return Machine(TINY).run(program, {"a": a, "b": b})["y"]


def test_a_residual_add_rescales_both_operands() -> None:
    a, b = ints(7, 71).astype(np.int8), ints(8, 71).astype(np.int8)
    scales = {"a": ((1 << 30) + 77, 20), "b": ((1 << 30) + 99999, 21), "o": ((1 << 30) + 5, 40)}
    values = {f"{n}_mult": m for n, (m, _) in scales.items()}
    values |= {f"{n}_shift": s for n, (_, s) in scales.items()}
    values |= {f"{n}_scale": Scale.TENSOR for n in scales}
    got = run_elementwise(a, b, "int8", alu=Alu.ADD, a_zp=3, b_zp=-5, o_zp=9, **values)
    total = rescale(a.astype(np.int64), *scales["a"], 3, 0, DType.I32)
    total = total + rescale(b.astype(np.int64), *scales["b"], -5, 0, DType.I32)
    np.testing.assert_array_equal(got, rescale(total, *scales["o"], 0, 9, DType.I8))


@pytest.mark.parametrize(
    ("alu", "function"),
    [(Alu.SUB, np.subtract), (Alu.MIN, np.minimum), (Alu.MAX, np.maximum), (Alu.ADD, np.add)],
)
def test_every_alu_function_saturates_at_the_clamp(alu: Alu, function: np.ufunc) -> None:
    a, b = ints(7, 33).astype(np.int8), ints(8, 33).astype(np.int8)
    want = np.clip(function(a.astype(int), b.astype(int)), -100, 90)
    got = run_elementwise(a, b, "int8", alu=alu, o_min=-100, o_max=90)
    np.testing.assert_array_equal(got, want)


def test_the_table_is_indexed_from_minus_128() -> None:
    a = np.arange(-128, 128).astype(np.int8)
    got = run_elementwise(a, a, "int8", table=1)
    np.testing.assert_array_equal(got, TABLE)


@pytest.mark.parametrize("out", ["uint8", "int16", "uint16", "int32"])
def test_results_have_the_width_of_their_type(out: str) -> None:
    kind = {"uint8": DType.U8, "int16": DType.I16, "uint16": DType.U16, "int32": DType.I32}[out]
    a = ints(9, 30).astype(np.int8)
    wide = {"o_min": -(1 << 31), "o_max": (1 << 31) - 1}
    values = {"a_scale": Scale.TENSOR, "a_mult": 1 << 20, "a_shift": 5, **wide, "o_type": kind}
    got = run_elementwise(a, a, out, **values)
    np.testing.assert_array_equal(got, (a.astype(np.int64) << 15).astype(out))


def test_int32_tensors_go_in_and_out() -> None:
    x = ints(10, 9, 4, low=-(1 << 31), high=(1 << 31) - 1).astype(np.int32)
    through = {"a_type": DType.I32, "lanes": 4, "o_space": Space.ACC, "o_type": DType.I32}
    back = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "lanes": 4,
        "o_type": DType.I32,
        "o_base": 256,
    }
    wide = {"o_min": -(1 << 31), "o_max": (1 << 31) - 1}
    body = serial(
        [
            (LOAD, {"region": 1, "run": x.nbytes}),
            (VECTOR, {**through, **wide, "loop": [{"count": 9, "a": 16, "o": 1}]}),
            (VECTOR, {**back, **wide, "a_zp": 5, "loop": [{"count": 9, "a": 1, "o": 16}]}),
            (STORE, {"region": 2, "chip_base": 256, "run": x.nbytes}),
        ]
    )
    got = Machine(TINY).run(image(TINY, body, [("x", x)], [("y", x.shape, "int32")]), {"x": x})["y"]
    np.testing.assert_array_equal(got, x - np.int32(5))


def test_fills_write_their_byte_in_strided_runs() -> None:
    body = serial(
        [
            (LOAD, {"fill": 1, "fill_value": 0, "run": 24}),
            (LOAD, {"fill": 1, "fill_value": 200, "run": 2, "loop": [{"count": 4, "chip": 6}]}),
            (STORE, {"region": 2, "run": 24}),
        ]
    )
    got = Machine(TINY).run(image(TINY, body, [], [("y", (4, 6), "uint8")]), {})["y"]
    want = np.zeros((4, 6), np.uint8)
    want[:, :2] = 200
    np.testing.assert_array_equal(got, want)


def test_uint8_operands_with_zero_points_use_the_whole_range() -> None:
    """The largest sums that the operands allow: exact only if K is split small enough."""
    config = dataclasses.replace(DEFAULT, name="many rows", rows=64)
    k, m = 64 * 20, 3
    x = np.zeros((m, k), np.uint8)
    body = serial(
        [
            (LOAD, {"region": 1, "run": m * k}),
            (LOAD, {"fill": 1, "fill_value": 0, "chip_base": 8192, "run": k}),
            (
                MATRIX,
                {
                    "act_unsigned": 1,
                    "wgt_unsigned": 1,
                    "act_zp": 255,
                    "wgt_zp": 255,
                    "wgt_base": 8192,
                    "wgt_row": 1,
                    "rows": 64,
                    "cols": 1,
                    "fold_loops": 1,
                    "k_loops": 1,
                    "loop": [
                        {"count": k // 64, "act": 64, "wgt": 64},
                        {"count": m, "act": k, "acc": 1},
                    ],
                },
            ),
            (
                VECTOR,
                {
                    "a_space": Space.ACC,
                    "a_type": DType.I32,
                    "lanes": 1,
                    "o_type": DType.I32,
                    "o_min": -(1 << 31),
                    "o_max": (1 << 31) - 1,
                    "o_base": 16384,
                    "loop": [{"count": m, "a": 1, "o": 4}],
                },
            ),
            (STORE, {"region": 2, "chip_base": 16384, "run": 4 * m}),
        ]
    )
    x[1] = 1
    x[2, ::2] = 3
    got = Machine(config).run(image(config, body, [("x", x)], [("y", (m,), "int32")]), {"x": x})
    want = (x.astype(np.int64) - 255).sum(1) * -255
    np.testing.assert_array_equal(got["y"], want)
