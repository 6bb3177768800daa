// SPDX-License-Identifier: Apache-2.0
// The read channels of N NPUs to one memory port whose words are K bus words wide.
//
// Bursts are chosen in turn and stay whole. A burst is asked for once the words that it covers have
// room in the queue of its NPU, so that memory never waits for an NPU and no NPU for another's
// queue. Memory answers each of its two ids in order (as for one NPU): the order of requests tells
// whose an answer is. Data of an NPU wait in its queue of WORDS memory words and leave it as bus
// words, one a cycle.
module npus_read #(
    parameter int N         = 2,
    parameter int K         = 1,
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 16,
    parameter int WORDS     = 256,  // a power of two; a burst must fit
    parameter int BURSTS    = 64    // in flight, of each id; a power of two
) (
    input  logic                             clk,
    input  logic                             rst,
    input  logic [N-1:0]                     s_arvalid,
    output logic [N-1:0]                     s_arready,
    input  logic [N-1:0]                     s_arid,
    input  logic [N-1:0][ADDR_BITS-1:0]      s_araddr,
    input  logic [N-1:0][7:0]                s_arlen,
    output logic [N-1:0]                     s_rvalid,
    input  logic [N-1:0]                     s_rready,
    output logic [N-1:0]                     s_rid,
    output logic [N-1:0][8*BUS_BYTES-1:0]    s_rdata,
    output logic [N-1:0][1:0]                s_rresp,
    output logic [N-1:0]                     s_rlast,
    output logic                             m_arvalid,
    input  logic                             m_arready,
    output logic                             m_arid,
    output logic [ADDR_BITS-1:0]             m_araddr,
    output logic [7:0]                       m_arlen,
    input  logic                             m_rvalid,
    output logic                             m_rready,
    input  logic                             m_rid,
    input  logic [8*K*BUS_BYTES-1:0]         m_rdata,
    input  logic [1:0]                       m_rresp,
    input  logic                             m_rlast
);
  localparam int LANES = K > 1 ? $clog2(K) : 1;     // bits of the bus word within a memory word
  localparam int LOW   = $clog2(BUS_BYTES);
  localparam int LEVEL = $clog2(WORDS) + 1;
  localparam int SHIFT = $clog2(K);

  typedef struct packed {
    logic [N-1:0]     npu;    // one bit
    logic [LANES-1:0] first;  // lane of its first bus word
    logic [LANES-1:0] last;   // lane of its last one
  } order_t;

  typedef struct packed {
    logic [8*K*BUS_BYTES-1:0] data;
    logic [1:0]               resp;
    logic                     id;
    logic                     end_of_burst;
    logic [LANES-1:0]         first;
    logic [LANES-1:0]         last;
  } word_t;

  // Requests ------------------------------------------------------------------------------------
  logic [N-1:0]            fits, request, grant, freed;
  logic [N-1:0][LANES-1:0] first, last;  // lanes of the first and the last bus word
  logic [N-1:0][8:0]       words;        // memory words that a burst covers
  logic [N-1:0][LEVEL-1:0] room;
  logic                    go, open;
  logic [1:0]              order_room;

  for (genvar i = 0; i < N; i++) begin : g_request
    if (K > 1) begin : g_wide
      logic [8:0] bound;
      assign first[i] = s_araddr[i][LOW+:LANES];
      assign bound    = 9'(first[i]) + 9'(s_arlen[i]);
      assign last[i]  = bound[LANES-1:0];
      assign words[i] = (bound >> SHIFT) + 1'b1;
    end else begin : g_narrow
      assign first[i] = '0;
      assign last[i]  = '0;
      assign words[i] = 9'(s_arlen[i]) + 1'b1;
    end
    assign fits[i]    = 32'(words[i]) <= 32'(room[i]);
    assign request[i] = s_arvalid[i] && fits[i] && order_room[s_arid[i]];
    always_ff @(posedge clk)
      if (rst) room[i] <= LEVEL'(WORDS);
      else room[i] <= room[i] + LEVEL'(freed[i]) - (go && grant[i] ? LEVEL'(words[i]) : '0);
  end

  npus_round_robin #(.N(N)) arbiter (.clk, .rst, .request, .taken(go), .grant);
  assign open      = !m_arvalid || m_arready;
  assign go        = open && |request;
  assign s_arready = open ? grant : '0;

  order_t               granted;
  logic                 granted_id;
  logic [ADDR_BITS-1:0] granted_addr;
  logic [7:0]           granted_len;
  always_comb begin
    granted      = '0;
    granted_id   = 1'b0;
    granted_addr = '0;
    granted_len  = '0;
    granted.npu  = grant;
    for (int i = 0; i < N; i++)
      if (grant[i]) begin
        granted.first = first[i];
        granted.last  = last[i];
        granted_id    = s_arid[i];
        granted_addr  = s_araddr[i];
        granted_len   = 8'(words[i] - 1'b1);
      end
  end

  always_ff @(posedge clk)
    if (rst) m_arvalid <= 1'b0;
    else if (open) begin
      m_arvalid <= |request;
      m_arid    <= granted_id;
      m_araddr  <= granted_addr >> (LOW + SHIFT) << (LOW + SHIFT);
      m_arlen   <= granted_len;
    end

  // Answers -------------------------------------------------------------------------------------
  order_t     orders[2];
  logic [1:0] begun, known;  // the oldest burst of an id has given a word; there is one
  for (genvar id = 0; id < 2; id++) begin : g_order
    logic asked, ended;
    assign asked = go && granted_id == 1'(id);
    assign ended = m_rvalid && m_rready && m_rlast && m_rid == 1'(id);
    npus_fifo #(.WIDTH($bits(order_t)), .DEPTH(BURSTS)) order (
        .clk, .rst, .i_valid(asked), .i_ready(order_room[id]), .i_data(granted),
        .o_valid(known[id]), .o_ready(ended), .o_data(orders[id]));
    always_ff @(posedge clk)
      if (rst || ended) begun[id] <= 1'b0;
      else if (m_rvalid && m_rready && m_rid == 1'(id)) begun[id] <= 1'b1;
  end

  // Every word has its room.
  assign m_rready = 1'b1;

  word_t arrived;
  always_comb begin
    arrived.data         = m_rdata;
    arrived.resp         = m_rresp;
    arrived.id           = m_rid;
    arrived.end_of_burst = m_rlast;
    arrived.first        = begun[m_rid] ? '0 : orders[m_rid].first;
    arrived.last         = m_rlast ? orders[m_rid].last : LANES'(K - 1);
  end

  for (genvar i = 0; i < N; i++) begin : g_answer
    word_t            word;
    logic             filled, whole, ready;
    logic [LANES-1:0] lane;
    logic             moved;  // a bus word of this memory word has been taken
    npus_fifo #(.WIDTH($bits(word_t)), .DEPTH(WORDS)) queue (
        .clk, .rst,
        .i_valid(m_rvalid && known[m_rid] && orders[m_rid].npu[i]), .i_ready(ready),
        .i_data(arrived), .o_valid(filled), .o_ready(freed[i]), .o_data(word));

    logic [LANES-1:0] at;
    assign at          = moved ? lane : word.first;
    assign whole       = at == word.last;
    assign s_rvalid[i] = filled;
    assign s_rid[i]    = word.id;
    assign s_rresp[i]  = word.resp;
    assign s_rlast[i]  = word.end_of_burst && whole;
    assign s_rdata[i]  = word.data[32'(at)*8*BUS_BYTES+:8*BUS_BYTES];
    assign freed[i]    = filled && s_rready[i] && whole;
    always_ff @(posedge clk)
      if (rst) moved <= 1'b0;
      else if (filled && s_rready[i]) begin
        moved <= !whole;
        lane  <= at + 1'b1;
      end
    always_ff @(posedge clk)
      if (!rst && m_rvalid && known[m_rid] && orders[m_rid].npu[i])
        assert (ready) else $fatal(1, "npus_read: a word came without room for it");
  end

  always_ff @(posedge clk)
    if (!rst && m_rvalid)
      assert (known[m_rid]) else $fatal(1, "npus_read: an answer of id %0d that nobody asked for", m_rid);
endmodule
