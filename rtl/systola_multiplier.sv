// SPDX-License-Identifier: Apache-2.0
// The product of two signed numbers, a new one each cycle, a cycle later.
//
// The register holds two numbers, sum and carries; what adds them follows it.
module systola_multiplier #(
    // Even, at least 4.
    parameter int WIDTH = 32
) (
    input  logic                      clk,
    input  logic signed [WIDTH-1:0]   a,
    input  logic signed [WIDTH-1:0]   b,
    output logic signed [2*WIDTH-1:0] product
);
`ifdef VERILATOR
  `define SYSTOLA_MULTIPLY
`endif
`ifdef SYSTOLA_MULTIPLY
  // For simulators, and for FPGAs, which have multipliers. Tests prove that both forms are the same.
  always_ff @(posedge clk) product <= a * b;
`else
  localparam int DIGITS = WIDTH / 2;
  localparam int ROWS = DIGITS + 1;
  localparam int BITS = 2 * WIDTH;

  // Rows that are left after `level` levels of adders, each of which makes two rows of three.
  function automatic int rows_at(input int level);
    rows_at = ROWS;
    for (int i = 0; i < level; i++) rows_at = rows_at - rows_at / 3;
  endfunction

  function automatic int count_levels(input int unused);
    count_levels = 0;
    for (int i = 0; i < ROWS; i++) if (rows_at(i) > 2) count_levels = i + 1;
  endfunction

  localparam int LEVELS = count_levels(0);

  // Every row of every level, side by side.
  logic [BITS*ROWS*(LEVELS+1)-1:0] rows;
  logic [DIGITS-1:0] negative;

  // Radix-4 Booth digits of b: -2..2 times a. A negative row is inverted, and 1 added at its place
  // in the next row. Rows are not sign-extended: the inverted sign is a bit, and a constant row
  // takes away what that adds.
  function automatic logic [BITS-1:0] signs(input int unused);
    signs = '0;
    for (int i = 0; i < DIGITS; i++) signs = signs - (BITS'(1) << (WIDTH + 2 * i));
  endfunction

  for (genvar i = 0; i < DIGITS; i++) begin : digit
    logic below, one, two;
    logic [WIDTH:0] multiple;
    assign below       = i == 0 ? 1'b0 : b[(i==0?0:2*i-1)];
    assign one         = b[2*i] ^ below;
    assign two         = b[2*i+1] ? ~b[2*i] & ~below : b[2*i] & below;
    assign negative[i] = b[2*i+1];
    assign multiple    = (({(WIDTH+1){one}} & {a[WIDTH-1], a}) | ({(WIDTH+1){two}} & {a, 1'b0}))
                         ^ {(WIDTH+1){negative[i]}};
    if (i == 0)
      assign rows[0+:BITS] = BITS'({~multiple[WIDTH], multiple[WIDTH-1:0]});
    else
      assign rows[BITS*i+:BITS] = (BITS'({~multiple[WIDTH], multiple[WIDTH-1:0]}) << (2 * i))
                                  | (BITS'(negative[i-1]) << (2 * i - 2));
  end
  assign rows[BITS*DIGITS+:BITS] = signs(0) | (BITS'(negative[DIGITS-1]) << (2 * DIGITS - 2));

  for (genvar l = 0; l < LEVELS; l++) begin : level
    for (genvar k = 0; k < rows_at(l); k++) begin : row
      if (k % 3 == 0 && k + 2 < rows_at(l)) begin : adder
        logic [BITS-1:0] x, y, z;
        assign x = rows[BITS*(ROWS*l+k)+:BITS];
        assign y = rows[BITS*(ROWS*l+k+1)+:BITS];
        assign z = rows[BITS*(ROWS*l+k+2)+:BITS];
        assign rows[BITS*(ROWS*(l+1)+k/3*2)+:BITS]   = x ^ y ^ z;
        assign rows[BITS*(ROWS*(l+1)+k/3*2+1)+:BITS] = ((x & y) | (z & (x ^ y))) << 1;
      end else if (k / 3 * 3 + 2 >= rows_at(l)) begin : rest
        assign rows[BITS*(ROWS*(l+1)+k/3*2+k%3)+:BITS] = rows[BITS*(ROWS*l+k)+:BITS];
      end
    end
  end

  logic [BITS-1:0] sum, carries;

  always_ff @(posedge clk) begin
    sum     <= rows[BITS*ROWS*LEVELS+:BITS];
    carries <= rows[BITS*(ROWS*LEVELS+1)+:BITS];
  end

  // Carry select: each part is added without and with a carry, which chooses.
  localparam int PART = (BITS + 4) / 5;
  localparam int PARTS = (BITS + PART - 1) / PART;
  logic [PARTS:0] carry;
  assign carry[0] = 1'b0;
  for (genvar p = 0; p < PARTS; p++) begin : part
    localparam int LOW = PART * p;
    localparam int SIZE = LOW + PART <= BITS ? PART : BITS - LOW;
    logic [SIZE:0] without, with_carry;
    assign without    = {1'b0, sum[LOW+:SIZE]} + {1'b0, carries[LOW+:SIZE]};
    assign with_carry = {1'b0, sum[LOW+:SIZE]} + {1'b0, carries[LOW+:SIZE]} + 1'b1;
    assign {carry[p+1], product[LOW+:SIZE]} = carry[p] ? with_carry : without;
  end
`endif
endmodule
