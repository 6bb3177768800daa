// SPDX-License-Identifier: Apache-2.0
// The file behind event_trace.sv: 64-bit records, little endian, of the last run.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "dpi_events: cannot %s: %s\n", what, std::strerror(errno));
    std::exit(2);
}

FILE* stream(void* file) { return static_cast<FILE*>(file); }

}  // namespace

extern "C" {

void* dpi_events_open(const char* path) {
    FILE* file = std::fopen(path, "wb");
    if (!file) fail("open the events' file");
    std::setvbuf(file, nullptr, _IOFBF, 1 << 20);
    return file;
}

void dpi_events_begin(void* file) {
    std::rewind(stream(file));
    if (ftruncate(fileno(stream(file)), 0)) fail("empty the events' file");
}

void dpi_events_put(void* file, long long record) {
    const uint64_t word = static_cast<uint64_t>(record);
    if (std::fwrite(&word, sizeof word, 1, stream(file)) != 1) fail("write the events' file");
}

void dpi_events_end(void* file) {
    if (std::fflush(stream(file))) fail("write the events' file");
}
}
