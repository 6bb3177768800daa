// A manager that writes and reads one burst and breaks one rule: +break=NAME (none: no rule).
module axi_checks_tb;
    logic clk = 0, rst = 1, done = 0;
    always #5 clk = ~clk;

    logic arvalid = 0, arready = 0, arid = 1, rvalid = 0, rid = 1, rlast = 0;
    logic awvalid = 0, awready = 0, awid = 0, wvalid = 0, wready = 0, wlast = 0;
    logic bvalid = 0, bid = 0, l_bvalid = 0, l_rvalid = 0, l_arvalid = 0;
    logic [31:0] araddr = 32'h1f80, awaddr = 32'h1fe0, l_rdata = 0;
    logic [7:0]  arlen = 7, awlen = 1;
    logic [2:0]  arsize = 4;
    logic [1:0]  arburst = 1;
    logic [127:0] wdata = 0;
    logic [15:0]  wstrb = '1;

    axi_checks #(.ADDR_BITS(32), .BUS_BYTES(16), .MAX_BURST(8)) checks (
        .clk, .rst, .arvalid, .arready, .arid, .araddr, .arlen, .arsize, .arburst,
        .rvalid, .rready(1'b1), .rid, .rlast,
        .awvalid, .awready, .awid, .awaddr, .awlen, .awsize(3'd4), .awburst(2'b01),
        .wvalid, .wready, .wdata, .wstrb, .wlast, .bvalid, .bready(1'b1), .bid,
        .l_awvalid(1'b0), .l_awready(1'b0), .l_wvalid(1'b0), .l_wready(1'b0),
        .l_bvalid, .l_bready(1'b0), .l_bresp(2'b00),
        .l_arvalid, .l_arready(1'b1), .l_rvalid, .l_rready(1'b0), .l_rdata, .l_rresp(2'b00));

    string rule;
    function automatic bit broken(string name);
        return rule == name;
    endfunction

    initial begin
        if (!$value$plusargs("break=%s", rule)) rule = "none";
        repeat (3) @(negedge clk);
        rst = 0;
        // Writes: two beats, the address accepted late.
        awvalid = 1;
        if (broken("aw_4k")) awlen = 2;
        if (broken("aw_id")) awid = 1;
        if (broken("w_without_aw")) awvalid = 0;
        wvalid = 1;
        wlast = broken("w_last");
        @(negedge clk);
        if (broken("aw_valid")) awvalid = 0;
        if (broken("aw_payload")) awaddr = 32'h1fc0;
        if (broken("w_payload")) wdata = 1;
        if (broken("w_valid")) wvalid = 0;
        @(negedge clk);
        {awready, wready} = '1;
        @(negedge clk);
        awvalid = 0;
        wlast = 1;
        @(negedge clk);
        wvalid = broken("w_more");
        @(negedge clk);
        wvalid = 0;
        bvalid = 1;
        bid = broken("b_id");
        @(negedge clk);
        bvalid = broken("b_more");
        @(negedge clk);
        bvalid = 0;
        // Reads.
        arvalid = 1;
        if (broken("ar_4k")) araddr = 32'h1f90;
        if (broken("ar_length")) {arlen, araddr} = {8'd8, 32'h1000};
        if (broken("ar_size")) arsize = 3;
        if (broken("ar_burst")) arburst = 0;
        @(negedge clk);
        if (broken("ar_valid")) arvalid = 0;
        if (broken("ar_payload")) arlen = 6;
        @(negedge clk);
        arready = 1;
        @(negedge clk);
        arvalid = 0;
        rvalid = 1;
        if (broken("r_id")) rid = 0;
        repeat (7) @(negedge clk);
        rlast = 1;
        @(negedge clk);
        rlast = 0;
        rvalid = broken("r_more");
        @(negedge clk);
        rvalid = 0;
        // AXI4-Lite.
        l_arvalid = 1;
        @(negedge clk);
        l_arvalid = 0;
        l_rvalid = 1;
        l_bvalid = broken("lite_b");
        @(negedge clk);
        if (broken("lite_r_valid")) l_rvalid = 0;
        if (broken("lite_r_payload")) l_rdata = 1;
        repeat (2) @(negedge clk);
        done = 1;
    end
endmodule
