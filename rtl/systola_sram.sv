// SPDX-License-Identifier: Apache-2.0
// On-chip memory: one read and one write a cycle, both clocked; replace by a macro for silicon.
// What a read in the cycle of a write to the same word gives does not matter: see Sram in
// hw_gen/blocks/sram.py. Here it is the old contents.
module systola_sram #(
    parameter int DEPTH = 16,
    parameter int WIDTH = 32,
    parameter int GRANULARITY = 32
) (
    input  logic                           clk,
    input  logic                           r_en,
    input  logic [$clog2(DEPTH)-1:0]       r_addr,
    output logic [WIDTH-1:0]               r_data,
    input  logic [WIDTH/GRANULARITY-1:0]   w_en,
    input  logic [$clog2(DEPTH)-1:0]       w_addr,
    input  logic [WIDTH-1:0]               w_data
);
  // Without the attribute Yosys puts registers and multiplexers around a block RAM of an FPGA, so
  // that such a read gives the old contents.
  (* no_rw_check *) logic [WIDTH-1:0] mem [DEPTH];

`ifdef VERILATOR
  // A whole word is written at once: Verilator needs an eighth of the time for it. Tests prove
  // that both forms are the same.
  logic [WIDTH-1:0] written;

  if (GRANULARITY == WIDTH) begin : gen_words
    assign written = w_data;
  end else begin : gen_parts
    logic [WIDTH-1:0] mask;

    always_comb
      for (int i = 0; i < WIDTH / GRANULARITY; i++)
        mask[i*GRANULARITY+:GRANULARITY] = {GRANULARITY{w_en[i]}};
    assign written = (w_data & mask) | (mem[w_addr] & ~mask);
  end

  always_ff @(posedge clk) begin
    if (r_en) r_data <= mem[r_addr];
    if (|w_en) mem[w_addr] <= written;
  end
`else
  // Enables by part of a word, as FPGA tools know them: the form above reads what it writes to,
  // a second read port without a clock, and no block RAM has one.
  always_ff @(posedge clk) begin
    if (r_en) r_data <= mem[r_addr];
    for (int i = 0; i < WIDTH / GRANULARITY; i++)
      if (w_en[i])
        mem[w_addr][i*GRANULARITY+:GRANULARITY] <= w_data[i*GRANULARITY+:GRANULARITY];
  end
`endif
endmodule
