// The yardstick of `make simspeed`: the same design and memory, no cocotb, no VPI, clocked by a
// plain loop. Runs one program and prints cycles and seconds as JSON.
//
// Arguments: LIMIT START_REG START_VALUE STATUS_REG [REG VALUE]… then plus-args.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr unsigned kGuardInterval = 1 << 12;  // cycles between looks at the parent

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
    Vtop top_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<uint64_t> numbers;
    for (int i = 1; i < argc && argv[i][0] != '+'; ++i)
        numbers.push_back(std::strtoull(argv[i], nullptr, 0));
    if (numbers.size() < 4 || numbers.size() % 2) {
        std::fprintf(stderr, "usage: LIMIT START_REG START_VALUE STATUS_REG [REG VALUE]... +args\n");
        return 2;
    }
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Bench bench(context);
    for (size_t i = 4; i < numbers.size(); i += 2) bench.write(numbers[i], numbers[i + 1]);

    const pid_t parent = getppid();
    const auto start = std::chrono::steady_clock::now();
    bench.write(numbers[1], numbers[2]);
    uint64_t cycles = 0;
    while (!bench.interrupt() && cycles < numbers[0]) {
        bench.cycle();
        if (++cycles % kGuardInterval == 0 && getppid() != parent) return 3;
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    const uint32_t status = bench.read(numbers[3]);
    bench.finish();
    std::printf("{\"cycles\": %llu, \"wall_s\": %.6f, \"status\": %u}\n",
                static_cast<unsigned long long>(cycles), wall.count(), status);
    return 0;
}
