"""RESIZE BILINEAR of int8 on the depthwise engine: a small convolution for each phase.

layer.py     what is computed; axis.py: phases of one dimension
plan.py      the search for tiles; cost.py: cycles of a plan
emit.py      instructions
"""
