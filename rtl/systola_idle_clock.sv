// SPDX-License-Identifier: Apache-2.0
// For simulation: the clock of a block, which stands still while nothing in the block would change.
// A simulator then evaluates nothing of it.
//
//   works: something in the block may change at the next rising edge; 1 in a reset.
module systola_idle_clock (
    input  logic clk,
    input  logic works,
    output logic gated
);
  logic open;

  always_ff @(negedge clk) open <= works;
  assign gated = clk & open;
endmodule
