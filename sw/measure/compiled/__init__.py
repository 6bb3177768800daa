"""What commands do with the programs of a `.pte` file.

programs.py   opens the file: its programs, with the integers that a run brings each of them
run.py        `systola run`
figures.py    `systola verify` and `bench`
profiles.py   `systola profile`
"""
