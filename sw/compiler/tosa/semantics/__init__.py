"""What every TOSA 1.0 integer operator computes, in NumPy, a file per family.

A function takes (operator, operands, output dtype) and returns an array whose values fit that type.
The rows of `sw/compiler/tosa/table.py` name them.

products.py (and pools), elementwise.py (and TABLE), reductions.py, moves.py (and RESIZE);
arrays.py: what they share
"""
