"""Suites of the regression.

suite.py        a suite file and its plan; suites/: the files of the release
estimate.py     how long a plan will take
quarantine.py   known failures; quarantine.yaml: those of the release
junit.py        what came of it as JUnit XML
"""
