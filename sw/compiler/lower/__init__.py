"""Stage `lower`: TOSA operators become layers.

table.py     by operator, the function that lowers it; stage.py: the walk over the graph
products/    convolutions and MATMUL; fusion/: what joins their layers
elementwise/ elementwise operators and reductions, alone or as chains
pools.py, moves.py, gathers.py   the others; copies.py: what they are made of
composed_copies.py               copies of copies as copies of what they begin with
storage.py   where tensors lie; context.py: what lowering functions work on
capacity.py  whether a layer would fit on chip
"""
