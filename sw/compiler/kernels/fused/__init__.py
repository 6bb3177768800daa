"""Chains of elementwise operators and reductions as one layer, its temporaries in the accumulator.

layer.py     what is computed: steps over registers; builder.py builds it, simplify.py shortens it
product.py   products that the layer computes itself
plan.py      the search for tiles; tiles.py: what a plan says; sizes.py: what a tile takes on chip;
             cost.py: cycles of a plan
blocks.py    rows that pass in blocks of columns; plan_blocks.py, cost_blocks.py: the same for them
emit.py      instructions: emit_tiles.py of tiles with whole rows, emit_blocks.py of blocks;
             rotation.py: buffers that tiles take turns in
"""
