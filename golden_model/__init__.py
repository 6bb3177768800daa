"""The golden model: executes program images bit-exactly in NumPy, and finds hazards.

It follows docs/contract.md and imports nothing of the project but `spec`.
"""

from golden_model.errors import (
    DeadlockError,
    GoldenError,
    HazardError,
    MachineFault,
    TensorError,
    UndefinedError,
)
from golden_model.machine import Machine

__all__ = [
    "DeadlockError",
    "GoldenError",
    "HazardError",
    "Machine",
    "MachineFault",
    "TensorError",
    "UndefinedError",
]
