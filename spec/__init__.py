"""The contract: configuration, instructions, numerics, registers, program image.

Everything in the project imports this package; it imports nothing of the project
(standard library and NumPy only).
"""

from spec.config import PRESETS, ConfigError, NpuConfig, preset
from spec.errors import SystolaError
from spec.isa import Instruction, IsaError, Opcode
from spec.program import Image, ImageError, Port

__all__ = [
    "PRESETS",
    "ConfigError",
    "Image",
    "ImageError",
    "Instruction",
    "IsaError",
    "NpuConfig",
    "Opcode",
    "Port",
    "SystolaError",
    "preset",
]
