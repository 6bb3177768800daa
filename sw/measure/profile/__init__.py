"""`systola profile`: where the cycles of a run go.

run.py            the command on a kernel or a model; predicted.py: without a run
layers.py         cycles charged to layers; report.py: tables and JSON; picture.py: bars
page/             a page of linked views, from bins.py (a run in equal parts of time) and
                  memory_map.py (what lies where)
trace.py          a trace for Perfetto, from trace_records.py (what rtl/event_trace.sv wrote) and
                  trace_spans.py (instructions on a time line); trace_extras.py: arrows and
                  counters; waits.py: which post ended which wait
"""
