"""`systola bound`: how far a program is from the layer bound, where the cycles go, and why.

layers.py       facts of each layer of a compilation: cycles, bound, what engines do
groups.py       layers that run together as one row
causes.py       why a group loses cycles, and what would mend it
report.py       the command: tables and JSON
"""
