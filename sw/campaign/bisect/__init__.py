"""`systola bisect`: the first commit at which a run fails, or takes more cycles.

target.py      which run is meant; criterion.py: when its result is bad
repository.py  commits and temporary worktrees
trial.py       the run at a commit, in a process of that commit's own code
search.py      which commit is tried next, and what was found
command.py     all of it, on the database
"""
