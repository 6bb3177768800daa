"""Small programs for tests of the device: one that copies, and ones that go wrong."""

import numpy as np

from spec import Image, Instruction, NpuConfig, Opcode, Port
from spec.isa import ISA_DIGEST, Sync, encode_program

SIZE = 1000


def begin(config: NpuConfig) -> Instruction:
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    return Instruction(Opcode.BEGIN, digests)


def image(config: NpuConfig, *body: Instruction, program: bytes | None = None) -> Image:
    """BEGIN, `body`, END with an input x and an output y of SIZE bytes."""
    if program is None:
        program = encode_program([begin(config), *body, Instruction(Opcode.END)])
    return Image(
        config=config,
        program=np.frombuffer(program, np.uint8),
        constants=np.zeros(0, np.uint8),
        inputs=(Port(name="x", offset=0, shape=(SIZE,)),),
        outputs=(Port(name="y", offset=0, shape=(SIZE,)),),
    )


def load(**values: object) -> Instruction:
    return Instruction(Opcode.LOAD, {"region": 1, "run": SIZE, "post": [Sync(sem=0)], **values})


def store(**values: object) -> Instruction:
    return Instruction(Opcode.STORE, {"region": 2, "run": SIZE, "wait": [Sync(sem=0)], **values})


def copy(config: NpuConfig) -> Image:
    """y = x."""
    return image(config, load(), store())


def repeated_copy(config: NpuConfig) -> Image:
    """y = x, again and again: fetch has read far ahead where it jumps back."""
    section = [load(), store()]
    granules = sum(each.format.granules for each in section)
    again = Instruction(Opcode.REPEAT, {"count": 2, "section": granules})
    return image(config, *section * 20, again, *section * 20)


def deadlock(config: NpuConfig) -> Image:
    """Waits for a semaphore that nobody posts."""
    return image(config, store())
