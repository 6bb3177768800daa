"""A program that stores what the chip holds: scratchpad, then accumulator.

Nothing clears these memories between programs, so run after another program it shows what that one
left. Parameters and table have no way out.
"""

import numpy as np

from spec.config import NpuConfig
from spec.isa import ISA_DIGEST, DType, Instruction, Opcode, Point, Space, Sync, encode_program
from spec.program import ALIGN, REGION_OUTPUT, Image, Port

_STORED, _COPIED = 0, 1
_MOST = 1 << 14  # vectors of one instruction


def dump_image(config: NpuConfig) -> Image:
    """Outputs `spad` (uint8, all its bytes) and `acc` (int32 [acc_vectors, cols])."""
    offset = -(-config.spad_bytes // ALIGN) * ALIGN
    vector = 4 * config.cols
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    free = {"post": [Sync(sem=_STORED, point=Point.READ)]}
    program = [
        Instruction(Opcode.BEGIN, digests),
        Instruction(Opcode.STORE, {"region": REGION_OUTPUT, "run": config.spad_bytes, **free}),
    ]
    # The accumulator leaves through the scratchpad, as much at a time as fits.
    step = min(config.acc_vectors, config.spad_bytes // vector, _MOST)
    for first in range(0, config.acc_vectors, step):
        count = min(step, config.acc_vectors - first)
        copy = {
            "a_space": Space.ACC,
            "a_type": DType.I32,
            "a_base": first,
            "o_space": Space.SPAD,
            "o_type": DType.I32,
            "o_base": 0,
            "o_min": -(1 << 31),
            "o_max": (1 << 31) - 1,
            "lanes": config.cols,
            "lanes_last": config.cols,
            "loop": [{"count": count, "a": 1, "o": vector}],
            "wait": [Sync(sem=_STORED)],
            "post": [Sync(sem=_COPIED)],
        }
        store = {
            "region": REGION_OUTPUT,
            "mem_base": offset + first * vector,
            "run": count * vector,
            "wait": [Sync(sem=_COPIED)],
            **free,
        }
        program += [Instruction(Opcode.VECTOR, copy), Instruction(Opcode.STORE, store)]
    return Image(
        config=config,
        program=np.frombuffer(encode_program([*program, Instruction(Opcode.END)]), np.uint8),
        constants=np.zeros(0, np.uint8),
        inputs=(),
        outputs=(
            Port(name="spad", offset=0, shape=(config.spad_bytes,), dtype="uint8"),
            Port(name="acc", offset=offset, shape=(config.acc_vectors, config.cols), dtype="int32"),
        ),
        info={"name": "on-chip memories"},
    )
