"""The official TOSA conformance suite on the NPU.

suite.py     what tests there are; generates them, operator by operator
execute.py   one test: a TOSA file and arrays in, arrays out of device memory; expose.py: its
             constants as inputs
sut.py       that as the system under test of `tosa_verif_run_tests`
chunk.py     runs that program on some tests and reads its verdicts
store.py     verdicts in the database of results: what is there need not run again
conduct.py   all of it, for several operators at a time
summary.py   counts for the terminal and as JSON (the page: sw/measure/pages/conformance.py)
"""
