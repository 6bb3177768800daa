// SPDX-License-Identifier: Apache-2.0
// The simulator program: Verilated model, cocotb through VPI, and a guard that ends the
// simulation when the process that started it is gone.
//
// Arguments: --trace FILE (debug build), then plus-args.
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

}  // namespace

int main(int argc, char** argv) {
    const char* trace_path = nullptr;
    for (int i = 1; i + 1 < argc; ++i)
        if (!std::strcmp(argv[i], "--trace")) trace_path = argv[i + 1];

    VerilatedContext& context = *Verilated::threadContextp();
    context.commandArgs(argc, argv);
    auto top = std::make_unique<Vtop>(&context, "");
    Verilated::fatalOnVpiError(false);  // cocotb probes for objects that need not exist

#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace;
    context.traceEverOn(true);
    if (trace_path) {
        trace = std::make_unique<VerilatedVcdC>();
        top->trace(trace.get(), 99);
        trace->open(trace_path);
    }
#else
    if (trace_path) {
        std::fprintf(stderr, "--trace needs the debug build\n");
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
        if (trace) trace->dump(context.time());
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
