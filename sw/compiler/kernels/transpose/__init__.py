"""TRANSPOSE and copies of short runs, by products with the identity matrix.

layer.py: what is computed. turns.py: the products of a tile. plan.py: tiles. cost.py: cycles of a
plan. emit.py: instructions.
"""
