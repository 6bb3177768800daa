// SPDX-License-Identifier: Apache-2.0
// The systolic array: ROWS x COLS weight-stationary processing elements with shadow weights.
//
// Everything moves as one wavefront, which passes a tile of TILE x TILE elements in a cycle: a swap
// flag that enters in cycle t meets element (r, c) in cycle t + r / TILE + c / TILE, and so does the
// selection of a weight; the activation vector beside the flag comes a cycle later. Hence order at
// the inputs is order in every element: weights may enter in the cycle of the swap that frees the
// shadow registers, and a swap in the cycle after the last weight vector.
//
//   wgt: the first vector after a swap stays in row 0, the next in row 1, and so on, or, with
//     wgt_across, in column 0, column 1, ... Those enter from the left, each beside what activations
//     would enter in that cycle. All vectors between two swaps go the same way. An element that has
//     got none holds a weight of 0.
//     WEIGHT_ROWS such vectors enter in a cycle, the first in the lowest bits: they stay in rows 0 to
//     WEIGHT_ROWS - 1, those of the next cycle in the rows behind. A vector that is left over is
//     zeros.
//   swap: beside an activation vector; the shadow weights become current for it and those after.
//   sums: the products of the vector that entered THROUGH cycles ago.
//   tag_o: tag_i of the vector whose sums come two cycles later.
//
// One process with blocking assignments, last tiles first, so that each row still reads the values
// that its upper neighbour held before the clock edge. That describes the same flip-flops as a
// non-blocking element-by-element description and simulates several times faster: a C++ compiler makes
// a few vector instructions of a row. For that, all numbers have a machine's 32 bits in simulation,
// an operand of a tile has a copy for each column, and delay lines lie stage by stage.
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
  localparam int TILE = 2;
  localparam int STAGES = (ROWS + TILE - 1) / TILE;
  localparam int TILES = (COLS + TILE - 1) / TILE;
  localparam int THROUGH = STAGES + TILES + 1;
  localparam int TAG_DELAY = THROUGH - 3;
  localparam int LANES = ROWS > COLS ? ROWS : COLS;
  // Weights enter in so many cycles at most.
  localparam int PLACES = ACROSS != 0 ? LANES : ROWS;
  localparam int GROUPS = (PLACES + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
  // A weight reaches so many rows, or columns, in a cycle.
  localparam int REACH = 32;
  // Cycles that weights of the last row or column wait, at most, and with its lane's way to it.
  localparam int WAIT = late(LANES - 1);
  localparam int SKEW = (LANES - 1) / TILE + WAIT;

  // Cycles that the weights of a row or column wait before they enter: for the swap that makes
  // room, which takes one a tile.
  function automatic int late(input int place);
    late = place / TILE - place / WEIGHT_ROWS;
    if (late < place / REACH) late = place / REACH;
  endfunction

`ifdef VERILATOR
  localparam int OPERAND = 32;
`else
  localparam int OPERAND = 9;
`endif
  typedef logic signed [OPERAND-1:0] operand_t;

  // Stage i of a delay line, then the row or lane.
  operand_t           act_skew [STAGES][ROWS];
  logic               swap_skew [STAGES];
  // A lane of vector v after i + 1 cycles, for column or row, whichever way the vector goes.
  operand_t           wgt_skew [WEIGHT_ROWS][SKEW > 0 ? SKEW : 1][LANES];
  logic [ROWS-1:0]    skew_down [WAIT > 0 ? WAIT : 1];
  logic [COLS-1:0]    skew_across [WAIT > 0 ? WAIT : 1];
  // Whose turn it is: the rows or columns that the next weights stay in, WEIGHT_ROWS of them.
  logic [GROUPS-1:0]  turn;
  operand_t           act_q [ROWS][COLS];
  logic [TILES-1:0]   swap_q [STAGES];
  operand_t           current [ROWS][COLS];
  operand_t           shadow [ROWS][COLS];
  logic [COLS-1:0]    loaded [ROWS];
  // Where a weight from above is taken, tile by tile to the right; and from the left, downwards.
  logic [TILES-1:0]   down_q [ROWS];
  logic [COLS-1:0]    across_q [STAGES];
  logic signed [31:0] sum_q [STAGES][COLS];
  logic signed [31:0] sum_skew [TILES][COLS];
  logic [TAG_BITS-1:0] tag_q [TAG_DELAY > 0 ? TAG_DELAY : 1];
`ifndef VERILATOR
  logic [4:0]         spare;
`endif

  logic [TILES-1:0]   swap_in, down_in;
  logic [COLS-1:0]    across_in, across_now;
  logic [ROWS-1:0]    down_now;
  logic signed [31:0] total;

  always_ff @(posedge clk) begin
    // Outputs leave through registers of their own, from the values before this edge.
    for (int c = 0; c < COLS; c++)
      sums[32*c+:32] <= (c / TILE == TILES - 1) ? sum_q[STAGES-1][c]
                                                : sum_skew[TILES-2-c/TILE][c];
    tag_o <= (TAG_DELAY > 0) ? tag_q[TAG_DELAY-1] : tag_i;
    for (int i = TILES - 2; i > 0; i--)
      for (int c = 0; c < (TILES - 1 - i) * TILE; c++)
        sum_skew[i][c] = sum_skew[i-1][c];
    for (int c = 0; c < COLS; c++) sum_skew[0][c] = sum_q[STAGES-1][c];

    // The selection of each row and column.
    if (swap) turn = 1;
    down_now = '0;
    across_now = '0;
    for (int r = 0; r < ROWS; r++)
      down_now[r] = wgt_valid & ~wgt_across & turn[r/WEIGHT_ROWS];
    for (int c = 0; c < (ACROSS != 0 ? COLS : 0); c++)
      across_now[c] = wgt_valid & wgt_across & turn[c/WEIGHT_ROWS];
    if (wgt_valid) turn = turn << 1;

    for (int s = STAGES - 1; s >= 0; s--) begin
      swap_in = TILES'({swap_q[s], (s == 0) ? swap : swap_skew[s-1]});
      swap_q[s] = swap_in;
      if (ACROSS == 0) across_in = '0;
      else if (s > 0) across_in = across_q[s-1];
      else
        for (int c = 0; c < COLS; c++)
          across_in[c] = (late(c) > 0) ? skew_across[late(c)-1][c] : across_now[c];
      across_q[s] = across_in;
      for (int r = s * TILE; r < s * TILE + TILE && r < ROWS; r++) begin
        for (int c = COLS - 1; c >= TILE; c--) act_q[r][c] = act_q[r][c-TILE];
        for (int c = 0; c < TILE && c < COLS; c++)
          act_q[r][c] = act_skew[s][r];
      end
      for (int c = 0; c < COLS; c++) begin
        total = (s == 0) ? 0 : sum_q[s-1][c];
        for (int r = s * TILE; r < s * TILE + TILE && r < ROWS; r++)
          total = total + 32'(act_q[r][c]) * 32'(current[r][c]);
`ifndef VERILATOR
        // A sum of so many products of 9 bits needs no more: the elements hold these bits only. In
        // 32 bits, those above them repeat the sign.
        spare = 5'(31 - $clog2(((s + 1) * TILE < ROWS ? (s + 1) * TILE : ROWS) * 65536 + 1));
        total = (total <<< spare) >>> spare;
`endif
        sum_q[s][c] = total;
      end
      for (int r = s * TILE; r < s * TILE + TILE && r < ROWS; r++) begin
        if (|swap_in)
          for (int c = 0; c < COLS; c++)
            if (swap_in[c/TILE]) begin
              current[r][c] = loaded[r][c] ? shadow[r][c] : '0;
              loaded[r][c] = 1'b0;
            end
        down_in = TILES'({down_q[r], (late(r) > 0) ? skew_down[late(r)-1][r] : down_now[r]});
        down_q[r] = down_in;
        if (|down_in)
          for (int c = 0; c < COLS; c++)
            if (down_in[c/TILE]) begin
              shadow[r][c] = (c / TILE + late(r) > 0)
                  ? wgt_skew[r%WEIGHT_ROWS][c/TILE+late(r)-1][c]
                  : OPERAND'($signed(wgt[9*(r%WEIGHT_ROWS*LANES+c)+:9]));
              loaded[r][c] = 1'b1;
            end
        if (|across_in)
          for (int c = 0; c < COLS; c++)
            if (across_in[c]) begin
              shadow[r][c] = (s + late(c) > 0)
                  ? wgt_skew[c%WEIGHT_ROWS][s+late(c)-1][r]
                  : OPERAND'($signed(wgt[9*(c%WEIGHT_ROWS*LANES+r)+:9]));
              loaded[r][c] = 1'b1;
            end
      end
    end

    // Skew: a row of activations, and a lane of weights, waits a cycle for each tile before it. The
    // activations wait one more, so that each meets weights that were swapped before.
    for (int i = STAGES - 1; i > 0; i--) begin
      for (int r = i * TILE; r < ROWS; r++) act_skew[i][r] = act_skew[i-1][r];
      swap_skew[i] = swap_skew[i-1];
    end
    for (int r = 0; r < ROWS; r++) act_skew[0][r] = OPERAND'($signed(act[9*r+:9]));
    swap_skew[0] = swap;
    for (int v = 0; v < WEIGHT_ROWS; v++) begin
      for (int i = SKEW - 1; i > 0; i--)
        for (int n = (i + 1 > WAIT) ? (i + 1 - WAIT) * TILE : 0; n < LANES; n++)
          wgt_skew[v][i][n] = wgt_skew[v][i-1][n];
      for (int n = 0; n < LANES; n++)
        wgt_skew[v][0][n] = OPERAND'($signed(wgt[9*(v*LANES+n)+:9]));
    end
    for (int i = WAIT - 1; i > 0; i--) begin
      skew_down[i] = skew_down[i-1];
      skew_across[i] = skew_across[i-1];
    end
    skew_down[0] = down_now;
    skew_across[0] = across_now;
    for (int i = TAG_DELAY - 1; i > 0; i--) tag_q[i] = tag_q[i-1];
    tag_q[0] = tag_i;

    if (rst) begin
      turn = 1;
      for (int i = 0; i < (WAIT > 0 ? WAIT : 1); i++) begin
        skew_down[i] = '0;
        skew_across[i] = '0;
      end
      for (int s = 0; s < STAGES; s++) begin
        swap_skew[s] = 1'b0;
        swap_q[s] = '0;
        across_q[s] = '0;
      end
      for (int r = 0; r < ROWS; r++) begin
        loaded[r] = '0;
        down_q[r] = '0;
      end
      for (int i = 0; i < (TAG_DELAY > 0 ? TAG_DELAY : 1); i++) tag_q[i] = '0;
      tag_o <= '0;
    end
  end
endmodule
