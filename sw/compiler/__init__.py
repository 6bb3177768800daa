"""The compiler: models and TOSA graphs to program images.

frontend/    a PyTorch model becomes a TOSA graph of integers (tosa/: the graph itself)
pipeline.py  the stages from a TOSA graph to an image, in order; stages.py: what a stage is
passes/      rewrites of the graph; lower/: operators become layers
kernels/     a folder for each kind of layer: tiles, cost, instructions
placement/   which tensors stay on chip; which layers overlap
program/     order, addresses, semaphores, predicted cycles, instructions, image
machine/     cycle constants of the cost model
errors.py    compile errors; limits.py: what is too large
"""

from sw.compiler.errors import CompileError
from sw.compiler.pipeline import compile_graph, stage_names

__all__ = ["CompileError", "compile_graph", "stage_names"]
