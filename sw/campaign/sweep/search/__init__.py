"""Searches of spaces that are too large, or whose points cost too much, to try each.

proposers.py  what proposes combinations: at random, or Optuna's samplers
ask.py        legal combinations that were not tried yet, from a proposer; what is told to it
rounds.py     a search as a campaign whose tasks are added as it goes
coverage.py   the share of a grid's hypervolume that searches of it reach
"""
