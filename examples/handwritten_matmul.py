"""A matrix product written by hand, instruction by instruction.

C[M, N] = clamp(A[M, K] x B[K, N] >> 7), int8 in, int8 out, on any configuration whose scratchpad
holds all three. Semaphores order the four engines; nothing else does.

    python examples/handwritten_matmul.py [--config NAME] [--device golden|rtl]
"""

import argparse

import numpy as np

from spec import Image, Instruction, NpuConfig, Opcode, Port, preset
from spec.isa import ISA_DIGEST, DType, Point, Scale, Space, Sync, encode_program

A_READY, B_READY, SUMS_READY, C_READY = range(4)
M, K, N = 13, 37, 21
B_AT = 512  # A and B are ports of the input region, 64-byte aligned


def matmul(config: NpuConfig) -> Image:
    """The program: loops are n (columns), k (reduction), then the M vectors of a fold."""
    r, c = config.rows, config.cols
    blocks_k, blocks_n = -(-K // r), -(-N // c)
    a, b, out = 0, M * K, M * K + K * N
    columns = {"cols": c, "cols_last": N - (blocks_n - 1) * c, "col_loop": 0}
    rows = {"rows": r, "rows_last": K - (blocks_k - 1) * r, "row_loop": 1}
    lanes = {"lanes": c, "lanes_last": columns["cols_last"], "lane_loop": 0}
    folds = [
        {"count": blocks_n, "wgt": c, "acc": M},
        {"count": blocks_k, "act": r, "wgt": r * N},
    ]
    load_a = {"region": 1, "chip_base": a, "run": M * K, "post": [Sync(sem=A_READY)]}
    load_b = {"region": 1, "mem_base": B_AT, "chip_base": b, "run": K * N}
    load_b |= {"post": [Sync(sem=B_READY)]}
    matrix = {"act_base": a, "wgt_base": b, "wgt_row": N, "fold_loops": 2, "k_loops": 0b010}
    matrix |= {**rows, **columns, "loop": [*folds, {"count": M, "act": K, "acc": 1}]}
    matrix |= {"wait": [Sync(sem=A_READY), Sync(sem=B_READY, point=Point.WEIGHTS)]}
    matrix |= {"post": [Sync(sem=SUMS_READY, level=1)]}  # after each block of columns
    vector = {"a_space": Space.ACC, "a_type": DType.I32, "o_base": out, **lanes}
    vector |= {
        "o_scale": Scale.TENSOR,
        "o_mult": 1 << 23,
        "o_shift": 30,
        "o_min": -128,
        "o_max": 127,
    }
    vector |= {"loop": [{"count": blocks_n, "a": M, "o": c}, {"count": M, "a": 1, "o": N}]}
    vector |= {"wait": [Sync(sem=SUMS_READY, level=1)], "post": [Sync(sem=C_READY)]}
    store = {"wait": [Sync(sem=C_READY)], "region": 2, "chip_base": out, "run": M * N}
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    program = [
        Instruction(Opcode.BEGIN, digests),
        Instruction(Opcode.LOAD, load_a),
        Instruction(Opcode.LOAD, load_b),
        Instruction(Opcode.MATRIX, matrix),
        Instruction(Opcode.VECTOR, vector),
        Instruction(Opcode.STORE, store),
        Instruction(Opcode.END),
    ]
    return Image(
        config=config,
        program=np.frombuffer(encode_program(program), np.uint8),
        constants=np.zeros(0, np.uint8),
        inputs=(Port(name="a", offset=0, shape=(M, K)), Port(name="b", offset=B_AT, shape=(K, N))),
        outputs=(Port(name="c", offset=0, shape=(M, N)),),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="default")
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    options = parser.parse_args()
    config = preset(options.config)
    if options.device == "rtl":
        from sw.runtime.rtl import RtlDevice as Device
    else:
        from sw.runtime.golden import GoldenDevice as Device
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s, dtype=np.int8) for s in ((M, K), (K, N)))
    device = Device(config)
    device.load(matmul(config))
    device.write("a", a)
    device.write("b", b)
    result = device.run()
    sums = a.astype(np.int64) @ b.astype(np.int64)
    good = np.array_equal(device.read("c"), np.clip((sums + 64) >> 7, -128, 127))
    device.close()
    cycles = "" if result.cycles is None else f" in {result.cycles} cycles"
    print(f"{'PASS' if good else 'FAIL'}: {M}x{K}x{N} on {config.name}, {options.device}{cycles}")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
