"""Kernels by hand: Python functions over tiles, compiled by the compiler's own back stages.

`kernel.py` has the decorator. Data flows `trace → place → emit → the compiler's stages`: tracing
the function makes statements (`steps.py`) over pieces of memories (`memory.py`); `placement.py`
gives the memories buffers; `emit/` writes virtual instructions; `layer.py` hands them to the
compiler as the one layer of a program. `systola.language` has the names that kernels use.
"""
