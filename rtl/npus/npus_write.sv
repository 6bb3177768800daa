// SPDX-License-Identifier: Apache-2.0
// The write channels of N NPUs to one memory port whose words are K bus words wide.
//
// The data of a burst are collected in the queue of its NPU, as memory words. A burst that is
// complete takes its turn; its words then follow one another without a gap, so that memory never
// waits for an NPU. All writes have id 0 and are answered in their order.
module npus_write #(
    parameter int N         = 2,
    parameter int K         = 1,
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 16,
    parameter int WORDS     = 64,  // of an NPU's queue, a power of two; a burst must fit
    parameter int BURSTS    = 64   // unanswered, a power of two
) (
    input  logic                          clk,
    input  logic                          rst,
    input  logic [N-1:0]                  s_awvalid,
    output logic [N-1:0]                  s_awready,
    input  logic [N-1:0][ADDR_BITS-1:0]   s_awaddr,
    input  logic [N-1:0][7:0]             s_awlen,
    input  logic [N-1:0]                  s_wvalid,
    output logic [N-1:0]                  s_wready,
    input  logic [N-1:0][8*BUS_BYTES-1:0] s_wdata,
    input  logic [N-1:0][BUS_BYTES-1:0]   s_wstrb,
    input  logic [N-1:0]                  s_wlast,
    output logic [N-1:0]                  s_bvalid,
    input  logic [N-1:0]                  s_bready,
    output logic [1:0]                    s_bresp,
    output logic                          m_awvalid,
    input  logic                          m_awready,
    output logic [ADDR_BITS-1:0]          m_awaddr,
    output logic [7:0]                    m_awlen,
    output logic                          m_wvalid,
    input  logic                          m_wready,
    output logic [8*K*BUS_BYTES-1:0]      m_wdata,
    output logic [K*BUS_BYTES-1:0]        m_wstrb,
    output logic                          m_wlast,
    input  logic                          m_bvalid,
    output logic                          m_bready,
    input  logic [1:0]                    m_bresp
);
  localparam int LANES     = K > 1 ? $clog2(K) : 1;
  localparam int LOW       = $clog2(BUS_BYTES);
  localparam int SHIFT     = $clog2(K);
  localparam int ADDRESSES = 4;  // of an NPU, waiting for their data or their turn

  typedef struct packed {
    logic [ADDR_BITS-1:0] addr;
    logic [7:0]           len;
  } address_t;

  typedef struct packed {
    logic [8*K*BUS_BYTES-1:0] data;
    logic [K*BUS_BYTES-1:0]   strb;
    logic                     last;
  } word_t;

  logic [N-1:0] request, grant, sent, filled;
  address_t     burst[N];  // the oldest address of each NPU
  word_t        word[N];   // and its next word
  logic         go, open, order_room, answer_room;

  for (genvar i = 0; i < N; i++) begin : g_collect
    logic             collecting, known, ends, room, push, complete;
    logic             lane_room, address_room, moved;
    logic [LANES-1:0] first, begun, lane, at;  // begun: first lane of the burst that is collected
    word_t            partial, full;
    logic [$clog2(ADDRESSES):0] ready_bursts;  // complete, and not sent

    // An address is kept until its burst is sent, its lane until the burst is collected.
    assign s_awready[i] = lane_room && address_room;
    npus_fifo #(.WIDTH(LANES), .DEPTH(ADDRESSES)) lanes (
        .clk, .rst, .i_valid(s_awvalid[i] && s_awready[i]), .i_ready(lane_room),
        .i_data(first), .o_valid(collecting), .o_ready(complete), .o_data(begun));
    npus_fifo #(.WIDTH($bits(address_t)), .DEPTH(ADDRESSES)) addresses (
        .clk, .rst, .i_valid(s_awvalid[i] && s_awready[i]), .i_ready(address_room),
        .i_data({s_awaddr[i], s_awlen[i]}), .o_valid(known), .o_ready(go && grant[i]),
        .o_data(burst[i]));

    if (K > 1) begin : g_wide
      assign first = s_awaddr[i][LOW+:LANES];
    end else begin : g_narrow
      assign first = '0;
    end
    assign at          = moved ? lane : begun;
    assign ends        = s_wlast[i] || at == LANES'(K - 1);
    assign s_wready[i] = collecting && room;
    assign push        = s_wvalid[i] && s_wready[i] && ends;
    assign complete    = s_wvalid[i] && s_wready[i] && s_wlast[i];
    always_comb begin
      full = partial;
      full.data[32'(at)*8*BUS_BYTES+:8*BUS_BYTES] = s_wdata[i];
      full.strb[32'(at)*BUS_BYTES+:BUS_BYTES]     = s_wstrb[i];
      full.last                                   = s_wlast[i];
    end
    npus_fifo #(.WIDTH($bits(word_t)), .DEPTH(WORDS)) queue (
        .clk, .rst, .i_valid(push), .i_ready(room), .i_data(full),
        .o_valid(filled[i]), .o_ready(sent[i]), .o_data(word[i]));

    assign request[i] = ready_bursts != 0 && known;
    always_ff @(posedge clk)
      if (rst) begin
        moved        <= 1'b0;
        partial      <= '0;
        ready_bursts <= '0;
      end else begin
        ready_bursts <= ready_bursts + 1'(complete) - 1'(go && grant[i]);
        if (s_wvalid[i] && s_wready[i]) begin
          moved   <= !s_wlast[i];
          lane    <= ends ? '0 : at + 1'b1;
          partial <= ends ? '0 : full;
        end
      end
  end

  // The turn of a burst: its address now, its words in the order of addresses.
  npus_round_robin #(.N(N)) arbiter (.clk, .rst, .request, .taken(go), .grant);
  assign open = (!m_awvalid || m_awready) && order_room && answer_room;
  assign go   = open && |request;

  address_t granted;
  always_comb begin
    granted = '0;
    for (int i = 0; i < N; i++) if (grant[i]) granted = burst[i];
  end
  logic [8:0] bound;  // of the last bus word, from the first memory word on
  if (K > 1) begin : g_bound
    assign bound = 9'(granted.addr[LOW+:LANES]) + 9'(granted.len);
  end else begin : g_len
    assign bound = 9'(granted.len);
  end
  always_ff @(posedge clk)
    if (rst) m_awvalid <= 1'b0;
    else if (!m_awvalid || m_awready) begin
      m_awvalid <= go;
      m_awaddr  <= granted.addr >> (LOW + SHIFT) << (LOW + SHIFT);
      m_awlen   <= 8'(bound >> SHIFT);
    end

  logic         sending, answering;
  logic [N-1:0] sender, answered;
  npus_fifo #(.WIDTH(N), .DEPTH(4)) order (
      .clk, .rst, .i_valid(go), .i_ready(order_room), .i_data(grant),
      .o_valid(sending), .o_ready(m_wvalid && m_wready && m_wlast), .o_data(sender));
  npus_fifo #(.WIDTH(N), .DEPTH(BURSTS)) answers (
      .clk, .rst, .i_valid(go), .i_ready(answer_room), .i_data(grant),
      .o_valid(answering), .o_ready(m_bvalid && m_bready), .o_data(answered));

  word_t chosen;
  always_comb begin
    chosen = '0;
    for (int i = 0; i < N; i++) if (sender[i]) chosen = word[i];
  end
  assign m_wvalid = sending && |(filled & sender);
  assign m_wdata  = chosen.data;
  assign m_wstrb  = chosen.strb;
  assign m_wlast  = chosen.last;
  assign sent     = m_wvalid && m_wready ? sender : '0;

  assign s_bvalid = m_bvalid && answering ? answered : '0;
  assign s_bresp  = m_bresp;
  assign m_bready = answering && |(s_bready & answered);
endmodule
