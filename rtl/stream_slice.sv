// SPDX-License-Identifier: Apache-2.0
// A register between two valid/ready neighbours: no combinational path from either side.
// One word every two cycles; enough for registers, and it keeps the outside world's signals away
// from the design's logic, which a simulator would otherwise evaluate a second time every cycle.
module stream_slice #(
    parameter int WIDTH = 1
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
  assign i_ready = !o_valid;
  always_ff @(posedge clk)
    if (rst) o_valid <= 1'b0;
    else if (o_valid) o_valid <= !o_ready;
    else if (i_valid) begin
      o_valid <= 1'b1;
      o_data  <= i_data;
    end
endmodule
