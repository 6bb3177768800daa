"""A function of tensors for each operation of StableHLO, by family.

elementwise.py  functions of elements; products.py: matrix products, convolutions
reductions.py   of dimensions and windows; indices.py: gathers; moves.py: shapes, parts, constants

A function takes the call and its operands: tensors, or numbers where its row of the table says so.
"""
