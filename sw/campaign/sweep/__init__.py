"""Spaces of configurations, and what was found at their points.

space.py       a space file; axes.py: values of its axes; tasks.py: what is done at each point
objectives.py  what a point is judged by; pareto.py: fronts and hypervolumes
result.py      what is known of a point; points.py: made of rows, as table and CSV
picture.py     cycles as a picture; cores.py: points as targets of FuseSoC
search/        searches, which try a part of a space
"""
