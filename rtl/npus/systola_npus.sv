// SPDX-License-Identifier: Apache-2.0
// N NPUs with one memory: read and write channels in turn, doorbells, a runner for each NPU.
//
// The memory port is one NPU's (docs/integration.md), with words of K bus words; the register port
// has page 0 for doorbells and runners and page i + 1 for NPU i (docs/npus.md).
module systola_npus #(
    parameter int N           = 2,  // 1 to 16
    parameter int K           = 1,  // a power of two
    parameter int PAGE        = 2,  // bits of a page's number: 2^PAGE > N
    parameter int ADDR_BITS   = 40,
    parameter int BUS_BYTES   = 16,
    parameter int READ_WORDS  = 256,
    parameter int WRITE_WORDS = 64,
    parameter int BURSTS      = 64
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     s_axil_awvalid,
    output logic                     s_axil_awready,
    input  logic [PAGE+11:0]         s_axil_awaddr,
    input  logic                     s_axil_wvalid,
    output logic                     s_axil_wready,
    input  logic [31:0]              s_axil_wdata,
    input  logic [3:0]               s_axil_wstrb,
    output logic                     s_axil_bvalid,
    input  logic                     s_axil_bready,
    output logic [1:0]               s_axil_bresp,
    input  logic                     s_axil_arvalid,
    output logic                     s_axil_arready,
    input  logic [PAGE+11:0]         s_axil_araddr,
    output logic                     s_axil_rvalid,
    input  logic                     s_axil_rready,
    output logic [31:0]              s_axil_rdata,
    output logic [1:0]               s_axil_rresp,
    output logic                     irq,
    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,
    output logic                     m_axi_arid,
    output logic [ADDR_BITS-1:0]     m_axi_araddr,
    output logic [7:0]               m_axi_arlen,
    output logic [2:0]               m_axi_arsize,
    output logic [1:0]               m_axi_arburst,
    input  logic                     m_axi_rvalid,
    output logic                     m_axi_rready,
    input  logic                     m_axi_rid,
    input  logic [8*K*BUS_BYTES-1:0] m_axi_rdata,
    input  logic [1:0]               m_axi_rresp,
    input  logic                     m_axi_rlast,
    output logic                     m_axi_awvalid,
    input  logic                     m_axi_awready,
    output logic                     m_axi_awid,
    output logic [ADDR_BITS-1:0]     m_axi_awaddr,
    output logic [7:0]               m_axi_awlen,
    output logic [2:0]               m_axi_awsize,
    output logic [1:0]               m_axi_awburst,
    output logic                     m_axi_wvalid,
    input  logic                     m_axi_wready,
    output logic [8*K*BUS_BYTES-1:0] m_axi_wdata,
    output logic [K*BUS_BYTES-1:0]   m_axi_wstrb,
    output logic                     m_axi_wlast,
    input  logic                     m_axi_bvalid,
    output logic                     m_axi_bready,
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic                     m_axi_bid,  // always 0, as that of every write is
    /* verilator lint_on UNUSEDSIGNAL */
    input  logic [1:0]               m_axi_bresp
);
  logic [N-1:0]                  arvalid, arready, arid, rvalid, rready, rid, rlast;
  logic [N-1:0]                  awvalid, awready, wvalid, wready, wlast, bvalid, bready;
  logic [N-1:0][ADDR_BITS-1:0]   araddr, awaddr;
  logic [N-1:0][7:0]             arlen, awlen;
  logic [N-1:0][8*BUS_BYTES-1:0] rdata, wdata;
  logic [N-1:0][BUS_BYTES-1:0]   wstrb;
  logic [N-1:0][1:0]             rresp;
  logic [1:0]                    bresp;

  npus_read #(
      .N(N), .K(K), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .WORDS(READ_WORDS),
      .BURSTS(BURSTS)
  ) read (
      .clk, .rst,
      .s_arvalid(arvalid), .s_arready(arready), .s_arid(arid), .s_araddr(araddr), .s_arlen(arlen),
      .s_rvalid(rvalid), .s_rready(rready), .s_rid(rid), .s_rdata(rdata), .s_rresp(rresp),
      .s_rlast(rlast),
      .m_arvalid(m_axi_arvalid), .m_arready(m_axi_arready), .m_arid(m_axi_arid),
      .m_araddr(m_axi_araddr), .m_arlen(m_axi_arlen),
      .m_rvalid(m_axi_rvalid), .m_rready(m_axi_rready), .m_rid(m_axi_rid), .m_rdata(m_axi_rdata),
      .m_rresp(m_axi_rresp), .m_rlast(m_axi_rlast));
  npus_write #(
      .N(N), .K(K), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .WORDS(WRITE_WORDS),
      .BURSTS(BURSTS)
  ) write (
      .clk, .rst,
      .s_awvalid(awvalid), .s_awready(awready), .s_awaddr(awaddr), .s_awlen(awlen),
      .s_wvalid(wvalid), .s_wready(wready), .s_wdata(wdata), .s_wstrb(wstrb), .s_wlast(wlast),
      .s_bvalid(bvalid), .s_bready(bready), .s_bresp(bresp),
      .m_awvalid(m_axi_awvalid), .m_awready(m_axi_awready), .m_awaddr(m_axi_awaddr),
      .m_awlen(m_axi_awlen),
      .m_wvalid(m_axi_wvalid), .m_wready(m_axi_wready), .m_wdata(m_axi_wdata),
      .m_wstrb(m_axi_wstrb), .m_wlast(m_axi_wlast),
      .m_bvalid(m_axi_bvalid), .m_bready(m_axi_bready), .m_bresp(m_axi_bresp));
  assign m_axi_arsize  = 3'($clog2(K * BUS_BYTES));
  assign m_axi_awsize  = 3'($clog2(K * BUS_BYTES));
  assign m_axi_arburst = 2'b01;
  assign m_axi_awburst = 2'b01;
  assign m_axi_awid    = 1'b0;

  // Registers: the host, the doorbells and a runner for each NPU ----------------------------------
  logic [N:0]         page, page_ack;
  logic               page_write;
  logic [11:0]        page_addr;
  logic [31:0]        page_wdata;
  logic [3:0]         page_wstrb;
  logic [N:0][31:0]   page_rdata;
  logic [N:0][1:0]    page_resp;
  npus_host #(.N(N), .PAGE(PAGE)) host (
      .clk, .rst,
      .s_axil_awvalid, .s_axil_awready, .s_axil_awaddr, .s_axil_wvalid, .s_axil_wready,
      .s_axil_wdata, .s_axil_wstrb, .s_axil_bvalid, .s_axil_bready, .s_axil_bresp,
      .s_axil_arvalid, .s_axil_arready, .s_axil_araddr, .s_axil_rvalid, .s_axil_rready,
      .s_axil_rdata, .s_axil_rresp,
      .select(page), .write(page_write), .addr(page_addr), .wdata(page_wdata),
      .wstrb(page_wstrb), .ack(page_ack), .rdata(page_rdata), .resp(page_resp));

  logic [N-1:0]       set, go, active, failed, taken, ring, rung;
  logic [3:0]         index;
  logic [N-1:0][31:0] shown;
  logic               stop, ring_bad;
  logic [N-1:0][3:0]  take;
  logic [N-1:0][11:0] ring_addr;
  npus_doorbells #(.N(N), .K(K)) doorbells (
      .clk, .rst,
      .select(page[0]), .write(page_write), .addr(page_addr), .wdata(page_wdata),
      .ack(page_ack[0]), .rdata(page_rdata[0]), .resp(page_resp[0]), .irq,
      .set, .index, .shown, .go, .stop, .active, .failed, .take, .taken, .ring, .ring_addr,
      .rung, .ring_bad,
      .m_read(m_axi_rvalid && m_axi_rready), .m_write(m_axi_wvalid && m_axi_wready),
      .s_read(rvalid & rready), .s_write(wvalid & wready),
      .s_read_waits(arvalid & ~arready), .s_write_waits(wvalid & ~wready));

  for (genvar i = 0; i < N; i++) begin : g_npu
    logic        access, access_write, access_ack, npu_irq;
    logic [11:0] access_addr;
    logic [31:0] access_data, port_rdata;
    logic [1:0]  port_resp;
    npus_runner runner (
        .clk, .rst,
        .set(set[i]), .index, .value(page_wdata), .shown(shown[i]), .go(go[i]), .stop,
        .active(active[i]), .failed(failed[i]), .take(take[i]), .taken(taken[i]),
        .ring(ring[i]), .ring_addr(ring_addr[i]), .rung(rung[i]), .ring_bad,
        .access, .access_write, .access_addr, .access_data, .access_ack,
        .access_value(port_rdata), .irq(npu_irq));

    logic        l_awvalid, l_awready, l_wvalid, l_wready, l_bvalid, l_bready;
    logic        l_arvalid, l_arready, l_rvalid, l_rready;
    logic [11:0] l_awaddr, l_araddr;
    logic [31:0] l_wdata, l_rdata;
    logic [3:0]  l_wstrb;
    logic [1:0]  l_bresp, l_rresp;
    npus_port port (
        .clk, .rst,
        .valid({page[i+1], access}), .write({page_write, access_write}),
        .addr({page_addr, access_addr}), .wdata({page_wdata, access_data}),
        .wstrb({page_wstrb, 4'hf}), .ack({page_ack[i+1], access_ack}),
        .rdata(port_rdata), .resp(port_resp),
        .m_axil_awvalid(l_awvalid), .m_axil_awready(l_awready), .m_axil_awaddr(l_awaddr),
        .m_axil_wvalid(l_wvalid), .m_axil_wready(l_wready), .m_axil_wdata(l_wdata),
        .m_axil_wstrb(l_wstrb), .m_axil_bvalid(l_bvalid), .m_axil_bready(l_bready),
        .m_axil_bresp(l_bresp), .m_axil_arvalid(l_arvalid), .m_axil_arready(l_arready),
        .m_axil_araddr(l_araddr), .m_axil_rvalid(l_rvalid), .m_axil_rready(l_rready),
        .m_axil_rdata(l_rdata), .m_axil_rresp(l_rresp));
    assign page_rdata[i+1] = port_rdata;
    assign page_resp[i+1]  = port_resp;

    /* verilator lint_off UNUSEDSIGNAL */
    logic       awid;  // 0
    logic [2:0] arsize, awsize;  // of a bus word
    logic [1:0] arburst, awburst;  // INCR
    /* verilator lint_on UNUSEDSIGNAL */
    systola_npu npu (
        .clk, .rst, .irq(npu_irq),
        .s_axil_awvalid(l_awvalid), .s_axil_awready(l_awready), .s_axil_awaddr(l_awaddr),
        .s_axil_wvalid(l_wvalid), .s_axil_wready(l_wready), .s_axil_wdata(l_wdata),
        .s_axil_wstrb(l_wstrb), .s_axil_bvalid(l_bvalid), .s_axil_bready(l_bready),
        .s_axil_bresp(l_bresp), .s_axil_arvalid(l_arvalid), .s_axil_arready(l_arready),
        .s_axil_araddr(l_araddr), .s_axil_rvalid(l_rvalid), .s_axil_rready(l_rready),
        .s_axil_rdata(l_rdata), .s_axil_rresp(l_rresp),
        .m_axi_arvalid(arvalid[i]), .m_axi_arready(arready[i]), .m_axi_arid(arid[i]),
        .m_axi_araddr(araddr[i]), .m_axi_arlen(arlen[i]), .m_axi_arsize(arsize),
        .m_axi_arburst(arburst), .m_axi_rvalid(rvalid[i]), .m_axi_rready(rready[i]),
        .m_axi_rid(rid[i]), .m_axi_rdata(rdata[i]), .m_axi_rresp(rresp[i]),
        .m_axi_rlast(rlast[i]),
        .m_axi_awvalid(awvalid[i]), .m_axi_awready(awready[i]), .m_axi_awid(awid),
        .m_axi_awaddr(awaddr[i]), .m_axi_awlen(awlen[i]), .m_axi_awsize(awsize),
        .m_axi_awburst(awburst), .m_axi_wvalid(wvalid[i]), .m_axi_wready(wready[i]),
        .m_axi_wdata(wdata[i]), .m_axi_wstrb(wstrb[i]), .m_axi_wlast(wlast[i]),
        .m_axi_bvalid(bvalid[i]), .m_axi_bready(bready[i]), .m_axi_bid(1'b0),
        .m_axi_bresp(bresp));
  end
endmodule
