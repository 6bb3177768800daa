"""Convolutions and matrix products on the array.

layer.py     what is computed; geometry.py: its dimensions on the array, packed windows
plan.py      the search for tiles; cost.py: cycles of a plan
emit.py      instructions; steps.py: their order; loads.py, window_loads.py, residual.py: loads
weights.py   constant weights in the order of the array
"""
