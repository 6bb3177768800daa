"""Convolutions of each channel by itself, on the depthwise engine.

layer.py     what is computed; geometry.py: boxes, and passes over the kernel
plan.py      the search for tiles; tiles.py: what a plan says; cost.py: cycles of a plan
emit.py      instructions
"""
