// SPDX-License-Identifier: Apache-2.0
// Top for cocotb: N NPUs with their memory. As systola_sim, with a wider address at its registers.
`timescale 1ns / 1ns
module systola_npus_sim #(
    parameter int N           = 2,
    parameter int K           = 1,
    parameter int PAGE        = 2,
    parameter int ADDR_BITS   = 40,
    parameter int BUS_BYTES   = 16,
    parameter int READ_WORDS  = 256,
    parameter int WRITE_WORDS = 64,
    parameter int BURSTS      = 64
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_axil_awvalid,
    output logic             s_axil_awready,
    input  logic [PAGE+11:0] s_axil_awaddr,
    input  logic             s_axil_wvalid,
    output logic             s_axil_wready,
    input  logic [31:0]      s_axil_wdata,
    input  logic [3:0]       s_axil_wstrb,
    output logic             s_axil_bvalid,
    input  logic             s_axil_bready,
    output logic [1:0]       s_axil_bresp,
    input  logic             s_axil_arvalid,
    output logic             s_axil_arready,
    input  logic [PAGE+11:0] s_axil_araddr,
    output logic             s_axil_rvalid,
    input  logic             s_axil_rready,
    output logic [31:0]      s_axil_rdata,
    output logic [1:0]       s_axil_rresp,
    output logic             irq
);
  localparam int WORD = K * BUS_BYTES;

  logic arvalid, arready, arid, rvalid, rready, rid, rlast;
  logic awvalid, awready, awid, wvalid, wready, wlast, bvalid, bready, bid;
  logic [ADDR_BITS-1:0] araddr, awaddr;
  logic [7:0]           arlen, awlen;
  logic [2:0]           arsize, awsize;
  logic [1:0]           arburst, awburst, rresp, bresp;
  logic [8*WORD-1:0]    rdata, wdata;
  logic [WORD-1:0]      wstrb;

  // Everything that comes from outside passes a register (see stream_slice).
  logic             reset, irq_d;
  logic             aw_valid, aw_ready, w_valid, w_ready, b_valid, b_ready;
  logic             ar_valid, ar_ready, r_valid, r_ready;
  logic [PAGE+11:0] aw_addr, ar_addr;
  logic [31:0]      w_data, r_data;
  logic [3:0]       w_strb;
  logic [1:0]       b_resp, r_resp;

  always_ff @(posedge clk) begin
    reset <= rst;
    irq   <= irq_d;
  end

  stream_slice #(.WIDTH(PAGE + 12)) slice_aw (
      .clk, .rst(reset), .i_valid(s_axil_awvalid), .i_ready(s_axil_awready),
      .i_data(s_axil_awaddr), .o_valid(aw_valid), .o_ready(aw_ready), .o_data(aw_addr));
  stream_slice #(.WIDTH(36)) slice_w (
      .clk, .rst(reset), .i_valid(s_axil_wvalid), .i_ready(s_axil_wready),
      .i_data({s_axil_wstrb, s_axil_wdata}),
      .o_valid(w_valid), .o_ready(w_ready), .o_data({w_strb, w_data}));
  stream_slice #(.WIDTH(2)) slice_b (
      .clk, .rst(reset), .i_valid(b_valid), .i_ready(b_ready), .i_data(b_resp),
      .o_valid(s_axil_bvalid), .o_ready(s_axil_bready), .o_data(s_axil_bresp));
  stream_slice #(.WIDTH(PAGE + 12)) slice_ar (
      .clk, .rst(reset), .i_valid(s_axil_arvalid), .i_ready(s_axil_arready),
      .i_data(s_axil_araddr), .o_valid(ar_valid), .o_ready(ar_ready), .o_data(ar_addr));
  stream_slice #(.WIDTH(34)) slice_r (
      .clk, .rst(reset), .i_valid(r_valid), .i_ready(r_ready), .i_data({r_resp, r_data}),
      .o_valid(s_axil_rvalid), .o_ready(s_axil_rready), .o_data({s_axil_rresp, s_axil_rdata}));

  systola_npus #(
      .N(N), .K(K), .PAGE(PAGE), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES),
      .READ_WORDS(READ_WORDS), .WRITE_WORDS(WRITE_WORDS), .BURSTS(BURSTS)
  ) dut (
      .clk, .rst(reset), .irq(irq_d),
      .s_axil_awvalid(aw_valid), .s_axil_awready(aw_ready), .s_axil_awaddr(aw_addr),
      .s_axil_wvalid(w_valid), .s_axil_wready(w_ready), .s_axil_wdata(w_data),
      .s_axil_wstrb(w_strb), .s_axil_bvalid(b_valid), .s_axil_bready(b_ready),
      .s_axil_bresp(b_resp), .s_axil_arvalid(ar_valid), .s_axil_arready(ar_ready),
      .s_axil_araddr(ar_addr), .s_axil_rvalid(r_valid), .s_axil_rready(r_ready),
      .s_axil_rdata(r_data), .s_axil_rresp(r_resp),
      .m_axi_arvalid(arvalid), .m_axi_arready(arready), .m_axi_arid(arid),
      .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(arsize),
      .m_axi_arburst(arburst), .m_axi_rvalid(rvalid), .m_axi_rready(rready),
      .m_axi_rid(rid), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast),
      .m_axi_awvalid(awvalid), .m_axi_awready(awready), .m_axi_awid(awid),
      .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(awsize),
      .m_axi_awburst(awburst), .m_axi_wvalid(wvalid), .m_axi_wready(wready),
      .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast),
      .m_axi_bvalid(bvalid), .m_axi_bready(bready), .m_axi_bid(bid), .m_axi_bresp(bresp));

  dpi_memory #(.ADDR_BITS(ADDR_BITS), .BUS_BYTES(WORD)) memory (
      .clk, .rst(reset),
      .arvalid, .arready, .arid, .araddr, .arlen, .arsize, .arburst,
      .rvalid, .rready, .rid, .rdata, .rresp, .rlast,
      .awvalid, .awready, .awid, .awaddr, .awlen, .awsize, .awburst,
      .wvalid, .wready, .wdata, .wstrb, .wlast,
      .bvalid, .bready, .bid, .bresp);
endmodule
