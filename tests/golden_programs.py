"""Random legal instructions and small images for the golden model's tests."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from golden_reference import INDEX_REACH, INDICES, Reference, walk

from golden_model import Machine, depthwise_boxes, dma, products, vector_boxes
from golden_model.memory import read_port
from golden_model.program import Program
from golden_model.state import State
from spec import Image, Instruction, NpuConfig, Opcode, Port, preset
from spec.config import PAIR_STRIDE, PAIR_TAPS
from spec.isa import ISA_DIGEST, Alu, DType, Point, Scale, Sync, Table, encode_program
from spec.program import REGION_OUTPUT

ROOMY = dataclasses.replace(preset("tiny"), sem_bits=16)
"""`tiny` with semaphores that random posts do not overflow."""


def run_partly(config: NpuConfig, program: Image, inputs: dict[str, np.ndarray]) -> dict:
    """Outputs of a program that need not write all of them; other bytes are 0."""
    machine = Machine(config)
    machine.load(program)
    for name, array in inputs.items():
        machine.write(name, array)
    machine.execute()
    region = machine.memory[REGION_OUTPUT]
    return {port.name: read_port(region, program.outputs, port.name) for port in program.outputs}


STRIDED = {
    "dma": (dma, "_strided"),
    "vector": (vector_boxes, "execute"),
    "matrix": (products, "product_of"),
    "depthwise": (depthwise_boxes, "execute"),
}
"""Per operator the function that executes a chunk by strided views, or declines to."""


def by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden model goes by addresses for the rest of a test, never by strided views."""
    for module, function in STRIDED.values():
        monkeypatch.setattr(module, function, lambda *_, **__: None)


def begin(config: NpuConfig) -> Instruction:
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    return Instruction(Opcode.BEGIN, digests)


def code(config: NpuConfig, body: Sequence[Instruction]) -> np.ndarray:
    program = [begin(config), *body, Instruction(Opcode.END)]
    return np.frombuffer(encode_program(program), np.uint8)


