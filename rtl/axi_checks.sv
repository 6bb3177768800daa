// SPDX-License-Identifier: Apache-2.0
// Rules of the NPU's two ports, as assertions: AXI4 manager and AXI4-Lite subordinate.
// Part of debug builds and of the benches only; without Verilator's --assert it checks nothing.
module axi_checks #(
    parameter int ADDR_BITS = 40,
    parameter int BUS_BYTES = 16,
    parameter int MAX_BURST = 16
) (
    input logic                   clk,
    input logic                   rst,
    input logic                   arvalid,
    input logic                   arready,
    input logic                   arid,
    input logic [ADDR_BITS-1:0]   araddr,
    input logic [7:0]             arlen,
    input logic [2:0]             arsize,
    input logic [1:0]             arburst,
    input logic                   rvalid,
    input logic                   rready,
    input logic                   rid,
    input logic                   rlast,
    input logic                   awvalid,
    input logic                   awready,
    input logic                   awid,
    input logic [ADDR_BITS-1:0]   awaddr,
    input logic [7:0]             awlen,
    input logic [2:0]             awsize,
    input logic [1:0]             awburst,
    input logic                   wvalid,
    input logic                   wready,
    input logic [8*BUS_BYTES-1:0] wdata,
    input logic [BUS_BYTES-1:0]   wstrb,
    input logic                   wlast,
    input logic                   bvalid,
    input logic                   bready,
    input logic                   bid,
    // AXI4-Lite
    input logic                   l_awvalid,
    input logic                   l_awready,
    input logic                   l_wvalid,
    input logic                   l_wready,
    input logic                   l_bvalid,
    input logic                   l_bready,
    input logic [1:0]             l_bresp,
    input logic                   l_arvalid,
    input logic                   l_arready,
    input logic                   l_rvalid,
    input logic                   l_rready,
    input logic [31:0]            l_rdata,
    input logic [1:0]             l_rresp
);
    axi_stable #(.NAME("AR"), .WIDTH(ADDR_BITS + 14)) ar_stable (
        .clk, .rst, .valid(arvalid), .ready(arready),
        .payload({arid, araddr, arlen, arsize, arburst}));
    axi_stable #(.NAME("AW"), .WIDTH(ADDR_BITS + 14)) aw_stable (
        .clk, .rst, .valid(awvalid), .ready(awready),
        .payload({awid, awaddr, awlen, awsize, awburst}));
    axi_stable #(.NAME("W"), .WIDTH(9 * BUS_BYTES + 1)) w_stable (
        .clk, .rst, .valid(wvalid), .ready(wready), .payload({wdata, wstrb, wlast}));
    axi_stable #(.NAME("Lite B"), .WIDTH(2)) l_b_stable (
        .clk, .rst, .valid(l_bvalid), .ready(l_bready), .payload(l_bresp));
    axi_stable #(.NAME("Lite R"), .WIDTH(34)) l_r_stable (
        .clk, .rst, .valid(l_rvalid), .ready(l_rready), .payload({l_rdata, l_rresp}));

    axi_burst #(
        .NAME("AR"), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .MAX_BURST(MAX_BURST)
    ) ar_burst (
        .clk, .rst, .valid(arvalid), .addr(araddr), .len(arlen), .size(arsize), .burst(arburst));
    axi_burst #(
        .NAME("AW"), .ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES), .MAX_BURST(MAX_BURST)
    ) aw_burst (
        .clk, .rst, .valid(awvalid), .addr(awaddr), .len(awlen), .size(awsize), .burst(awburst));

    // Writes. A data beat may be offered in the cycle in which its address is first offered, or
    // later, also before the address is accepted.
    bit [7:0] lengths[$];
    bit [7:0] beat;
    bit       aw_seen;
    int       unanswered;
    always_ff @(posedge clk) begin
        if (rst) begin
            lengths.delete();
            beat       <= '0;
            aw_seen    <= 1'b0;
            unanswered <= 0;
        end else begin
            automatic int finished = 0;
            if (awvalid && !aw_seen) lengths.push_back(awlen);
            aw_seen <= awvalid && !awready;
            if (awvalid) assert (awid == 1'b0) else $fatal(1, "AXI: AW has unknown id %0d", awid);
            if (wvalid && lengths.size() == 0)
                assert (0) else $fatal(1, "AXI: W beat without an AW");
            else if (wvalid) begin
                assert (wlast == (beat == lengths[0]))
                else $fatal(1, "AXI: wlast is %0d at beat %0d of 0..%0d", wlast, beat, lengths[0]);
                if (wready) begin
                    beat <= wlast ? '0 : beat + 1'b1;
                    if (wlast) begin
                        void'(lengths.pop_front());
                        finished++;
                    end
                end
            end
            if (bvalid && bready) begin
                finished--;
                assert (unanswered > 0) else $fatal(1, "AXI: B without a finished burst");
                assert (bid == 1'b0) else $fatal(1, "AXI: B has unknown id %0d", bid);
            end
            unanswered <= unanswered + finished;
        end
    end

    // Reads: every id has its own count of bursts that memory still owes.
    int owed[2];
    always_ff @(posedge clk) begin
        for (int i = 0; i < 2; i++) begin
            automatic bit asked = arvalid && arready && int'(arid) == i;
            automatic bit ended = rvalid && rready && rlast && int'(rid) == i;
            if (rst) owed[i] <= 0;
            else begin
                owed[i] <= owed[i] + int'(asked) - int'(ended);
                if (rvalid && int'(rid) == i)
                    assert (owed[i] > 0) else $fatal(1, "AXI: R of id %0d was not asked for", i);
            end
        end
    end

    // AXI4-Lite: as many answers as requests.
    int l_addresses, l_words, l_reads;
    always_ff @(posedge clk) begin
        if (rst) begin
            l_addresses <= 0;
            l_words     <= 0;
            l_reads     <= 0;
        end else begin
            automatic int answered = int'(l_bvalid && l_bready);
            l_addresses <= l_addresses + int'(l_awvalid && l_awready) - answered;
            l_words     <= l_words + int'(l_wvalid && l_wready) - answered;
            l_reads     <= l_reads + int'(l_arvalid && l_arready) - int'(l_rvalid && l_rready);
            if (l_bvalid)
                assert (l_addresses > 0 && l_words > 0)
                else $fatal(1, "AXI-Lite: B without a write");
            if (l_rvalid) assert (l_reads > 0) else $fatal(1, "AXI-Lite: R without a read");
        end
    end
endmodule

// Once valid is raised it stays, with its payload, until ready.
module axi_stable #(
    parameter string NAME  = "",
    parameter int    WIDTH = 1
) (
    input logic             clk,
    input logic             rst,
    input logic             valid,
    input logic             ready,
    input logic [WIDTH-1:0] payload
);
    bit             waiting;
    bit [WIDTH-1:0] offered;
    always_ff @(posedge clk) begin
        waiting <= valid && !ready && !rst;
        offered <= payload;
        if (waiting && !rst) begin
            assert (valid) else $fatal(1, "AXI: %s: valid was dropped before ready", NAME);
            assert (payload == offered)
            else $fatal(1, "AXI: %s: the payload changed before ready", NAME);
        end
    end
endmodule

// What a burst's address may look like.
module axi_burst #(
    parameter string NAME      = "",
    parameter int    ADDR_BITS = 40,
    parameter int    BUS_BYTES = 16,
    parameter int    MAX_BURST = 16
) (
    input logic                 clk,
    input logic                 rst,
    input logic                 valid,
    input logic [ADDR_BITS-1:0] addr,
    input logic [7:0]           len,
    input logic [2:0]           size,
    input logic [1:0]           burst
);
    localparam int LANES = $clog2(BUS_BYTES);
    always_ff @(posedge clk)
        if (valid && !rst) begin
            assert (int'(len) < MAX_BURST)
            else $fatal(1, "AXI: %s has %0d beats, the limit is %0d", NAME, len + 1, MAX_BURST);
            assert (int'(addr[11:LANES]) + int'(len) < 4096 / BUS_BYTES)
            else $fatal(1, "AXI: %s burst at %0h crosses 4 KiB", NAME, addr);
            assert (int'(size) == LANES)
            else $fatal(1, "AXI: %s has size %0d, not the bus width", NAME, size);
            assert (burst == 2'b01)
            else $fatal(1, "AXI: %s burst type %0d is not INCR", NAME, burst);
        end
endmodule
