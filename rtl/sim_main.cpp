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

    vlog_startup_routines_bootstrap();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    value_callbacks();
    while (!context.gotFinish()) {
        settle(*top);
#if VM_TRACE
        if (trace && windows.wanted(context.time())) trace->dump(context.time());
#endif
        if (++steps % kGuardInterval == 0 && getppid() != parent) {
            std::fprintf(stderr, "the process that started this simulation is gone\n");
            std::_Exit(3);
        }
        const uint64_t model = top->eventsPending() ? top->nextTimeSlot() : kNever;
        const uint64_t next = std::min<uint64_t>(VerilatedVpi::cbNextDeadline(), model);
        if (next == kNever) break;
        context.time(next);
        VerilatedVpi::callCbs(cbNextSimTime);
        value_callbacks();
        VerilatedVpi::callTimedCbs();
        value_callbacks();
    }
    top->final();
    VerilatedVpi::callCbs(cbEndOfSimulation);
#if VM_TRACE
    if (trace) trace->close();
#endif
    return context.errorCount() ? 1 : 0;
}
