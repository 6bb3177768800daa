"""How operators are imported: a function each, which a row of the table of operators names.

convolutions.py, products.py, pools.py, reductions.py, gathers.py, moves.py, elementwise.py,
norms.py, logic.py (comparisons, changes of type), quantize.py;
broadcast.py: operands of equal rank;
grids.py: what the readers of a value round it to;
table.py: rules by their names
"""
