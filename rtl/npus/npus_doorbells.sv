// SPDX-License-Identifier: Apache-2.0
// Page 0: the semaphores of every NPU behind memory-mapped doorbells, the runners' settings, and
// counters. docs/npus.md has the addresses.
//
// A write to a doorbell adds its low byte to the level; runners write 1. One doorbell is rung a
// cycle, in turn. A doorbell of an NPU that is not there, and one whose semaphore would pass 255,
// answer SLVERR and change nothing; the first such address is kept in BAD_BELL.
module npus_doorbells #(
    parameter int N = 2,
    parameter int K = 1
) (
    input  logic             clk,
    input  logic             rst,
    // The host's accesses: held until `ack`.
    input  logic             select,
    input  logic             write,
    input  logic [11:0]      addr,
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic [31:0]      wdata,  // 16 bits at most count
    /* verilator lint_on UNUSEDSIGNAL */
    output logic             ack,
    output logic [31:0]      rdata,
    output logic [1:0]       resp,
    output logic             irq,
    // The runners.
    output logic [N-1:0]       set,
    output logic [3:0]         index,
    input  logic [N-1:0][31:0] shown,
    output logic [N-1:0]       go,
    output logic               stop,
    input  logic [N-1:0]       active,
    input  logic [N-1:0]       failed,
    input  logic [N-1:0][3:0]  take,
    output logic [N-1:0]       taken,
    input  logic [N-1:0]       ring,
    input  logic [N-1:0][11:0] ring_addr,
    output logic [N-1:0]       rung,
    output logic               ring_bad,
    // What happens on the buses in this cycle.
    input  logic             m_read,   // memory words
    input  logic             m_write,
    input  logic [N-1:0]     s_read,   // bus words
    input  logic [N-1:0]     s_write,
    input  logic [N-1:0]     s_read_waits,  // an address waits for its turn
    input  logic [N-1:0]     s_write_waits
);
  localparam logic [31:0] ID = 32'h53594e50;
  localparam logic [1:0]  OKAY = 2'd0, SLVERR = 2'd2;
  localparam int BITS = N > 1 ? $clog2(N) : 1;

  logic [N-1:0][3:0][7:0] level;
  logic [N-1:0]           started;
  logic                   pending, bad;
  logic [11:0]            bad_addr;
  logic [63:0]            cycles;
  logic [31:0]            m_reads, m_writes;
  logic [N-1:0][3:0][31:0] counts;

  // Whose turn it is to ring: the host is the last of the clients.
  logic [N:0]  request, grant;
  logic        host_rings, is_bell, absent, over;
  logic [11:0] bell;
  logic [7:0]  add, now;
  logic [3:0]  npu;
  assign is_bell    = addr[11:10] == 2'b10;
  assign host_rings = select && write && is_bell;
  assign request    = {host_rings, ring};
  npus_round_robin #(.N(N + 1)) arbiter (.clk, .rst, .request, .taken(|request), .grant);
  always_comb begin
    bell = addr;
    for (int i = 0; i < N; i++) if (grant[i]) bell = ring_addr[i];
  end
  assign add      = grant[N] ? wdata[7:0] : 8'd1;
  assign npu      = bell[7:4];
  assign absent   = bell[11:8] != 4'h8 || 32'(npu) >= N;
  assign now      = absent ? '0 : level[BITS'(npu)][bell[3:2]];
  assign over     = 9'(now) + 9'(add) > 9'd255;
  assign ring_bad = absent || over;
  assign rung     = grant[N-1:0];

  always_comb
    for (int i = 0; i < N; i++) begin
      taken[i] = take[i] != 0;
      for (int s = 0; s < 4; s++) taken[i] &= !take[i][s] || level[i][s] != 0;
    end

  always_ff @(posedge clk)
    if (rst) level <= '0;
    else
      for (int i = 0; i < N; i++)
        for (int s = 0; s < 4; s++)
          level[i][s] <= level[i][s] - 8'(taken[i] && take[i][s]) +
              (|request && !ring_bad && 32'(npu) == i && 32'(bell[3:2]) == s ? add : '0);

  // The host's page.
  logic        runner_here, counter_here, begin_run;
  logic [3:0]  which;
  logic [3:0]  others;
  assign which        = addr[9:6];
  assign index        = addr[5:2];
  assign runner_here  = addr[11:10] == 2'b01 && 32'(which) < N;
  assign counter_here = addr[11:10] == 2'b11 && !addr[9] && 32'(addr[8:5]) < N && !addr[4];
  assign others       = addr[5:2];
  assign ack          = select && (!host_rings || grant[N]);
  assign begin_run    = select && write && addr == 12'h008;
  assign go           = begin_run ? wdata[N-1:0] & ~active : '0;
  assign stop         = select && write && addr == 12'h00c;
  always_comb
    for (int i = 0; i < N; i++)
      set[i] = select && write && runner_here && 32'(which) == i && !active[i];

  always_comb begin
    rdata = '0;
    resp  = SLVERR;
    if (host_rings) resp = ring_bad ? SLVERR : OKAY;
    else if (is_bell && addr[11:8] == 4'h8 && 32'(addr[7:4]) < N) begin
      rdata = 32'(level[BITS'(addr[7:4])][addr[3:2]]);
      resp  = OKAY;
    end else if (runner_here) begin
      rdata = shown[BITS'(which)];
      resp  = write && active[BITS'(which)] ? SLVERR : OKAY;
    end else if (counter_here) begin
      rdata = counts[BITS'(addr[8:5])][addr[3:2]];
      resp  = OKAY;
    end else if (addr[11:6] == 0 && others <= 4'd9) begin
      resp = OKAY;
      case (others)
        4'd0:    rdata = ID;
        4'd1:    rdata = 32'(N) | 32'(K) << 8;
        4'd2:    rdata = 32'(active);
        4'd3:    rdata = 32'(failed);
        4'd4:    rdata = 32'(pending);
        4'd5:    rdata = {bad, 19'd0, bad_addr};
        4'd6:    rdata = cycles[31:0];
        4'd7:    rdata = cycles[63:32];
        4'd8:    rdata = m_reads;
        default: rdata = m_writes;
      endcase
    end
  end

  assign irq = pending;
  always_ff @(posedge clk)
    if (rst) begin
      started  <= '0;
      pending  <= 1'b0;
      bad      <= 1'b0;
      bad_addr <= '0;
      cycles   <= '0;
      m_reads  <= '0;
      m_writes <= '0;
      counts   <= '0;
    end else begin
      // GO is seen by the runners in this cycle; `active` tells of it in the next one.
      if (|go) started <= go;
      else if (started != 0 && ((started & active) == 0 || (started & failed) != 0)) begin
        started <= '0;
        pending <= 1'b1;
      end
      if (|go || (select && write && addr == 12'h010)) pending <= 1'b0;
      if (select && write && addr == 12'h014) bad <= 1'b0;
      else if (|request && ring_bad && !bad) begin
        bad      <= 1'b1;
        bad_addr <= bell;
      end
      if (|go) begin
        cycles   <= '0;
        m_reads  <= '0;
        m_writes <= '0;
        counts   <= '0;
      end else if (started != 0) begin
        cycles   <= cycles + 1;
        m_reads  <= m_reads + 32'(m_read);
        m_writes <= m_writes + 32'(m_write);
        for (int i = 0; i < N; i++) begin
          counts[i][0] <= counts[i][0] + 32'(s_read[i]);
          counts[i][1] <= counts[i][1] + 32'(s_write[i]);
          counts[i][2] <= counts[i][2] + 32'(s_read_waits[i]);
          counts[i][3] <= counts[i][3] + 32'(s_write_waits[i]);
        end
      end
    end
endmodule
