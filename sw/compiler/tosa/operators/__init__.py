"""The rules of every TOSA 1.0 integer operator, a file per family.

A function takes a `Checker` (checker.py) and the output dtype that is declared, if one is; it
returns shape and dtype of the output, or raises where an ERROR_IF of the specification holds. The
rows of `sw/compiler/tosa/table.py` name them.

products.py (and pools), elementwise.py (and TABLE), reductions.py, moves.py (and RESIZE)
"""
