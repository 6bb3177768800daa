"""Campaigns: many runs, results in one database, resumable.

plan.py      tasks of a campaign; workloads.py: what they run; yamlfile.py: files that describe them
measure.py   how a task is carried out; measures/: what each kind does
engine/      hands tasks to processes
regress/     suites of `systola regress` (suites/*.yaml), what is written of them
bisect/      the first bad commit of a run
sweep/       spaces of `systola sweep`, their points as table, CSV and picture
mutants/     mutations of the RTL, and the page of what noticed each
progress.py, summary.py   what is shown
"""
