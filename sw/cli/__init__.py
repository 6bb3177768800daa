"""The command line: main.py has the table of commands, each with its file and function.

run.py          sim, run, exec; generate.py: generate
images.py       compile, disasm, quantize
compare.py      verify, validate, diff; accuracy.py: the command of its name
measure.py      bench, profile, simspeed, goldenspeed; pages.py: pages
campaigns/      regress, sweep, mutants, corrupt, conformance
environment.py  config, cache; doctor.py: doctor
options.py      options that commands share; output.py: what they print; ending.py: how they end
reference.py    docs/commands.md and docs/python.md; export_check.py: files for rtl/check_main.cpp
"""
