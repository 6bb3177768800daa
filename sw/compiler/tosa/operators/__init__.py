"""The rules of every TOSA 1.0 integer operator, a file per family.

Each family has a table of `OperatorSpec` rows; `sw/compiler/tosa/table.py` joins them.
"""
