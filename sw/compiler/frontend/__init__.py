"""Float models with a wide residual stream: int8 operands of products, int16 between them.

plan.py      what each node of the exported graph is, and which nodes a rule covers
ranges.py    calibration: magnitudes by node and by channel; what does not depend on the inputs
formats.py   the integer type and scale of each value, from who reads it
importer.py  the walk; products.py, norms.py, elementwise.py, moves.py: one rule an operator
"""
