"""The compiler: TOSA graphs (`sw.compiler.tosa.graph`) to program images."""

from sw.compiler.errors import CompileError
from sw.compiler.pipeline import compile_graph, stage_names

__all__ = ["CompileError", "compile_graph", "stage_names"]
