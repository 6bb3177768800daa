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
  // A whole word is written at once: Verilator needs an eighth of the time for it. The mask is worked
  // out only then. Tests prove that both forms are the same.
  function automatic logic [WIDTH-1:0] mask(input logic [WIDTH/GRANULARITY-1:0] enables);
    for (int i = 0; i < WIDTH / GRANULARITY; i++)
      mask[i*GRANULARITY+:GRANULARITY] = {GRANULARITY{enables[i]}};
  endfunction

  always_ff @(posedge clk) begin
    if (r_en) r_data <= mem[r_addr];
    if (|w_en)
      mem[w_addr] <= (GRANULARITY == WIDTH || &w_en)
          ? w_data : (w_data & mask(w_en)) | (mem[w_addr] & ~mask(w_en));
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
