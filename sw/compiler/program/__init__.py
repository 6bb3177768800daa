"""From layers' virtual instructions to the image.

virtual.py          instructions over symbolic buffers; records.py: their fields, written by
                    records_source.py
allocate.py         stage `allocate`: addresses; constants.py: packed weights and parameters
list_scheduling.py  stage `list-scheduling`: the order in which instructions can start
dependences.py      who must wait for whom, from the bytes accessed (accesses.py)
semaphores.py       stage `semaphores`: waits and posts
timeline.py         stage `predict`: when each instruction runs; cycles.py: how long it takes
dram/               what a DRAM adds to it: rows, and writes that wait
emit.py, image.py   stages `emit` and `image`
"""
