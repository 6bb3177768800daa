// SPDX-License-Identifier: Apache-2.0
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
using Model = Vtop;
#include "bench.h"

namespace {

constexpr unsigned kGuardInterval = 1 << 12;  // cycles between looks at the parent

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
