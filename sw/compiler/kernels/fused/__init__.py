"""Chains of elementwise operators and reductions as one layer, its temporaries in the accumulator.

layer.py     what is computed: steps over registers; builder.py builds it, simplify.py shortens it
product.py   products that the layer computes itself
plan.py      the search for tiles; tiles.py: what a plan says; cost.py: cycles of a plan
emit.py      instructions
"""
