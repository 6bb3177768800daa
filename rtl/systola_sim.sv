// SPDX-License-Identifier: Apache-2.0
// Top for cocotb: sim_main.cpp makes the clock, so that a waiting test costs no Python.
// One cycle is 10 time units; public.vlt makes only this module's ports visible.
`timescale 1ns / 1ns
module systola_sim #(
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
    systola_tb #(.ADDR_BITS(ADDR_BITS), .BUS_BYTES(BUS_BYTES)) tb (.*);

    // Wires inside the NPU that no port leads out: see Npu._events in hw_gen/top.py.
    event_trace events (
        .clk, .run(tb.dut.event_run), .read(tb.dut.event_read),
        .stall(tb.dut.event_stall), .index(tb.dut.event_index),
        .post(tb.dut.event_post), .post_engine(tb.dut.event_post_engine),
        .post_index(tb.dut.event_post_index)
    );
endmodule
