// SPDX-License-Identifier: Apache-2.0
// Clocks the design with its memory (systola_tb) and drives the register port, without cocotb.
// Include the Verilated model first; its class is `Model`.
#pragma once

#include <cstdint>

#include "verilated.h"

class Bench {
public:
    explicit Bench(VerilatedContext& context) : top_(&context, "") {
        top_.rst = 1;
        for (int i = 0; i < 4; ++i) cycle();
        top_.rst = 0;
        cycle();
    }

    void cycle() {
        top_.clk = 1;
        top_.eval();
        top_.clk = 0;
        top_.eval();
    }

    void write(uint32_t offset, uint32_t value) {
        top_.s_axil_awaddr = offset;
        top_.s_axil_wdata = value;
        top_.s_axil_wstrb = 0xf;
        top_.s_axil_awvalid = top_.s_axil_wvalid = top_.s_axil_bready = 1;
        while (top_.s_axil_awvalid || top_.s_axil_wvalid) {
            top_.eval();
            const bool aw = top_.s_axil_awready, w = top_.s_axil_wready;
            cycle();
            if (aw) top_.s_axil_awvalid = 0;
            if (w) top_.s_axil_wvalid = 0;
        }
        top_.eval();
        while (!top_.s_axil_bvalid) cycle();
        cycle();
        top_.s_axil_bready = 0;
    }

    uint32_t read(uint32_t offset) {
        top_.s_axil_araddr = offset;
        top_.s_axil_arvalid = top_.s_axil_rready = 1;
        for (bool taken = false; !taken;) {
            top_.eval();
            taken = top_.s_axil_arready;
            cycle();
        }
        top_.s_axil_arvalid = 0;
        top_.eval();
        while (!top_.s_axil_rvalid) cycle();
        const uint32_t value = top_.s_axil_rdata;
        cycle();
        top_.s_axil_rready = 0;
        return value;
    }

    bool interrupt() const { return top_.irq; }
    void finish() { top_.final(); }

private:
    Model top_;
};
