"""The generated pages of docs/, written by `systola pages`.

registry.py       every page: its function and its records in docs/data/
markdown.py       what pages are made of
reference.py      isa.md, registers.md; configuration.py; operators.py
bench.py          benchmarks.md; modules.py; accuracy.py; validation.py; conformance.py
"""
