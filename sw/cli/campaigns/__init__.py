"""Commands that carry out many runs, and show what came of them.

common.py   what they share; the other files are named after their commands
"""
