// SPDX-License-Identifier: Apache-2.0
// The simulator program: Verilated model, cocotb through VPI, and a guard that ends the
// simulation when the process that started it is gone.
//
// Arguments: --trace FILE, --trace-windows PERIOD,SIZE,SEED (builds with waves), then plus-args.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

extern "C" void vlog_startup_routines_bootstrap(void);

namespace {

constexpr uint64_t kNever = ~0ull;
constexpr uint64_t kHalf = 5;  // time from one edge of the clock to the next
constexpr unsigned kGuardInterval = 1 << 12;  // time steps between looks at the parent

bool value_callbacks() {
    bool any = false;
    while (VerilatedVpi::callValueCbs()) any = true;
    return any;
}

// Evaluates until neither the model nor a callback changes anything at this time.
void settle(Vtop& top) {
    do {
        do {
            top.eval_step();
            VerilatedVpi::clearEvalNeeded();
            VerilatedVpi::doInertialPuts();
            value_callbacks();
        } while (VerilatedVpi::evalNeeded());
        VerilatedVpi::callCbs(cbReadWriteSynch);
        VerilatedVpi::doInertialPuts();
        value_callbacks();
    } while (VerilatedVpi::evalNeeded());
    top.eval_end_step();
    VerilatedVpi::callCbs(cbReadOnlySynch);
}

#ifdef SYSTOLA_CLOCK
// The clock of the design, from time 0 on. Without it the test makes one, or Verilog does.
class Clock {
public:
    explicit Clock(Vtop& top) : top_(top) { top_.clk = 0; }
    uint64_t edge() const { return edge_; }
    void reach(uint64_t time) {
        if (time != edge_) return;
        top_.clk = !top_.clk;
        edge_ += kHalf;
    }
    // Runs through edges that no callback waits for but those of changed values, up to the next
    // look at the parent. Returns whether a value has changed that one waits for.
    bool run(VerilatedContext& context, unsigned& steps) {
        for (; steps % kGuardInterval && quiet() && edge_ < VerilatedVpi::cbNextDeadline(); ++steps) {
            context.time(edge_);
            reach(edge_);
            top_.eval();
            if (value_callbacks() || context.gotFinish()) return true;
        }
        return false;
    }

private:
    static bool quiet() {
        for (uint32_t reason : {cbReadWriteSynch, cbReadOnlySynch, cbNextSimTime})
            if (VerilatedVpi::hasCbs(reason)) return false;
        return true;
    }
    Vtop& top_;
    uint64_t edge_ = kHalf;
};
#else
class Clock {
public:
    explicit Clock(Vtop&) {}
    uint64_t edge() const { return kNever; }
    void reach(uint64_t) {}
    bool run(VerilatedContext&, unsigned&) { return false; }
};
#endif

#if VM_TRACE
// Cycles whose waves are written: all, or in each PERIOD cycles SIZE that follow each other, from
// one that is drawn. In windows there is one dump a cycle, before the clock's next rising edge.
class Windows {
public:
    explicit Windows(const char* text) {
        if (text && std::sscanf(text, "%llu,%llu,%llu", &period_, &size_, &seed_) != 3) {
            std::fprintf(stderr, "--trace-windows %s: not PERIOD,SIZE,SEED\n", text);
            std::exit(2);
        }
    }
    bool wanted(uint64_t time) {
        if (!period_) return true;
        if (time % kCycle) return false;
        const unsigned long long cycle = time / kCycle;
        if (cycle / period_ != drawn_for_) {
            drawn_for_ = cycle / period_;
            first_ = drawn_for_ * period_ + draw(seed_ + drawn_for_) % (period_ - size_ + 1);
        }
        return cycle >= first_ && cycle < first_ + size_;
    }

private:
    static constexpr uint64_t kCycle = 10;
    static uint64_t draw(uint64_t x) {  // splitmix64
        x += 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        return x ^ (x >> 31);
    }
    unsigned long long period_ = 0, size_ = 0, seed_ = 0, drawn_for_ = ~0ull, first_ = 0;
};
#endif

}  // namespace

int main(int argc, char** argv) {
    const char* trace_path = nullptr;
    const char* trace_windows = nullptr;
    for (int i = 1; i + 1 < argc; ++i) {
        if (!std::strcmp(argv[i], "--trace")) trace_path = argv[i + 1];
        if (!std::strcmp(argv[i], "--trace-windows")) trace_windows = argv[i + 1];
    }

    VerilatedContext& context = *Verilated::threadContextp();
    context.commandArgs(argc, argv);
    auto top = std::make_unique<Vtop>(&context, "");
    Verilated::fatalOnVpiError(false);  // cocotb probes for objects that need not exist

#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace;
    Windows windows(trace_windows);
    context.traceEverOn(true);
    if (trace_path) {
        trace = std::make_unique<VerilatedVcdC>();
        top->trace(trace.get(), 99);
        trace->open(trace_path);
    }
#else
    if (trace_path || trace_windows) {
        std::fprintf(stderr, "--trace needs a build with waves\n");
        return 2;
    }
#endif

    const pid_t parent = getppid();
    unsigned steps = 0;
    Clock clock(*top);

    vlog_startup_routines_bootstrap();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    value_callbacks();
    while (!context.gotFinish()) {
        settle(*top);
#if VM_TRACE
        if (trace && windows.wanted(context.time())) trace->dump(context.time());
#endif
        if (steps++ % kGuardInterval == 0 && getppid() != parent) {
            std::fprintf(stderr, "the process that started this simulation is gone\n");
            std::_Exit(3);
        }
#if !VM_TRACE
        if (clock.run(context, steps)) continue;
#endif
        const uint64_t model = top->eventsPending() ? top->nextTimeSlot() : clock.edge();
        const uint64_t next = std::min<uint64_t>(VerilatedVpi::cbNextDeadline(), model);
        if (next == kNever) break;
        context.time(next);
        VerilatedVpi::callCbs(cbNextSimTime);
        value_callbacks();
        VerilatedVpi::callTimedCbs();
        value_callbacks();
        clock.reach(next);
    }
    top->final();
    VerilatedVpi::callCbs(cbEndOfSimulation);
#if VM_TRACE
    if (trace) trace->close();
#endif
    return context.errorCount() ? 1 : 0;
}
