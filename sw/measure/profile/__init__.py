"""`systola profile`: where the cycles of a run go.

run.py            the command on a kernel or a model
layers.py         cycles charged to layers; report.py: tables and JSON; picture.py: bars
trace.py          a trace for Perfetto, from trace_records.py (what rtl/event_trace.sv wrote) and
                  trace_spans.py (instructions on a time line)
"""
