"""Campaigns: many runs in parallel processes, results in one database, resumable.

`systola regress` and `systola sweep` are both campaigns: a list of tasks (plan, space), worker
processes that carry them out (runner, pool, worker, measure), rows in a database (store), and what
is shown of them (progress, summary, table, picture).
"""
