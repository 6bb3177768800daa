"""How tasks of a campaign are carried out by Dask workers, on this machine or on many.

runner.py     the campaign's loop; agenda.py: which task is next; estimate.py: seconds that are left
team.py       workers as the campaign sees them; resources.py: what tasks need and workers offer
cluster.py    the workers of this machine, or those of a running scheduler; wire.py: way to them
order.py      what is asked of a worker and what comes back; perform.py: how a worker does it
children.py   child processes of a worker; child.py: such a process; memory.py: what it holds
worker.py     `systola worker`: offers this machine to a scheduler
load.py       measures how many tasks a second the engine carries out
"""
