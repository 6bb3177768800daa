// SPDX-License-Identifier: Apache-2.0
// The systolic array: ROWS x COLS weight-stationary processing elements with shadow weights.
//
// Everything moves as one wavefront: an activation vector that enters in cycle t meets element
// (r, c) in cycle t + r + c, and so do the swap flag beside it and a weight vector. Hence order at
// the inputs is order in every element: weights may enter in the cycle of the swap that frees the
// shadow registers, and a swap in the cycle after the last weight vector.
//
//   wgt: the first vector after a swap stays in row 0, the next in row 1, and so on, or, with
//     wgt_across, in column 0, column 1, ... Those enter from the left, each beside what activations
//     would enter in that cycle. All vectors between two swaps go the same way. An element that has
//     got none holds a weight of 0.
//     WEIGHT_ROWS such vectors enter in a cycle, the first in the lowest bits: they stay in rows 0 to
//     WEIGHT_ROWS - 1, those of the next cycle in the rows behind. They go on by WEIGHT_ROWS rows (or
//     columns) at once, and as slowly as the swap before them. A vector that is left over is zeros.
//   swap: beside an activation vector; the shadow weights become current for it and those after.
//   sums: the products of the vector that entered ROWS + COLS cycles ago.
//   tag_o: tag_i of the vector whose sums come two cycles later.
//
// One process with blocking assignments, last row first, so that each row still reads the values
// that its upper neighbour held before the clock edge. That describes the same flip-flops as a
// non-blocking element-by-element description and simulates several times faster: a C++ compiler makes
// a few vector instructions of a row. For that, all numbers have a machine's 32 bits in simulation,
// and delay lines lie stage by stage.
module systola_array #(
    parameter int ROWS = 16,
    parameter int COLS = 16,
    parameter int TAG_BITS = 8,
    // Whether wgt_across may be 1.
    parameter int ACROSS = 1,
    // Weight vectors in a cycle, at most ROWS.
    parameter int WEIGHT_ROWS = 1
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [9*ROWS-1:0]      act,
    input  logic                   swap,
    input  logic [TAG_BITS-1:0]    tag_i,
    input  logic                   wgt_valid,
    input  logic                   wgt_across,
    input  logic [9*(ROWS > COLS ? ROWS : COLS)*WEIGHT_ROWS-1:0] wgt,
    output logic [32*COLS-1:0]     sums,
    output logic [TAG_BITS-1:0]    tag_o
);
  localparam int TAG_DELAY = ROWS + COLS - 3;
  localparam int LANES = ROWS > COLS ? ROWS : COLS;
  // Cycles after which a vector's last lane enters, and those that a weight which goes on waits.
  localparam int SKEW = LANES + WEIGHT_ROWS - 1;
  localparam int WAIT = WEIGHT_ROWS > 2 ? WEIGHT_ROWS - 2 : 0;

`ifdef VERILATOR
  localparam int OPERAND = 32;
`else
  localparam int OPERAND = 9;
`endif
  typedef logic signed [OPERAND-1:0] operand_t;

  // Stage i of a delay line, then the row or lane.
  operand_t           act_skew [ROWS][ROWS];
  logic               swap_skew [ROWS];
  // Lane i of vector v after i + v cycles, for column i or row i, whichever way the vector goes.
  operand_t           wgt_skew [WEIGHT_ROWS][SKEW][LANES];
  logic [COLS+WEIGHT_ROWS-2:0] skew_down;
  logic [ROWS+WEIGHT_ROWS-2:0] skew_across;
  operand_t           act_q [ROWS][COLS];
  logic [COLS-1:0]    swap_q [ROWS];
  operand_t           current [ROWS][COLS];
  operand_t           shadow [ROWS][COLS];
  logic [COLS-1:0]    loaded [ROWS];
  // A weight that passes an element goes on down or across: one at a time, as it came.
  operand_t           passing [ROWS][COLS];
  logic [COLS-1:0]    down [ROWS];
  logic [COLS-1:0]    across [ROWS];
  // The same, WAIT cycles late.
  operand_t           passing_late [WAIT > 0 ? WAIT : 1][ROWS][COLS];
  logic [COLS-1:0]    down_late [WAIT > 0 ? WAIT : 1][ROWS];
  logic [COLS-1:0]    across_late [WAIT > 0 ? WAIT : 1][ROWS];
  logic signed [31:0] sum_q [ROWS][COLS];
  logic signed [31:0] sum_skew [COLS][COLS];
  logic [TAG_BITS-1:0] tag_q [TAG_DELAY];
`ifndef VERILATOR
  logic [4:0]         spare;
`endif

  operand_t           wgt_in [COLS], leaving [COLS];
  logic [COLS-1:0]    swap_in, free, take, down_in, across_in;

  always_ff @(posedge clk) begin
    // Outputs leave through registers of their own, from the values before this edge.
    for (int c = 0; c < COLS; c++)
      sums[32*c+:32] <= (c == COLS - 1) ? sum_q[ROWS-1][c] : sum_skew[COLS-2-c][c];
    tag_o <= tag_q[TAG_DELAY-1];
    for (int i = COLS - 2; i > 0; i--)
      for (int c = 0; c < COLS - 1 - i; c++) sum_skew[i][c] = sum_skew[i-1][c];
    for (int c = 0; c < COLS - 1; c++) sum_skew[0][c] = sum_q[ROWS-1][c];

    for (int r = ROWS - 1; r >= 0; r--) begin
      for (int c = COLS - 1; c > 0; c--) act_q[r][c] = act_q[r][c-1];
      act_q[r][0] = (r == 0) ? OPERAND'($signed(act[0+:9])) : act_skew[r-1][r];
      swap_in = COLS'({swap_q[r], (r == 0) ? swap : swap_skew[r-1]});
      swap_q[r] = swap_in;
      if (|swap_in)
        for (int c = 0; c < COLS; c++)
          if (swap_in[c]) current[r][c] = loaded[r][c] ? shadow[r][c] : '0;
`ifdef VERILATOR
      for (int c = 0; c < COLS; c++)
        sum_q[r][c] = ((r == 0) ? 0 : sum_q[r-1][c]) + act_q[r][c] * current[r][c];
