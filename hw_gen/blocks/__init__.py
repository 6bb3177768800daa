"""The blocks of the NPU, one component a file; `hw_gen/top.py` connects them.

fetch.py       dma_program.py reads the program, decode.py and decode_rules.py check it,
               dispatch.py queues instructions for each engine
sequencer.py   the loop nest in front of every engine; semaphores.py, post_queue.py: synchronisation
load.py        dma_runs.py and dma_index.py (addresses), load_requests.py (AXI bursts),
               load_writer.py (bus words to the scratchpad)
store.py       dma_runs.py, dma_index.py, dma_bursts.py (AXI bursts), store_reader.py
matrix.py      matrix_weights.py, operands.py, array.py: array_elements.py, array_element.py, or as
               loops rtl/systola_array.sv
depthwise.py   depthwise_scan.py, depthwise_weights.py, depthwise_lanes.py, depthwise_write.py
vector.py      vector_issue.py, vector_context.py (settings under way), vector_gather.py,
               vector_schedule.py (when a step may enter), vector_lanes.py (the pipeline),
               vector_alu.py, adders.py, vector_rescale.py, vector_table.py, vector_write.py,
               copies.py, multiplier.py (rtl/systola_multiplier.sv), elements.py
scratchpad.py  banks and who is granted one; spad_share.py: one port for several clients
activity.py    enables for pipelines that may rest, for clock gates
accumulator.py, params.py  the other memories; sram.py: the one class that holds any memory
registers.py   counters.py, faults.py; axi_read_mux.py, axi_tracker.py: the AXI port
"""
