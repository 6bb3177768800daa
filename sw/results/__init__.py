"""Results of campaigns: what ran, on what, and the database of it.

task.py       tasks and outcomes; rows.py: the same as rows
revision.py   commit and sources that a figure was measured on; machine.py: with what
location.py   a file or URL of a database; database.py: the connection, and what if it is lost
schema.py     the tables; migrate.py, migrations/: how they are made and change
store.py      campaigns that go on where they were; locks.py: one process for each
history.py    what earlier campaigns gave
archive.py    all that is stored; compare.py: what changed; export.py: files for others
"""
