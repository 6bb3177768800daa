"""Runs the command line, and makes small program images for it."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from spec.config import NpuConfig, preset
from spec.isa import ISA_DIGEST, Instruction, Opcode, Sync, encode_program
from spec.program import REGION_INPUT, REGION_OUTPUT, Image, Port

ROOT = Path(__file__).resolve().parent.parent


def systola(*arguments, cwd=None):
    """(exit code, stdout, stderr) of `python -m systola …` in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "systola", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def environment():
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def copy_image(config: NpuConfig | None = None, size: int = 64) -> Image:
    """A program that copies its input `x` to its output `y` through the scratchpad."""
    config = config or preset("tiny")
    program = [
        Instruction(
            Opcode.BEGIN,
            {"isa_digest": ISA_DIGEST & 0xFFFFFFFF, "config_digest": config.digest()},
        ),
        Instruction(
            Opcode.LOAD,
            {"region": REGION_INPUT, "run": size, "post": [Sync(sem=0)]},
        ),
        Instruction(
            Opcode.STORE,
            {"region": REGION_OUTPUT, "run": size, "wait": [Sync(sem=0)]},
        ),
        Instruction(Opcode.END),
    ]
    return Image(
        config=config,
        program=np.frombuffer(encode_program(program), np.uint8),
        constants=np.zeros(0, np.uint8),
        inputs=(Port(name="x", offset=0, shape=(size,)),),
        outputs=(Port(name="y", offset=0, shape=(size,)),),
        info={"name": "copy", "macs": 0},
    )


def image_with_bytes(position: int, value: int) -> Image:
    """The copy program with one byte of its instructions changed."""
    image = copy_image()
    program = image.program.copy()
    program[position] = value
    return Image(
        config=image.config,
        program=program,
        constants=image.constants,
        inputs=image.inputs,
        outputs=image.outputs,
        info=image.info,
    )
