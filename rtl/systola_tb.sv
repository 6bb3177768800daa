// The NPU with its memory: registers and interrupt remain outside.
module systola_tb #(
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 16
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [11:0] s_axil_awaddr,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    input  logic [31:0] s_axil_wdata,
    input  logic [3:0]  s_axil_wstrb,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    output logic [1:0]  s_axil_bresp,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    input  logic [11:0] s_axil_araddr,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0]  s_axil_rresp,
    output logic        irq
);
    logic arvalid, arready, arid, rvalid, rready, rid, rlast;
    logic awvalid, awready, awid, wvalid, wready, wlast, bvalid, bready, bid;
    logic [ADDR_BITS-1:0]   araddr, awaddr;
    logic [7:0]             arlen, awlen;
    logic [2:0]             arsize, awsize;
    logic [1:0]             arburst, awburst, rresp, bresp;
    logic [8*BUS_BYTES-1:0] rdata, wdata;
    logic [BUS_BYTES-1:0]   wstrb;

    systola_npu dut (
        .clk, .rst, .irq,
        .s_axil_awvalid, .s_axil_awready, .s_axil_awaddr,
        .s_axil_wvalid, .s_axil_wready, .s_axil_wdata, .s_axil_wstrb,
        .s_axil_bvalid, .s_axil_bready, .s_axil_bresp,
        .s_axil_arvalid, .s_axil_arready, .s_axil_araddr,
        .s_axil_rvalid, .s_axil_rready, .s_axil_rdata, .s_axil_rresp,
        .m_axi_arvalid(arvalid), .m_axi_arready(arready), .m_axi_arid(arid),
        .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(arsize),
        .m_axi_arburst(arburst),
        .m_axi_rvalid(rvalid), .m_axi_rready(rready), .m_axi_rid(rid), .m_axi_rdata(rdata),
        .m_axi_rresp(rresp), .m_axi_rlast(rlast),
        .m_axi_awvalid(awvalid), .m_axi_awready(awready), .m_axi_awid(awid),
        .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(awsize),
        .m_axi_awburst(awburst),
        .m_axi_wvalid(wvalid), .m_axi_wready(wready), .m_axi_wdata(wdata),
        .m_axi_wstrb(wstrb), .m_axi_wlast(wlast),
        .m_axi_bvalid(bvalid), .m_axi_bready(bready), .m_axi_bid(bid), .m_axi_bresp(bresp)
    );

    dpi_memory #(.ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES)) memory (
        .clk, .rst,
        .arvalid, .arready, .arid, .araddr, .arlen, .arsize, .arburst,
        .rvalid, .rready, .rid, .rdata, .rresp, .rlast,
        .awvalid, .awready, .awid, .awaddr, .awlen, .awsize, .awburst,
        .wvalid, .wready, .wdata, .wstrb, .wlast,
        .bvalid, .bready, .bid, .bresp
    );
endmodule
