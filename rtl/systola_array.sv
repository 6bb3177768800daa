// The systolic array: ROWS x COLS weight-stationary processing elements with shadow weights.
//
// Everything moves as one wavefront: an activation vector that enters in cycle t meets element
// (r, c) in cycle t + r + c, and so do the swap flag beside it and a weight vector. Hence order at
// the inputs is order in every element: weights may enter in the cycle of the swap that frees the
// shadow registers, and a swap in the cycle after the last weight vector.
//
//   wgt: the first vector after a swap stays in row 0, the next in row 1, and so on.
//   swap: beside an activation vector; the shadow weights become current for it and those after.
//   sums: the products of the vector that entered ROWS + COLS cycles ago.
//   tag_o: tag_i of the vector whose sums come in the next cycle.
//
// One process with blocking assignments, last row first, so that each row still reads the values
// that its upper neighbour held before the clock edge. That describes the same flip-flops as a
// non-blocking element-by-element description and simulates several times faster.
module systola_array #(
    parameter int ROWS = 16,
    parameter int COLS = 16,
    parameter int TAG_BITS = 8
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [9*ROWS-1:0]      act,
    input  logic                   swap,
    input  logic [TAG_BITS-1:0]    tag_i,
    input  logic                   wgt_valid,
    input  logic [9*COLS-1:0]      wgt,
    output logic [32*COLS-1:0]     sums,
    output logic [TAG_BITS-1:0]    tag_o
);
  localparam int TAG_DELAY = ROWS + COLS - 2;

  logic signed [8:0]  act_skew [ROWS][ROWS];
  logic               swap_skew [ROWS];
  logic signed [8:0]  wgt_skew [COLS][COLS];
  logic [COLS-1:0]    wgt_skew_valid;
  logic signed [8:0]  act_q [ROWS][COLS];
  logic [COLS-1:0]    swap_q [ROWS];
  logic signed [8:0]  current [ROWS][COLS];
  logic signed [8:0]  shadow [ROWS][COLS];
  logic [COLS-1:0]    loaded [ROWS];
  logic signed [8:0]  down [ROWS][COLS];
  logic [COLS-1:0]    down_valid [ROWS];
  logic signed [31:0] sum_q [ROWS][COLS];
  logic signed [31:0] sum_skew [COLS][COLS];
  logic [TAG_BITS-1:0] tag_q [TAG_DELAY];

  logic signed [8:0]  act_in [COLS];
  logic signed [8:0]  wgt_in [COLS];
  logic [COLS-1:0]    swap_in, free, take, valid_in;

  always_ff @(posedge clk) begin
    // Outputs leave through registers of their own, from the values before this edge.
    for (int c = 0; c < COLS; c++)
      sums[32*c+:32] <= (c == COLS - 1) ? sum_q[ROWS-1][c] : sum_skew[c][COLS-2-c];
    tag_o <= tag_q[TAG_DELAY-1];
    for (int c = 0; c < COLS - 1; c++) begin
      for (int i = COLS - 2 - c; i > 0; i--) sum_skew[c][i] = sum_skew[c][i-1];
      sum_skew[c][0] = sum_q[ROWS-1][c];
    end

    for (int r = ROWS - 1; r >= 0; r--) begin
      act_in[0] = (r == 0) ? act[0+:9] : act_skew[r][r-1];
      for (int c = 1; c < COLS; c++) act_in[c] = act_q[r][c-1];
      swap_in = COLS'({swap_q[r], (r == 0) ? swap : swap_skew[r-1]});
      swap_q[r] = swap_in;
      if (|swap_in)
        for (int c = 0; c < COLS; c++) if (swap_in[c]) current[r][c] = shadow[r][c];
      for (int c = 0; c < COLS; c++) begin
        act_q[r][c] = act_in[c];
        sum_q[r][c] = ((r == 0) ? 0 : sum_q[r-1][c]) + 32'(act_in[c]) * 32'(current[r][c]);
      end

      if (r == 0) begin
        valid_in = COLS'({wgt_skew_valid, wgt_valid});
        wgt_in[0] = wgt[0+:9];
        for (int c = 1; c < COLS; c++) wgt_in[c] = wgt_skew[c][c-1];
      end else begin
        valid_in = down_valid[r-1];
        for (int c = 0; c < COLS; c++) wgt_in[c] = down[r-1][c];
      end
      free = ~loaded[r] | swap_in;
      take = valid_in & free;
      loaded[r] = ~free | take;
      down_valid[r] = valid_in & ~take;
      if (|valid_in)
        for (int c = 0; c < COLS; c++) begin
          if (take[c]) shadow[r][c] = wgt_in[c];
          down[r][c] = wgt_in[c];
        end
    end

    // Skew: row r of the activations is delayed by r cycles, column c of the weights by c.
    for (int r = ROWS - 1; r > 0; r--) begin
      for (int i = r - 1; i > 0; i--) act_skew[r][i] = act_skew[r][i-1];
      act_skew[r][0] = act[9*r+:9];
    end
    for (int r = ROWS - 1; r > 0; r--) swap_skew[r] = swap_skew[r-1];
    swap_skew[0] = swap;
    for (int c = COLS - 1; c > 0; c--) begin
      for (int i = c - 1; i > 0; i--) wgt_skew[c][i] = wgt_skew[c][i-1];
      wgt_skew[c][0] = wgt[9*c+:9];
    end
    wgt_skew_valid = COLS'({wgt_skew_valid, wgt_valid});
    for (int i = TAG_DELAY - 1; i > 0; i--) tag_q[i] = tag_q[i-1];
    tag_q[0] = tag_i;

    if (rst) begin
      wgt_skew_valid = '0;
      for (int r = 0; r < ROWS; r++) begin
        swap_skew[r] = 1'b0;
        swap_q[r] = '0;
        loaded[r] = '0;
        down_valid[r] = '0;
      end
      for (int i = 0; i < TAG_DELAY; i++) tag_q[i] = '0;
      tag_o <= '0;
    end
  end
endmodule
