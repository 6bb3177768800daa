// SPDX-License-Identifier: Apache-2.0
// AXI4 subordinate whose store is a file shared with Python (dpi_memory.cpp does the work).
// Outputs are registered; one address, one data word and one response a cycle and direction.
// Plus-args: +memory=FILE, +control=FILE.
module dpi_memory #(
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 16
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic                   arvalid,
    output logic                   arready,
    input  logic                   arid,
    input  logic [ADDR_BITS-1:0]   araddr,
    input  logic [7:0]             arlen,
    input  logic [2:0]             arsize,
    input  logic [1:0]             arburst,
    output logic                   rvalid,
    input  logic                   rready,
    output logic                   rid,
    output logic [8*BUS_BYTES-1:0] rdata,
    output logic [1:0]             rresp,
    output logic                   rlast,
    input  logic                   awvalid,
    output logic                   awready,
    input  logic                   awid,
    input  logic [ADDR_BITS-1:0]   awaddr,
    input  logic [7:0]             awlen,
    input  logic [2:0]             awsize,
    input  logic [1:0]             awburst,
    input  logic                   wvalid,
    output logic                   wready,
    input  logic [8*BUS_BYTES-1:0] wdata,
    input  logic [BUS_BYTES-1:0]   wstrb,
    input  logic                   wlast,
    output logic                   bvalid,
    input  logic                   bready,
    output logic                   bid,
    output logic [1:0]             bresp
);
    import "DPI-C" function chandle dpi_memory_open(
        input string memory, input string control, input int bus_bytes);
    import "DPI-C" function void dpi_memory_reset(input chandle memory);
    import "DPI-C" function int dpi_memory_step(
        input chandle memory, input longint cycle,
        input longint ar_addr, input int ar, input longint aw_addr, input int aw,
        input int in, input bit [8*BUS_BYTES-1:0] wdata, input longint wstrb,
        output bit [8*BUS_BYTES-1:0] rdata);

    chandle store;
    longint cycle;
    bit     idle;

    initial begin
        string memory_path, control_path;
        if (!$value$plusargs("memory=%s", memory_path)) $fatal(1, "+memory=FILE is missing");
        if (!$value$plusargs("control=%s", control_path)) $fatal(1, "+control=FILE is missing");
        store = dpi_memory_open(memory_path, control_path, BUS_BYTES);
    end

    // Nothing changes while the memory is idle and nothing comes in: the call is saved.
    always_ff @(posedge clk) begin
        cycle <= cycle + 1;
        if (rst) begin
            dpi_memory_reset(store);
            idle <= 0;
            {arready, rvalid, rlast, awready, wready, bvalid} <= '0;
        end else if (!idle || arvalid || awvalid || wvalid) begin
            automatic bit [8*BUS_BYTES-1:0] data = '0;
            automatic bit [13:0] out = 14'(dpi_memory_step(
                store, cycle,
                64'(araddr), 32'({arburst, arsize, arlen, arid, arvalid}),
                64'(awaddr), 32'({awburst, awsize, awlen, awid, awvalid}),
                32'({bready, rready, wlast, wvalid}), wdata, 64'(wstrb), data));
            {idle, bresp, bid, bvalid} <= {out[12], out[11:10], out[9], out[8]};
            {rlast, rresp, rid, rvalid} <= {out[7], out[6:5], out[4], out[3]};
            {wready, awready, arready} <= out[2:0];
            if (out[13]) rdata <= data;
        end
    end
endmodule