def image(
    config: NpuConfig,
    body: Sequence[Instruction],
    inputs: Sequence[tuple[str, np.ndarray]] = (),
    outputs: Sequence[tuple[str, tuple[int, ...], str]] = (),
    **more: object,
) -> Image:
    """Ports lie at multiples of 64 bytes, in order."""
    at, ports = 0, []
    for name, array in inputs:
        ports.append(Port(name=name, offset=at, shape=array.shape, dtype=str(array.dtype)))
        at += -(-ports[-1].nbytes // 64) * 64
    at, results = 0, []
    for name, shape, dtype in outputs:
        results.append(Port(name=name, offset=at, shape=shape, dtype=dtype))
        at += -(-results[-1].nbytes // 64) * 64
    more.setdefault("constants", np.zeros(0, np.uint8))
    return Image(
        config=config,
        program=code(config, body),
        inputs=tuple(ports),
        outputs=tuple(results),
        **more,
    )


def state_of(reference: Reference) -> State:
    """The golden model's state with the reference's contents."""
    state = State(reference.config)
    for name in ("spad", "param", "table"):
        getattr(state, name)[:] = np.frombuffer(bytes(getattr(reference, name)), np.uint8)
    state.acc[:] = reference.acc
    state.memory[:] = [np.frombuffer(bytes(m), np.uint8).copy() for m in reference.memory]
    return state


def assert_same(state: State, reference: Reference, instruction: Instruction) -> None:
    for name in ("spad", "param", "table"):
        want = np.frombuffer(bytes(getattr(reference, name)), np.uint8)
        np.testing.assert_array_equal(getattr(state, name), want, f"{name}: {instruction}")
    np.testing.assert_array_equal(state.acc, np.array(reference.acc), f"acc: {instruction}")
    for region, memory in enumerate(reference.memory):
        want = np.frombuffer(bytes(memory), np.uint8)
        np.testing.assert_array_equal(state.memory[region], want, f"region {region}")


def decoded(config: NpuConfig, body: Sequence[Instruction]) -> Program:
    return Program(code(config, body).tobytes(), config)


# Random instructions ---------------------------------------------------------------------------


def loops(rng: np.random.Generator, many: int, most: int = 3) -> list[dict[str, int]]:
    out = []
    for depth in range(many):
        count = int(rng.integers(1, most + 1)) if rng.random() < 0.7 else 1
        ragged = depth and rng.random() < 0.3
        out.append({"count": count, "last": int(rng.integers(1, most + 1)) if ragged else count})
    return out


def add_strides(
    rng: np.random.Generator,
    nest: list[dict[str, int]],
    stride: str,
    size: int,
    reach: int,
    low: int = 0,
    step: int = 1,
) -> int:
    """Give every loop a stride so that addresses, `reach` units each, fit in low…size; a base."""
    while True:
        widest = max(1, (size - low) // 4)
        for loop in nest:
            near = int(rng.integers(-4, 5))
            far = int(rng.integers(-widest, widest + 1))
            loop[stride] = (near if rng.random() < 0.6 else far) * step
        sums = [sum(i * p[stride] for i, p in zip(x, nest, strict=True)) for x, _ in walk(nest)]
        first, last = low - min(sums), size - reach - max(sums)
        if first <= last:
            return int(rng.integers(first, last + 1))


def posts(rng: np.random.Generator, many_loops: int, points: Sequence[Point]) -> list[Sync]:
    """Nobody waits for these; they split the instruction at random levels."""
    return [
        Sync(sem=i, level=int(rng.integers(0, many_loops + 1)), point=Point(rng.choice(points)))
        for i in range(rng.integers(0, 3))
    ]


def random_dma(rng: np.random.Generator, config: NpuConfig, memory_bytes: int) -> Instruction:
    nest = loops(rng, 4)
    load = bool(rng.random() < 0.6)
    run = int(rng.integers(1, 40))
    space = int(rng.choice([0, 2, 3])) if load else 0
    size = {0: config.spad_bytes, 2: config.param_bytes, 3: config.table_bytes}[space]
    step = config.bus_bytes if space else 1
    values = {
        "region": int(rng.choice([0, 1, 3])) if load else int(rng.choice([2, 3])),
        "chip_base": add_strides(rng, nest, "chip", size, run, step=step),
        "mem_base": add_strides(rng, nest, "mem", memory_bytes - step, run, step=step),
        "run": run,
        "loop": nest,
        "post": posts(rng, 4, [Point.DONE] if load else [Point.DONE, Point.READ]),
    }
    values["mem_base"] += (values["chip_base"] - values["mem_base"]) % step
    if load:
        values |= {"space": space, "fill": int(rng.random() < 0.2), "fill_value": 0xA5}
    return Instruction(Opcode.LOAD if load else Opcode.STORE, values)


def random_indexed(rng: np.random.Generator, config: NpuConfig, memory_bytes: int) -> Instruction:
    """A LOAD or STORE through the indices at the beginning of the scratchpad."""
    values = random_dma(rng, config, memory_bytes).values
    while values.get("space") or values.get("fill"):
        values = random_dma(rng, config, memory_bytes).values
    nest, run = values["loop"], values["run"]
    opcode = Opcode(values["opcode"])
    count = nest[0]["count"]
    low, high = INDEX_REACH, memory_bytes - INDEX_REACH
    values = {
        **values,
        "mem_base": add_strides(rng, nest, "mem", high, run, low=low),
        "chip_base": add_strides(rng, nest, "chip", config.spad_bytes, run, low=4 * INDICES),
        "indexed": 1,
        "index_base": 4 * int(rng.integers(0, INDICES - count + 1)),
    }
    return Instruction(opcode, values)


def position(rng: np.random.Generator, nest: list[dict[str, int]]) -> dict[str, int]:
    """Origin, extent and steps in y and x, often with steps that lie outside."""
    if rng.random() < 0.3:
        return {}
    for loop in nest:
        loop["dy"], loop["dx"] = (int(d) for d in rng.integers(-1, 2, 2))
    height, width = (int(n) for n in rng.integers(1, 5, 2))
    y0, x0 = (int(n) for n in rng.integers(-1, 3, 2))
    return {"height": height, "width": width, "y0": y0, "x0": x0}


def zero_point(rng: np.random.Generator, unsigned: bool) -> int:
    if rng.random() < 0.3:
        return 0
    return int(rng.integers(0, 256)) if unsigned else int(rng.integers(-128, 129))


def random_matrix(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    nest = loops(rng, 6, 2 if rng.random() < 0.7 else 3)
    folds = int(rng.integers(0, 7))
    act_unsigned, wgt_unsigned = (bool(rng.random() < 0.5) for _ in range(2))
    rows, rows_last = (int(n) for n in rng.integers(1, config.rows + 1, 2))
    cols, cols_last = (int(n) for n in rng.integers(1, config.cols + 1, 2))
    wgt_row = int(rng.integers(-60, 61))
    transposed = int(rng.random() < 0.4)
    vectors, run = (config.cols, config.rows) if transposed else (config.rows, config.cols)
    reach = (vectors - 1) * abs(wgt_row) + run
    base = add_strides(rng, nest[:folds], "wgt", config.spad_bytes, reach)
    values = {
        "act_base": add_strides(rng, nest, "act", config.spad_bytes, config.rows),
        "wgt_row": wgt_row,
        "wgt_base": base + (-(vectors - 1) * wgt_row if wgt_row < 0 else 0),
        "transposed": transposed,
        "acc_base": add_strides(rng, nest, "acc", config.acc_vectors, 1),
        "act_unsigned": act_unsigned,
        "wgt_unsigned": wgt_unsigned,
        "act_zp": zero_point(rng, act_unsigned),
        "wgt_zp": zero_point(rng, wgt_unsigned),
        "fold_loops": folds,
        "k_loops": int(rng.integers(0, 64)) & (63 if rng.random() < 0.3 else (1 << folds) - 1),
        "accumulate": int(rng.random() < 0.3),
        "row_loop": int(rng.choice([7, *range(folds)])),
        "col_loop": int(rng.choice([7, *range(folds)])),
        "rows": rows,
        "rows_last": rows_last,
        "cols": cols,
        "cols_last": cols_last,
        **position(rng, nest),
        "loop": nest,
    }
    values["post"] = posts(rng, 6, [Point.DONE, Point.READ]) + (
        [Sync(sem=9, level=int(rng.integers(0, folds + 1)), point=Point.WEIGHTS)]
        if rng.random() < 0.5
        else []
    )
    return Instruction(Opcode.MATRIX, values)


def random_convolution(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    """Blocks of columns, kernel positions, blocks of rows, pixels: what compilers emit.

    Loops come in a random order among the folds; every accumulator vector is its own.
    """
    blocks, height, width = (int(n) for n in rng.integers(1, 4, 3))
    kernel_y, kernel_x, depth = (int(n) for n in rng.integers(1, 3, 3))
    channels = depth * config.rows + int(rng.integers(0, 3))
    row = width * channels
    transposed = int(rng.random() < 0.4)
    if transposed:
        # [columns, kernel y, kernel x, rows]
        position_bytes, depth_bytes = depth * config.rows, config.rows
        weights = kernel_y * kernel_x * position_bytes
        block = config.cols * weights
    else:
        # [kernel y, kernel x, rows, columns]
        weights, block = blocks * config.cols, config.cols
        position_bytes, depth_bytes = depth * config.rows * weights, config.rows * weights
    order = rng.permutation(4)
    folds = [
        {"count": blocks, "wgt": block, "acc": height * width},
        {"count": kernel_y, "act": row, "dy": 1, "wgt": kernel_x * position_bytes},
        {"count": kernel_x, "act": channels, "dx": 1, "wgt": position_bytes},
        {"count": depth, "act": config.rows, "wgt": depth_bytes},
    ]
    stream = [
        {"count": height, "act": row, "dy": 1, "acc": width},
        {"count": width, "act": channels, "dx": 1, "acc": 1},
    ]
    place = {int(old): new for new, old in enumerate(order)}
    values = {
        "act_base": 4096,
        "wgt_base": 0,
        "wgt_row": weights,
        "transposed": transposed,
        "acc_base": int(rng.integers(0, 100)),
        "y0": -int(rng.integers(0, 2)),
        "x0": -int(rng.integers(0, 2)),
        "height": height,
        "width": width,
        "act_zp": int(rng.choice([0, 5, 128])),
        "wgt_zp": int(rng.choice([0, -3])),
        "fold_loops": 4,
        # Sometimes a loop is left out: its iterations overwrite each other.
        "k_loops": sum(1 << place[old] for old in (1, 2, 3) if rng.random() < 0.8),
        "accumulate": int(rng.random() < 0.3),
        "row_loop": place[3],
        "rows": config.rows,
        "rows_last": int(rng.integers(1, config.rows + 1)),
        "col_loop": place[0],
        "cols": config.cols,
        "cols_last": int(rng.integers(1, config.cols + 1)),
        "loop": [folds[i] for i in order] + stream,
        "post": posts(rng, 6, [Point.DONE, Point.READ]),
    }
    return Instruction(Opcode.MATRIX, values)


def random_depthwise(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    """Any nest and any window; addresses of the accumulator meet between steps, not within."""
    nest = loops(rng, 4)
    folds = int(rng.integers(0, 5))
    kernel_rows = int(rng.integers(1, 9)) if rng.random() < 0.3 else int(rng.integers(1, 4))
    kernel_cols = int(rng.integers(1, config.taps + 1))
    stride, outputs = int(rng.integers(1, kernel_cols + 1)), int(rng.integers(1, 6))
    if config.depthwise_pairs and rng.random() < 0.5:
        kernel_cols, stride = PAIR_TAPS, PAIR_STRIDE
    columns = (outputs - 1) * stride + kernel_cols
    act_row, wgt_row = (int(n) for n in rng.integers(-90, 91, 2))
    act_col, wgt_col = (int(n) for n in rng.integers(-20, 21, 2))
    if config.depthwise_pairs and rng.random() < 0.5:
        act_col = int(rng.choice([-1, 1])) * (7 * config.word_bytes + 4)  # often in the same bank
    act_from, act_reach = window([(kernel_rows, act_row), (columns, act_col)], config.cols)
    wgt_from, wgt_reach = window([(kernel_rows, wgt_row), (kernel_cols, wgt_col)], config.cols)
    acc_col = int(rng.choice([-3, -2, -1, 1, 2, 5]))
    acc_from, acc_reach = window([(outputs, acc_col)], 1)
    act_unsigned, wgt_unsigned = (bool(rng.random() < 0.5) for _ in range(2))
    lanes, lanes_last = (int(n) for n in rng.integers(1, config.cols + 1, 2))
    where = position(rng, nest)
    if where:
        where["row_step"], where["col_step"] = (int(n) for n in rng.integers(-2, 3, 2))
        where["width"] = int(rng.integers(1, 12))
        where["x0"] = int(rng.integers(-3, 4))
    values = {
        "act_base": add_strides(rng, nest, "act", config.spad_bytes, act_reach) + act_from,
        "act_row": act_row,
        "act_col": act_col,
        "wgt_base": add_strides(rng, nest[:folds], "wgt", config.spad_bytes, wgt_reach) + wgt_from,
        "wgt_row": wgt_row,
        "wgt_col": wgt_col,
        "acc_base": add_strides(rng, nest, "acc", config.acc_vectors, acc_reach) + acc_from,
        "acc_col": acc_col,
        **where,
        "act_unsigned": act_unsigned,
        "wgt_unsigned": wgt_unsigned,
        "act_zp": zero_point(rng, act_unsigned),
        "wgt_zp": zero_point(rng, wgt_unsigned),
        "kernel_rows": kernel_rows,
        "kernel_cols": kernel_cols,
        "stride": stride,
        "outputs": outputs,
        "accumulate": int(rng.random() < 0.5),
        "fold_loops": folds,
        "lane_loop": int(rng.choice([7, *range(folds)])),
        "lanes": lanes,
        "lanes_last": lanes_last,
        "loop": nest,
        "post": posts(rng, 4, [Point.DONE, Point.READ]),
    }
    return Instruction(Opcode.DEPTHWISE, values)


def window(dimensions: Sequence[tuple[int, int]], run: int) -> tuple[int, int]:
    """Runs in several dimensions of (count, stride): units before the base, and units in all."""
    spans = [(count - 1) * stride for count, stride in dimensions]
    before = -sum(min(0, span) for span in spans)
    return before, before + sum(max(0, span) for span in spans) + run


def random_fused(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    """A random VECTOR that clamps and shifts its A."""
    values = random_vector(rng, config).values
    low, high = sorted(int(n) for n in rng.integers(-(1 << 17), 1 << 17, 2))
    clamp = {"a_clamp": 1, "a_min": low, "a_max": high} if rng.random() < 0.7 else {}
    return Instruction(Opcode.VECTOR, {**values, **clamp, "a_shl": int(rng.integers(0, 32))})


def random_operator(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    """A random VECTOR of any function, operands of one element or none, lanes combined."""
    values = random_fused(rng, config).values
    if rng.random() < 0.5:
        values |= {"a_clamp": 0, "a_shl": 0}
    values["alu"] = int(rng.choice(Alu))
    for name in ("a_one", "b_one", "b_none"):
        values[name] = int(rng.random() < 0.3)
    if rng.random() < 0.4:
        values |= {"a_scale": Scale.OPERAND, "a_shift": int(rng.choice([0, rng.integers(64)]))}
    if rng.random() < 0.4:
        values |= {"b_type": DType.I8, "b_zp": int(rng.integers(-20, 20)), "b_scale": Scale.OFF}
    if values["reduce"] and rng.random() < 0.6:
        loops = values["reduce_loops"] if rng.random() < 0.8 else 0
        lane_loop = int(rng.choice([7, *range(6)]))
        values |= {"reduce_lanes": 1, "reduce_loops": loops, "lane_loop": lane_loop}
    if values["table"] and rng.random() < 0.6:
        low, high = sorted(int(n) for n in rng.integers(-(1 << 15), 1 << 15, 2))
        wide = int(rng.choice([Table.I16, Table.I16_I8]))
        values |= {"table": wide, "o_min": low, "o_max": high}
    return Instruction(Opcode.VECTOR, values)


def random_vector(rng: np.random.Generator, config: NpuConfig) -> Instruction:
    nest = loops(rng, 6, 2 if rng.random() < 0.7 else 3)
    spad, acc, cols = config.spad_bytes, config.acc_vectors, config.cols
    reduce = int(rng.integers(1, 4)) if rng.random() < 0.5 else 0
    reduce_loops = 0
    if reduce:
        first = int(rng.integers(0, 7))
        reduce_loops = 63 & ~((1 << first) - 1)
    a_acc, o_acc = (bool(rng.random() < 0.5) for _ in range(2))
    types = [DType(int(t)) for t in rng.integers(0, 5, 3)]
    types[0] = DType.I32 if a_acc else types[0]
    types[2] = DType.I32 if o_acc else types[2]
    # A and B come from the lower halves, the result goes to the upper ones.
    add = [add_strides(rng, nest, "a", acc // 2, 1) if a_acc else None]
    base_a = add[0] if a_acc else add_strides(rng, nest, "a", spad // 2, 4 * cols)
    low, high = sorted(int(n) for n in rng.integers(-300, 300, 2))
    lanes, lanes_last = (int(n) for n in rng.integers(1, cols + 1, 2))
    wide = rng.random() < 0.3
    values = {
        "a_space": int(a_acc),
        "a_type": types[0],
        "a_base": base_a,
        "b_type": types[1],
        "b_base": add_strides(rng, nest, "b", spad // 2, 4 * cols),
        "o_space": int(o_acc),
        "o_type": types[2],
        "o_base": (
            add_strides(rng, nest, "o", acc, 1, low=acc // 2)
            if o_acc
            else add_strides(rng, nest, "o", spad, 4 * cols, low=spad // 2)
        ),
        "param_base": add_strides(rng, nest, "param", config.param_entries, 1),
        "bias": int(rng.random() < 0.5),
        "alu": int(rng.integers(0, 5)),
        "reduce": reduce,
        "reduce_loops": reduce_loops,
        "o_min": -(1 << 31) if wide else low,
        "o_max": (1 << 31) - 1 if wide else high,
        "table": int(rng.random() < 0.3),
        "lane_loop": int(rng.choice([7, *(i for i in range(6) if not reduce_loops >> i & 1)])),
        "lanes": lanes,
        "lanes_last": lanes_last,
        **position(rng, nest),
        "loop": nest,
        "post": posts(rng, 6, [Point.DONE, Point.READ]),
    }
    for operand in "abo":
        values[f"{operand}_scale"] = int(rng.integers(0, 2 if operand == "b" else 3))
        values[f"{operand}_mult"] = int(rng.integers(-(1 << 31), 1 << 31))
        values[f"{operand}_shift"] = int(rng.integers(2, 63))
        values[f"{operand}_zp"] = int(rng.integers(-(1 << 17), 1 << 17))
    return Instruction(Opcode.VECTOR, values)


def serial(body: Sequence[tuple[Opcode, dict[str, object]]]) -> list[Instruction]:
    """Each instruction waits until the one before it is done."""
    out = []
    for i, (opcode, values) in enumerate(body):
        values = dict(values)
        values["wait"] = [Sync(sem=i - 1)] if i else []
        values["post"] = [Sync(sem=i)] if i + 1 < len(body) else []
        if opcode is Opcode.MATRIX and i:
            values["wait"] += [Sync(sem=31, point=Point.WEIGHTS)]
        out.append((opcode, values))
    for (_, values), (opcode, _) in itertools.pairwise(out):
        if opcode is Opcode.MATRIX:
            values["post"] = [*values["post"], Sync(sem=31)]
    return [Instruction(opcode, values) for opcode, values in out]
