// SPDX-License-Identifier: Apache-2.0
// The registers of one NPU for two clients, the runner before the host: one access at a time.
// A client holds its request until its `ack`, which comes with the answer.
module npus_port (
    input  logic        clk,
    input  logic        rst,
    input  logic [1:0]       valid,  // 0 runner, 1 host
    input  logic [1:0]       write,
    input  logic [1:0][11:0] addr,
    input  logic [1:0][31:0] wdata,
    input  logic [1:0][3:0]  wstrb,
    output logic [1:0]       ack,
    output logic [31:0]      rdata,
    output logic [1:0]       resp,
    output logic        m_axil_awvalid,
    input  logic        m_axil_awready,
    output logic [11:0] m_axil_awaddr,
    output logic        m_axil_wvalid,
    input  logic        m_axil_wready,
    output logic [31:0] m_axil_wdata,
    output logic [3:0]  m_axil_wstrb,
    input  logic        m_axil_bvalid,
    output logic        m_axil_bready,
    input  logic [1:0]  m_axil_bresp,
    output logic        m_axil_arvalid,
    input  logic        m_axil_arready,
    output logic [11:0] m_axil_araddr,
    input  logic        m_axil_rvalid,
    output logic        m_axil_rready,
    input  logic [31:0] m_axil_rdata,
    input  logic [1:0]  m_axil_rresp
);
  logic busy, client, writes;

  assign m_axil_awaddr = addr[client];
  assign m_axil_araddr = addr[client];
  assign m_axil_wdata  = wdata[client];
  assign m_axil_wstrb  = wstrb[client];
  assign m_axil_bready = 1'b1;
  assign m_axil_rready = 1'b1;
  assign rdata         = m_axil_rdata;
  assign resp          = writes ? m_axil_bresp : m_axil_rresp;
  always_comb begin
    ack         = '0;
    ack[client] = busy && (writes ? m_axil_bvalid : m_axil_rvalid);
  end

  always_ff @(posedge clk)
    if (rst) begin
      busy           <= 1'b0;
      client         <= 1'b0;
      writes         <= 1'b0;
      m_axil_awvalid <= 1'b0;
      m_axil_wvalid  <= 1'b0;
      m_axil_arvalid <= 1'b0;
    end else if (!busy) begin
      busy           <= |valid;
      client         <= !valid[0];
      writes         <= write[!valid[0]];
      m_axil_awvalid <= |valid && write[!valid[0]];
      m_axil_wvalid  <= |valid && write[!valid[0]];
      m_axil_arvalid <= |valid && !write[!valid[0]];
    end else begin
      if (m_axil_awready) m_axil_awvalid <= 1'b0;
      if (m_axil_wready) m_axil_wvalid <= 1'b0;
      if (m_axil_arready) m_axil_arvalid <= 1'b0;
      if (|ack) busy <= 1'b0;
    end
endmodule
