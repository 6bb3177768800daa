// SPDX-License-Identifier: Apache-2.0
// Runs one program on the design and compares what it leaves in memory with what it should be:
// the `sim` target of systola.core. sw/cli/export_check.py writes its files.
//
// Arguments: +check=FILE +memory=FILE +control=FILE. Exit code: 0 everything is equal; 1 something
// differs, faults or hangs; 2 bad arguments. Writes check_result.json.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "Vsystola_tb.h"
using Model = Vsystola_tb;
#include "bench.h"
#include "dpi_memory.h"

namespace {

constexpr int kPoison = 0xa5;

struct Output {
    std::string name;
    size_t at, bytes;
};

struct Check {
    uint64_t limit = 0;
    uint32_t start[2] = {}, status[2] = {};
    std::string expected;
    std::vector<std::pair<uint32_t, uint32_t>> writes;
    std::vector<Output> outputs;
};

bool read_check(const std::string& path, Check& check) {
    std::ifstream file(path);
    std::string line, key;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        words >> key;
        if (key == "limit") words >> check.limit;
        if (key == "start") words >> check.start[0] >> check.start[1];
        if (key == "status") words >> check.status[0] >> check.status[1];
        if (key == "expected") words >> check.expected;
        if (key == "write") {
            uint32_t offset, value;
            words >> offset >> value;
            check.writes.emplace_back(offset, value);
        }
        if (key == "output") {
            Output output;
            words >> output.name >> output.at >> output.bytes;
            check.outputs.push_back(output);
        }
        if (!words) return false;
    }
    return check.limit && !check.outputs.empty();
}

uint8_t* map(const std::string& path, size_t& bytes) {
    const int file = open(path.c_str(), O_RDWR);
    if (file < 0) return nullptr;
    bytes = lseek(file, 0, SEEK_END);
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return data == MAP_FAILED ? nullptr : static_cast<uint8_t*>(data);
}

int usage(const char* what) {
    std::fprintf(stderr, "%s\nusage: +check=FILE +memory=FILE +control=FILE\n", what);
    return 2;
}

std::string argument(VerilatedContext& context, const char* name) {
    const std::string text = context.commandArgsPlusMatch(name);
    return text.empty() ? text : text.substr(std::strlen(name) + 1);
}

}  // namespace

int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Check check;
    if (!read_check(argument(context, "check="), check)) return usage("cannot read +check");
    size_t memory_bytes = 0, control_bytes = 0, total = 0, wrong = 0;
    uint8_t* memory = map(argument(context, "memory="), memory_bytes);
    uint8_t* raw = map(argument(context, "control="), control_bytes);
    if (!memory || !raw || control_bytes < sizeof(MemoryControl))
        return usage("cannot map +memory or +control");
    MemoryControl& control = *reinterpret_cast<MemoryControl*>(raw);
    control.rejected = control.violations = 0;
    std::ifstream expected(check.expected, std::ios::binary);
    // The results of an earlier run must not pass for those of this one.
    for (const Output& out : check.outputs) {
        if (out.at + out.bytes > memory_bytes) return usage("an output lies outside the memory");
        std::memset(memory + out.at, kPoison, out.bytes);
    }

    Bench bench(context);
    for (const auto& [offset, value] : check.writes) bench.write(offset, value);
    bench.write(check.start[0], check.start[1]);
    uint64_t cycles = 0;
    while (!bench.interrupt() && cycles < check.limit) {
        bench.cycle();
        ++cycles;
    }
    const uint32_t status = bench.read(check.status[0]);
    bench.finish();

    for (const Output& out : check.outputs) {
        std::vector<char> want(out.bytes);
        if (!expected.read(want.data(), out.bytes)) return usage("the expected bytes are too few");
        for (size_t i = 0; i < out.bytes; ++i) {
            const unsigned got = memory[out.at + i], should = static_cast<uint8_t>(want[i]);
            if (got != should && !wrong++)
                std::printf("%s: byte %zu is %u, expected %u\n", out.name.c_str(), i, got, should);
        }
        total += out.bytes;
    }
    if (status != check.status[1])
        std::printf("status is %u, expected %u, after %llu cycles\n", status, check.status[1],
                    static_cast<unsigned long long>(cycles));
    if (control.rejected || control.violations) std::printf("memory: %s\n", control.message);
    const bool good = !wrong && total && status == check.status[1] && !control.rejected &&
                      !control.violations;
    std::printf("%s  %zu of %zu bytes differ, %llu cycles\n", good ? "PASS" : "FAIL", wrong, total,
                static_cast<unsigned long long>(cycles));
    std::ofstream("check_result.json")
        << "{\"passed\": " << (good ? "true" : "false") << ", \"compared\": " << total
        << ", \"mismatches\": " << wrong << ", \"cycles\": " << cycles << "}\n";
    return good ? 0 : 1;
}
