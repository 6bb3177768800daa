"""What every TOSA 1.0 integer operator computes, in NumPy, a file per family.

A family's table gives, by operator, a function (operator, operands, output dtype) -> array, whose
values fit the output's dtype. `sw/compiler/tosa/interpreter.py` joins the tables.
"""