`else
      // A sum of r + 1 products of 9 bits needs no more: the elements hold these bits only. In 32
      // bits, those above them repeat the sign.
      spare = 5'(31 - $clog2((r + 1) * 65536 + 1));
      for (int c = 0; c < COLS; c++)
        sum_q[r][c] = ((((r == 0) ? 0 : sum_q[r-1][c]) + 32'(act_q[r][c]) * 32'(current[r][c]))
                       <<< spare) >>> spare;
`endif

      down_in = (r < WEIGHT_ROWS) ? COLS'({skew_down, wgt_valid & ~wgt_across} >> r)
              : (WAIT > 0) ? down_late[WAIT-1][r-WEIGHT_ROWS] : down[r-WEIGHT_ROWS];
      across_in = ACROSS != 0
          ? COLS'({(WAIT > 0) ? across_late[WAIT-1][r] : across[r],
                   WEIGHT_ROWS'({skew_across, wgt_valid & wgt_across} >> r)}) : '0;
      for (int c = 0; c < (WAIT > 0 ? COLS : 0); c++) leaving[c] = passing_late[WAIT-1][r][c];
      for (int i = WAIT - 1; i >= 0; i--) begin
        down_late[i][r] = (i > 0) ? down_late[i-1][r] : down[r];
        across_late[i][r] = (i > 0) ? across_late[i-1][r] : across[r];
        for (int c = 0; c < COLS; c++)
          passing_late[i][r][c] = (i > 0) ? passing_late[i-1][r][c] : passing[r][c];
      end
      free = ~loaded[r] | swap_in;
      take = (down_in | across_in) & free;
      loaded[r] = ~free | take;
      down[r] = down_in & ~take;
      across[r] = across_in & ~take;
      if (|(down_in | across_in)) begin
        if (r == 0) begin
          wgt_in[0] = OPERAND'($signed(wgt[0+:9]));
          for (int c = 1; c < COLS; c++) wgt_in[c] = wgt_skew[0][c-1][c];
        end else if (r < WEIGHT_ROWS)
          for (int c = 0; c < COLS; c++) wgt_in[c] = wgt_skew[r][c+r-1][c];
        else
          for (int c = 0; c < COLS; c++)
            wgt_in[c] = (WAIT > 0) ? passing_late[WAIT-1][r-WEIGHT_ROWS][c]
                                   : passing[r-WEIGHT_ROWS][c];
        if (|across_in)
          for (int c = 0; c < COLS; c++)
            if (across_in[c])
              wgt_in[c] = (c < WEIGHT_ROWS)
                        ? ((r + c > 0) ? wgt_skew[c][r+c-1][r] : OPERAND'($signed(wgt[0+:9])))
                        : (WAIT > 0) ? leaving[c-WEIGHT_ROWS] : passing[r][c-WEIGHT_ROWS];
        for (int c = 0; c < COLS; c++) begin
          if (take[c]) shadow[r][c] = wgt_in[c];
          if (down_in[c] | across_in[c]) passing[r][c] = wgt_in[c];
        end
      end
    end

    // Skew: row r of the activations is delayed by r cycles, lane i of the weights by i.
    for (int i = ROWS - 2; i > 0; i--)
      for (int r = i + 1; r < ROWS; r++) act_skew[i][r] = act_skew[i-1][r];
    for (int r = 1; r < ROWS; r++) act_skew[0][r] = OPERAND'($signed(act[9*r+:9]));
    for (int r = ROWS - 1; r > 0; r--) swap_skew[r] = swap_skew[r-1];
    swap_skew[0] = swap;
    for (int v = 0; v < WEIGHT_ROWS; v++) begin
      for (int i = LANES + v - 2; i > 0; i--)
        for (int n = (i + 1 > v) ? i + 1 - v : 0; n < LANES; n++)
          wgt_skew[v][i][n] = wgt_skew[v][i-1][n];
      for (int n = (v == 0) ? 1 : 0; n < LANES; n++)
        wgt_skew[v][0][n] = OPERAND'($signed(wgt[9*(v*LANES+n)+:9]));
    end
    skew_down = (COLS + WEIGHT_ROWS - 1)'({skew_down, wgt_valid & ~wgt_across});
    skew_across = (ROWS + WEIGHT_ROWS - 1)'({skew_across, wgt_valid & wgt_across});
    for (int i = TAG_DELAY - 1; i > 0; i--) tag_q[i] = tag_q[i-1];
    tag_q[0] = tag_i;

    if (rst) begin
      skew_down = '0;
      skew_across = '0;
      for (int r = 0; r < ROWS; r++) begin
        swap_skew[r] = 1'b0;
        swap_q[r] = '0;
        loaded[r] = '0;
        down[r] = '0;
        across[r] = '0;
        for (int i = 0; i < WAIT; i++) begin
          down_late[i][r] = '0;
          across_late[i][r] = '0;
        end
      end
      for (int i = 0; i < TAG_DELAY; i++) tag_q[i] = '0;
      tag_o <= '0;
    end
  end
endmodule
