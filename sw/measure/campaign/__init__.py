"""Campaigns: many runs in parallel processes, results in one database, resumable.

plan.py      suites of `systola regress` (suites/*.yaml); space.py: spaces of `systola sweep`;
             mutants.py: mutations; yamlfile.py: reading such files
task.py      what a run is; workloads.py: what it computes; measure.py: how it is carried out
runner.py    hands tasks to processes: pool.py, worker.py
store.py     the database; schema.py: its tables
progress.py, summary.py, points.py (table, CSV), picture.py   what is shown
"""
