// SPDX-License-Identifier: Apache-2.0
// The interconnect of several NPUs between ports that a test drives and the simulated memory. The
// ports of all managers lie side by side in vectors, manager 0 at the low end.
module npus_bus_tb #(
    parameter int N         = 2,
    parameter int K         = 1,
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 8,
    parameter int WORDS     = 32
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic [N-1:0]             arvalid,
    output logic [N-1:0]             arready,
    input  logic [N-1:0]             arid,
    input  logic [N*ADDR_BITS-1:0]   araddr,
    input  logic [N*8-1:0]           arlen,
    output logic [N-1:0]             rvalid,
    input  logic [N-1:0]             rready,
    output logic [N-1:0]             rid,
    output logic [N*8*BUS_BYTES-1:0] rdata,
    output logic [N*2-1:0]           rresp,
    output logic [N-1:0]             rlast,
    input  logic [N-1:0]             awvalid,
    output logic [N-1:0]             awready,
    input  logic [N*ADDR_BITS-1:0]   awaddr,
    input  logic [N*8-1:0]           awlen,
    input  logic [N-1:0]             wvalid,
    output logic [N-1:0]             wready,
    input  logic [N*8*BUS_BYTES-1:0] wdata,
    input  logic [N*BUS_BYTES-1:0]   wstrb,
    input  logic [N-1:0]             wlast,
    output logic [N-1:0]             bvalid,
    input  logic [N-1:0]             bready,
    output logic [1:0]               bresp
);
  localparam int WORD = K * BUS_BYTES;

  logic m_arvalid, m_arready, m_arid, m_rvalid, m_rready, m_rid, m_rlast;
  logic m_awvalid, m_awready, m_wvalid, m_wready, m_wlast, m_bvalid, m_bready, m_bid;
  logic [ADDR_BITS-1:0] m_araddr, m_awaddr;
  logic [7:0]           m_arlen, m_awlen;
  logic [1:0]           m_rresp, m_bresp;
  logic [8*WORD-1:0]    m_rdata, m_wdata;
  logic [WORD-1:0]      m_wstrb;
  localparam logic [2:0] SIZE = 3'($clog2(WORD));

  npus_read #(
      .N(N), .K(K), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .WORDS(WORDS), .BURSTS(8)
  ) read (
      .clk, .rst,
      .s_arvalid(arvalid), .s_arready(arready), .s_arid(arid), .s_araddr(araddr), .s_arlen(arlen),
      .s_rvalid(rvalid), .s_rready(rready), .s_rid(rid), .s_rdata(rdata), .s_rresp(rresp),
      .s_rlast(rlast),
      .m_arvalid, .m_arready, .m_arid, .m_araddr, .m_arlen,
      .m_rvalid, .m_rready, .m_rid, .m_rdata, .m_rresp, .m_rlast);
  npus_write #(
      .N(N), .K(K), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .WORDS(WORDS), .BURSTS(8)
  ) write (
      .clk, .rst,
      .s_awvalid(awvalid), .s_awready(awready), .s_awaddr(awaddr), .s_awlen(awlen),
      .s_wvalid(wvalid), .s_wready(wready), .s_wdata(wdata), .s_wstrb(wstrb), .s_wlast(wlast),
      .s_bvalid(bvalid), .s_bready(bready), .s_bresp(bresp),
      .m_awvalid, .m_awready, .m_awaddr, .m_awlen,
      .m_wvalid, .m_wready, .m_wdata, .m_wstrb, .m_wlast, .m_bvalid, .m_bready, .m_bresp);
  dpi_memory #(.ADDR_BITS(ADDR_BITS), .BUS_BYTES(WORD)) memory (
      .clk, .rst,
      .arvalid(m_arvalid), .arready(m_arready), .arid(m_arid), .araddr(m_araddr),
      .arlen(m_arlen), .arsize(SIZE), .arburst(2'b01),
      .rvalid(m_rvalid), .rready(m_rready), .rid(m_rid), .rdata(m_rdata), .rresp(m_rresp),
      .rlast(m_rlast),
      .awvalid(m_awvalid), .awready(m_awready), .awid(1'b0), .awaddr(m_awaddr),
      .awlen(m_awlen), .awsize(SIZE), .awburst(2'b01),
      .wvalid(m_wvalid), .wready(m_wready), .wdata(m_wdata), .wstrb(m_wstrb), .wlast(m_wlast),
      .bvalid(m_bvalid), .bready(m_bready), .bid(m_bid), .bresp(m_bresp));
endmodule
