"""Maxima and averages over windows, by the vector engine alone; see also vector/.

layer.py     what is computed; windows.py: outputs that are computed alike
taps.py      steps that take two elements of a window
plan.py      the search for tiles; cost.py: cycles of a plan
emit.py      instructions
"""
