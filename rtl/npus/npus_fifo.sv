// SPDX-License-Identifier: Apache-2.0
// A queue of DEPTH items, a power of two. An item can be taken in the cycle after it came.
module npus_fifo #(
    parameter int WIDTH = 1,
    parameter int DEPTH = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             i_valid,
    output logic             i_ready,
    input  logic [WIDTH-1:0] i_data,
    output logic             o_valid,
    input  logic             o_ready,
    output logic [WIDTH-1:0] o_data
);
  localparam int BITS = $clog2(DEPTH);

  logic [WIDTH-1:0] items[DEPTH];
  logic [BITS:0]    written, read;

  assign i_ready = written - read != (BITS + 1)'(DEPTH);
  assign o_valid = written != read;
  assign o_data  = items[read[BITS-1:0]];

  always_ff @(posedge clk) begin
    if (i_valid && i_ready) items[written[BITS-1:0]] <= i_data;
    if (rst) begin
      written <= '0;
      read    <= '0;
    end else begin
      written <= written + (BITS + 1)'(i_valid && i_ready);
      read    <= read + (BITS + 1)'(o_valid && o_ready);
    end
  end
endmodule
