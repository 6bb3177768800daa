"""The golden model: executes program images bit-exactly in NumPy, and finds hazards.

It follows docs/contract.md and imports nothing of the project but `spec`.

machine.py    fetch and engines; engine.py: queues, waits and posts; scheduler.py: who runs next
dma.py        LOAD and STORE
matrix.py     MATRIX: folds.py, products.py, windows.py, values.py, lhs_cache.py; matrix_boxes.py
depthwise.py  DEPTHWISE; depthwise_boxes.py
vector.py     VECTOR: operands.py (addresses), lanes.py (arithmetic); vector_boxes.py,
              vector_parts.py, vector_checks.py
hazards.py    what is ordered: clocks.py, semaphores.py, regions.py, access.py
state.py      memories; program.py, instruction_shapes.py: decoded programs; merging.py: several
              chunks at once; memory.py: tensors in and out; errors.py: faults, deadlocks

Files with boxes in their names compute regular instructions by strided views (boxes.py), the others
by index arrays (loops.py, widths.py). Both give the same bits.
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
