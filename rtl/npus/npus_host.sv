// SPDX-License-Identifier: Apache-2.0
// The host's AXI4-Lite port: one access at a time, to the page that its address names.
//
// Page 0 has the doorbells, page i + 1 the registers of NPU i. There is nothing behind the last
// page: such an access is answered with SLVERR.
module npus_host #(
    parameter int N    = 2,
    parameter int PAGE = 2  // bits of a page's number
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            s_axil_awvalid,
    output logic            s_axil_awready,
    input  logic [PAGE+11:0] s_axil_awaddr,
    input  logic            s_axil_wvalid,
    output logic            s_axil_wready,
    input  logic [31:0]     s_axil_wdata,
    input  logic [3:0]      s_axil_wstrb,
    output logic            s_axil_bvalid,
    input  logic            s_axil_bready,
    output logic [1:0]      s_axil_bresp,
    input  logic            s_axil_arvalid,
    output logic            s_axil_arready,
    input  logic [PAGE+11:0] s_axil_araddr,
    output logic            s_axil_rvalid,
    input  logic            s_axil_rready,
    output logic [31:0]     s_axil_rdata,
    output logic [1:0]      s_axil_rresp,
    // An access: `select` stays up until `ack`.
    output logic [N:0]      select,  // one bit a page
    output logic            write,
    output logic [11:0]     addr,
    output logic [31:0]     wdata,
    output logic [3:0]      wstrb,
    input  logic [N:0]      ack,
    input  logic [N:0][31:0] rdata,
    input  logic [N:0][1:0] resp
);
  localparam logic [1:0] SLVERR = 2'd2;

  logic            busy, answered, accept_write, accept_read, absent, done;
  logic [PAGE-1:0] page;
  logic [31:0]     value;
  logic [1:0]      result;

  assign accept_write   = !busy && s_axil_awvalid && s_axil_wvalid;
  assign accept_read    = !busy && !accept_write && s_axil_arvalid;
  assign s_axil_awready = accept_write;
  assign s_axil_wready  = accept_write;
  assign s_axil_arready = accept_read;
  assign s_axil_bvalid  = busy && answered && write;
  assign s_axil_rvalid  = busy && answered && !write;
  assign s_axil_bresp   = result;
  assign s_axil_rresp   = result;
  assign s_axil_rdata   = value;
  assign absent         = 32'(page) > 32'(N);
  assign done           = absent || |(ack & select);

  always_comb begin
    select = '0;
    for (int i = 0; i <= N; i++) select[i] = busy && !answered && 32'(page) == i;
  end

  always_ff @(posedge clk)
    if (rst) begin
      busy     <= 1'b0;
      answered <= 1'b0;
    end else if (!busy) begin
      busy     <= accept_write || accept_read;
      answered <= 1'b0;
      write    <= accept_write;
      {page, addr} <= accept_write ? s_axil_awaddr : s_axil_araddr;
      wdata    <= s_axil_wdata;
      wstrb    <= s_axil_wstrb;
    end else if (!answered) begin
      answered <= done;
      value    <= '0;
      result   <= SLVERR;
      for (int i = 0; i <= N; i++)
        if (select[i]) begin
          value  <= rdata[i];
          result <= resp[i];
        end
    end else if (write ? s_axil_bready : s_axil_rready) busy <= 1'b0;
endmodule
