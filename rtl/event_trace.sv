// SPDX-License-Identifier: Apache-2.0
// Writes what every engine does to a file that Python reads (sw/measure/profile/trace.py): a record when an
// engine's state or instruction changes, when it posts, and at the end of the run; and at each post of
// LOAD how many bus words it has read since the last one. Off unless the simulator is started with
// +events=FILE; the file holds the last run.
module event_trace (
    input logic         clk,
    input logic         run,
    input logic         read,         // LOAD takes a word from the bus
    input logic [31:0]  stall,        // 8 engines x 4 bits: spec.memmap.Stall
    input logic [159:0] index,        // 8 x 20 bits: the instruction that the engine is at
    input logic [15:0]  post,         // 16 ports: a post is made
    input logic [63:0]  post_engine,  // 16 x 4 bits
    input logic [319:0] post_index    // 16 x 20 bits: the instruction that it belongs to
);
    import "DPI-C" function chandle dpi_events_open(input string path);
    import "DPI-C" function void dpi_events_begin(input chandle file);
    import "DPI-C" function void dpi_events_put(input chandle file, input longint record);
    import "DPI-C" function void dpi_events_end(input chandle file);

    localparam bit [3:0] POST = 15, LAST = 14, READ = 13, LOAD = 1;

    chandle       file;
    bit           enabled, running;
    bit [35:0]    cycle;
    bit [19:0]    words;
    logic [31:0]  stall_before;
    logic [159:0] index_before;

    initial begin
        string path;
        if ($value$plusargs("events=%s", path)) begin
            file = dpi_events_open(path);
            enabled = 1;
        end
    end

    function automatic void put(input bit [3:0] kind, input bit [3:0] engine, input bit [19:0] at);
        dpi_events_put(file, {kind, engine, at, cycle});
    endfunction

    always_ff @(posedge clk) if (enabled) begin
        automatic bit tell = &words;
        running <= run;
        cycle <= run ? cycle + 1 : 0;
        if (run) begin
            if (!running) dpi_events_begin(file);
            for (int e = 0; e < 8; ++e)
                if (!running || stall[4*e+:4] != stall_before[4*e+:4] ||
                    index[20*e+:20] != index_before[20*e+:20])
                    put(stall[4*e+:4], e[3:0], index[20*e+:20]);
            for (int p = 0; p < 16; ++p)
                if (post[p]) begin
                    put(POST, post_engine[4*p+:4], post_index[20*p+:20]);
                    tell |= post_engine[4*p+:4] == LOAD;
                end
            if (tell && words != 0) put(READ, LOAD, words);
            words <= (tell || !running ? 0 : words) + 20'(read);
            stall_before <= stall;
            index_before <= index;
        end else if (running) begin
            if (words != 0) put(READ, LOAD, words);
            put(LAST, 0, 0);
            dpi_events_end(file);
        end
    end
endmodule
