// SPDX-License-Identifier: Apache-2.0
// The memory behind the NPU's AXI4 port: a file shared with Python, read and written once a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dram.h"

// Settings and results, in a file shared with the host (sw/runtime/simulator/control.py has the
// same layout). The host changes it only while the simulation stands still, then bumps
// `generation`.
struct MemoryControl {
    struct Window {
        uint64_t low, high;  // byte addresses, high exclusive
        uint64_t access;     // 1 read, 2 write
    };
    static constexpr uint64_t kMagic = 0x334d415244545359;  // "YSTDRAM3"
    static constexpr int kWindows = 16;
    static constexpr int kMessage = 256;

    uint64_t magic;
    uint64_t generation;
    uint64_t base;     // address of the file's first byte
    uint64_t bytes;    // size of the memory file
    uint64_t latency;  // cycles from address to first data, and from last data to response
    uint64_t stall;    // probability of a stall, per channel and cycle, times 2^32
    uint64_t seed;
    uint64_t error_low, error_high;  // addresses that answer SLVERR, high exclusive
    uint64_t error_access;           // 1 reads, 2 writes
    uint64_t lenient;                // 1: what lies outside is only counted: reads give 0xee
    uint64_t windows;                // how many of `window` are used; 0: the whole file
    Window window[kWindows];
    DramTiming dram;  // in place of `latency`, if it is present
    // Results; the host clears them.
    uint64_t read_bursts, write_bursts, read_beats, write_beats;
    uint64_t most_reads;  // most read bursts outstanding at one time
    uint64_t rejected;    // bursts outside every window or the file, and bytes written outside
    uint64_t violations;  // AXI rules broken by the NPU
    char message[kMessage];  // the first rejected burst or violation
};
static_assert(sizeof(MemoryControl) == 8 * 12 + 24 * 16 + 8 * 25 + 8 * 7 + 256, "layout shared with Python");

struct AxiAddress {
    uint64_t addr;
    uint32_t attributes;  // bit 0 valid, 1 id, 9:2 len, 12:10 size, 14:13 burst
    bool valid() const { return attributes & 1; }
    unsigned id() const { return attributes >> 1 & 1; }
    unsigned beats() const { return (attributes >> 2 & 255) + 1; }
    unsigned size() const { return attributes >> 10 & 7; }
    unsigned burst() const { return attributes >> 13 & 3; }
    bool operator==(const AxiAddress& o) const {
        return addr == o.addr && attributes == o.attributes;
    }
};

class DpiMemory {
public:
    DpiMemory(const std::string& memory_path, const std::string& control_path, unsigned bus_bytes);

    // Bits of `step`'s inputs and result besides the addresses.
    enum In : uint32_t { kWValid = 1, kWLast = 2, kRReady = 4, kBReady = 8 };
    enum Out : uint32_t {
        kArReady = 1 << 0,
        kAwReady = 1 << 1,
        kWReady = 1 << 2,
        kRValid = 1 << 3,
        kRId = 1 << 4,
        kRRespShift = 5,
        kRLast = 1 << 7,
        kBValid = 1 << 8,
        kBId = 1 << 9,
        kBRespShift = 10,
        kIdle = 1 << 12,  // nothing to do until an address or data comes
        kData = 1 << 13,  // rdata is a new word (otherwise it stays)
    };

    // One rising edge: what the NPU drove before it, what the memory drives after it.
    uint32_t step(uint64_t cycle, const AxiAddress& ar, const AxiAddress& aw, uint32_t in,
                  const uint32_t* wdata, uint64_t wstrb, uint32_t* rdata);
    void reset();

private:
    enum Access : uint64_t { kRead = 1, kWrite = 2 };
    enum Response : uint32_t { kOkay = 0, kSlvErr = 2 };
    struct Burst {
        AxiAddress request;
        uint64_t low = 0, high = 0;  // the window that it lies in
        uint64_t due = 0;      // first cycle in which the answer may be driven
        uint32_t response = kOkay;
        unsigned beat = 0;     // read: next beat to send; write: beats received
        std::vector<uint8_t> data;
        std::vector<uint64_t> strobes;
        std::vector<uint64_t> when;  // read from DRAM: the cycle of each of its accesses
    };
    struct WriteBeat {
        std::vector<uint8_t> data;
        uint64_t strobe;
        bool last;
    };

    void configure();
    void map_memory();
    void accept_read(const AxiAddress& ar);
    void accept_data(const uint32_t* wdata, uint64_t wstrb, bool last);
    void match_data();
    void schedule_read(Burst& burst);
    uint64_t schedule_write(const Burst& burst);
    bool commit(const Burst& burst);
    void drive_read(uint32_t* rdata);
    void drive_response();
    std::deque<Burst>* choose(std::deque<Burst> (&queues)[2]);
    void check_address(const char* channel, const AxiAddress& a);
    void check_stable(const char* channel, const AxiAddress& now, AxiAddress& before, bool taken);
    uint32_t check_access(Burst& burst, Access access);
    void read_word(const Burst& burst, uint64_t address, uint8_t* to) const;
    void complain(uint64_t& count, const std::string& text);
    uint64_t beat_address(const AxiAddress& a, unsigned beat) const;
    uint32_t draw();
    bool stalls();
    std::vector<uint8_t> buffer(size_t bytes);

    std::string memory_path_;
    MemoryControl* control_;
    uint8_t* memory_ = nullptr;
    size_t mapped_ = 0;
    unsigned bus_bytes_;
    Dram dram_;
    uint64_t generation_ = ~0ull;
    uint64_t cycle_ = 0;
    uint64_t random_ = 0;
    uint32_t out_ = 0;
    std::deque<Burst> reads_[2], answers_[2];
    std::deque<unsigned> read_order_, answer_order_;  // ids in order of arrival
    std::deque<Burst> writes_;                         // addresses still waiting for data
    std::deque<WriteBeat> early_;                      // data that came before its address
    std::vector<std::vector<uint8_t>> spare_;
    AxiAddress ar_before_{}, aw_before_{};
    bool w_waiting_ = false;
    uint64_t w_strobe_ = 0;
    bool w_last_ = false;
    std::vector<uint8_t> w_data_;
};
