// SPDX-License-Identifier: Apache-2.0
// Chooses one of `request`: the next one behind the last that was taken.
module npus_round_robin #(
    parameter int N = 2
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [N-1:0] request,
    input  logic         taken,   // what `grant` names is done in this cycle
    output logic [N-1:0] grant    // one bit, or none
);
  logic [N-1:0] behind, later, from;  // behind: requesters after the last one taken

  assign later = request & behind;
  assign from  = |later ? later : request;
  assign grant = from & (~from + 1'b1);

  always_ff @(posedge clk)
    if (rst) behind <= '1;
    else if (taken) behind <= ~(grant | (grant - 1'b1));
endmodule
