// SPDX-License-Identifier: Apache-2.0
#include "dpi_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
    std::fprintf(stderr, "dpi_memory: %s %s: %s\n", what.c_str(), path.c_str(), strerror(errno));
    std::exit(2);
}

// A mapped file that someone cuts off, or whose disk is full or gone, ends a process with SIGBUS.
extern "C" void bus_error(int) {
    static const char text[] =
        "dpi_memory: bus error: the file of the simulated memory cannot be read or written; is the "
        "disk of the temporary folder full? Set TMPDIR to a folder on another one\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
    _exit(2);
}

void* map_file(const std::string& path, size_t bytes) {
    int fd = open(path.c_str(), O_RDWR);
    if (fd < 0) fail("cannot open", path);
    struct stat facts;
    if (fstat(fd, &facts)) fail("cannot look at", path);
    if (static_cast<uint64_t>(facts.st_size) < bytes) {
        std::fprintf(stderr, "dpi_memory: %s has %lld bytes, needs %zu\n", path.c_str(),
                     static_cast<long long>(facts.st_size), bytes);
        std::exit(2);
    }
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail("cannot map", path);
    close(fd);
    return at;
}

std::string hex(uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

}  // namespace

DpiMemory::DpiMemory(const std::string& memory_path, const std::string& control_path,
                     unsigned bus_bytes)
    : memory_path_(memory_path), bus_bytes_(bus_bytes) {
    std::signal(SIGBUS, bus_error);
    control_ = static_cast<MemoryControl*>(map_file(control_path, sizeof(MemoryControl)));
    if (control_->magic != MemoryControl::kMagic) {
        std::fprintf(stderr, "dpi_memory: %s has another layout\n", control_path.c_str());
        std::exit(2);
    }
    reset();
}

void DpiMemory::reset() {
    for (auto* queues : {reads_, answers_}) queues[0].clear(), queues[1].clear();
    read_order_.clear();
    answer_order_.clear();
    writes_.clear();
    early_.clear();
    ar_before_ = aw_before_ = AxiAddress{};
    w_waiting_ = false;
    out_ = 0;
    dram_.reset(cycle_);
}

void DpiMemory::configure() {
    generation_ = control_->generation;
    dram_.configure(control_->dram, cycle_);
    random_ = control_->seed;
    // Neighbouring seeds must not give the same sequence one step apart.
    random_ = uint64_t{draw()} << 32 | draw();
    if (mapped_ != control_->bytes) map_memory();
}

void DpiMemory::map_memory() {
    if (memory_) munmap(memory_, mapped_);
    mapped_ = control_->bytes;
    memory_ = static_cast<uint8_t*>(map_file(memory_path_, mapped_));
}

// splitmix64: a seed gives the same run on every machine.
uint32_t DpiMemory::draw() {
    uint64_t z = random_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) >> 32;
}

bool DpiMemory::stalls() { return control_->stall && draw() < control_->stall; }

std::vector<uint8_t> DpiMemory::buffer(size_t bytes) {
    if (spare_.empty()) return std::vector<uint8_t>(bytes);
    std::vector<uint8_t> out = std::move(spare_.back());
    spare_.pop_back();
    out.resize(bytes);
    return out;
}

void DpiMemory::complain(uint64_t& count, const std::string& text) {
    if (!control_->rejected && !control_->violations)
        std::snprintf(control_->message, MemoryControl::kMessage, "cycle %llu: %s",
                      static_cast<unsigned long long>(cycle_), text.c_str());
    ++count;
}

uint64_t DpiMemory::beat_address(const AxiAddress& a, unsigned beat) const {
    const uint64_t step = 1ull << a.size();
    const uint64_t addr = (a.addr & ~(step - 1)) + beat * step;
    return addr & ~static_cast<uint64_t>(bus_bytes_ - 1);
}

void DpiMemory::check_address(const char* channel, const AxiAddress& a) {
    const std::string where = std::string(channel) + " " + hex(a.addr);
    const uint64_t step = 1ull << a.size();
    const uint64_t end = (a.addr & ~(step - 1)) + a.beats() * step - 1;
    if (a.burst() != 1)
        complain(control_->violations, where + ": burst type must be INCR");
    if (step > bus_bytes_)
        complain(control_->violations, where + ": size exceeds the bus");
    if (a.addr >> 12 != end >> 12)
        complain(control_->violations, where + ": burst of " + std::to_string(a.beats()) +
                                           " beats crosses a 4 KiB boundary");
}

// A2: an address that is not taken must stay as it is.
void DpiMemory::check_stable(const char* channel, const AxiAddress& now, AxiAddress& before,
                             bool taken) {
    if (before.valid() && !(now == before))
        complain(control_->violations,
                 std::string(channel) + " " + hex(before.addr) + ": changed before it was taken");
    before = taken || !now.valid() ? AxiAddress{} : now;
}

// A burst moves whole words. Each must have a byte of the window; which bytes a write touches is
// known from its strobes (`commit`).
uint32_t DpiMemory::check_access(Burst& burst, Access access) {
    const AxiAddress& a = burst.request;
    const uint64_t low = beat_address(a, 0), last = beat_address(a, a.beats() - 1);
    const MemoryControl& c = *control_;
    const uint64_t word = bus_bytes_ - 1;
    auto covers = [&](uint64_t from, uint64_t to) {
        burst.low = from, burst.high = to;
        return low >= (from & ~word) && last < to && low <= last;
    };
    const uint64_t end = c.base + c.bytes;
    bool inside = false;
    for (uint64_t i = 0; i < c.windows && !inside; ++i)
        inside = (c.window[i].access & access) && covers(c.window[i].low, c.window[i].high) &&
                 c.window[i].low >= c.base && c.window[i].high <= end;
    if (!c.windows) inside = covers(c.base, end);
    if (!inside) {
        burst.low = burst.high = 0;
        complain(control_->rejected, std::string(access == kRead ? "read" : "write") + " of " +
                                         std::to_string(last - low + bus_bytes_) + " bytes at " +
                                         hex(low) + " lies outside the regions that allow it");
        return c.lenient ? kOkay : kSlvErr;
    }
    const bool bad =
        (c.error_access & access) && low < c.error_high && last + bus_bytes_ > c.error_low;
    return bad ? kSlvErr : kOkay;
}

// Bytes beside the window, in its first and last word, are no zeros that somebody may rely on.
void DpiMemory::read_word(const Burst& burst, uint64_t address, uint8_t* to) const {
    const uint64_t from = std::max(address, burst.low);
    const uint64_t end = std::min(address + bus_bytes_, burst.high);
    std::memset(to, 0xee, bus_bytes_);
    if (from < end) std::memcpy(to + (from - address), memory_ + (from - control_->base), end - from);
}

// Reads take their data when the address is taken and writes give theirs when the response is
// driven: the earliest and the latest moment that AXI allows, so that a program which relies on
// anything but responses goes wrong here too.
void DpiMemory::accept_read(const AxiAddress& ar) {
    check_address("AR", ar);
    Burst burst;
    burst.request = ar;
    burst.due = cycle_ + control_->latency - 1;
    if (dram_.present()) schedule_read(burst);
    burst.response = check_access(burst, kRead);
    burst.data = buffer(size_t{ar.beats()} * bus_bytes_);
    for (unsigned i = 0; i < ar.beats() && burst.response == kOkay; ++i)
        read_word(burst, beat_address(ar, i), &burst.data[size_t{i} * bus_bytes_]);
    if (burst.response != kOkay) std::fill(burst.data.begin(), burst.data.end(), 0xee);
    reads_[ar.id()].push_back(std::move(burst));
    read_order_.push_back(ar.id());
    ++control_->read_bursts;
    control_->most_reads =
        std::max<uint64_t>(control_->most_reads, reads_[0].size() + reads_[1].size());
}

void DpiMemory::schedule_read(Burst& burst) {
    const uint64_t size = dram_.access_bytes();
    const uint64_t last = beat_address(burst.request, burst.request.beats() - 1);
    for (uint64_t at = beat_address(burst.request, 0) / size; at <= last / size; ++at)
        burst.when.push_back(dram_.read(cycle_, at * size));
    burst.due = burst.when.front();
}

uint64_t DpiMemory::schedule_write(const Burst& burst) {
    const uint64_t size = dram_.access_bytes();
    const uint64_t last = beat_address(burst.request, burst.request.beats() - 1);
    uint64_t due = cycle_;
    for (uint64_t at = beat_address(burst.request, 0) / size; at <= last / size; ++at)
        due = dram_.write(cycle_, at * size);
    return due;
}

void DpiMemory::accept_data(const uint32_t* wdata, uint64_t wstrb, bool last) {
    WriteBeat beat{buffer(bus_bytes_), wstrb, last};
    std::memcpy(beat.data.data(), wdata, bus_bytes_);
    early_.push_back(std::move(beat));
    ++control_->write_beats;
}

void DpiMemory::match_data() {
    while (!writes_.empty() && !early_.empty()) {
        Burst& burst = writes_.front();
        WriteBeat& beat = early_.front();
        const bool last = burst.beat + 1 == burst.request.beats();
        if (beat.last != last)
            complain(control_->violations, "W of " + hex(burst.request.addr) + ": wlast is " +
                                               std::to_string(beat.last) + " on beat " +
                                               std::to_string(burst.beat + 1) + " of " +
                                               std::to_string(burst.request.beats()));
        std::memcpy(&burst.data[size_t{burst.beat} * bus_bytes_], beat.data.data(), bus_bytes_);
        burst.strobes[burst.beat++] = beat.strobe;
        spare_.push_back(std::move(beat.data));
        early_.pop_front();
        if (!last) continue;
        burst.due = dram_.present() ? schedule_write(burst) : cycle_ + control_->latency - 1;
        const unsigned id = burst.request.id();
        answers_[id].push_back(std::move(burst));
        answer_order_.push_back(id);
        writes_.pop_front();
    }
}

// Write what lies in the window; false: a byte beside it was strobed.
bool DpiMemory::commit(const Burst& burst) {
    const uint64_t all = bus_bytes_ == 64 ? ~0ull : (1ull << bus_bytes_) - 1;
    bool exact = true;
    for (unsigned i = 0; i < burst.request.beats(); ++i) {
        const uint64_t address = beat_address(burst.request, i);
        const uint8_t* from = &burst.data[size_t{i} * bus_bytes_];
        const bool whole = address >= burst.low && address + bus_bytes_ <= burst.high;
        if (whole && burst.strobes[i] == all) {
            std::memcpy(memory_ + (address - control_->base), from, bus_bytes_);
            continue;
        }
        for (unsigned b = 0; b < bus_bytes_; ++b) {
            if (!(burst.strobes[i] >> b & 1)) continue;
            if (address + b >= burst.low && address + b < burst.high)
                memory_[address + b - control_->base] = from[b];
            else if (burst.high)  // a burst outside every window has been counted
                exact = false, complain(control_->rejected, "write of a byte at " + hex(address + b) +
                                                                " lies outside the region");
        }
    }
    return exact;
}

// In order of arrival; under stalls, a random one of the two ids, each in order.
std::deque<DpiMemory::Burst>* DpiMemory::choose(std::deque<Burst> (&queues)[2]) {
    const bool is_read = &queues == &reads_;
    auto ready = [&](unsigned id) {
        return !queues[id].empty() && queues[id].front().due <= cycle_;
    };
    if (!control_->stall) {
        const auto& order = is_read ? read_order_ : answer_order_;
        if (order.empty() || !ready(order.front())) return nullptr;
        return &queues[order.front()];
    }
    if (stalls()) return nullptr;
    const unsigned first = draw() & 1;
    for (unsigned id : {first, first ^ 1})
        if (ready(id)) return &queues[id];
    return nullptr;
}

void DpiMemory::drive_read(uint32_t* rdata) {
    std::deque<Burst>* queue = choose(reads_);
    if (!queue) return;
    Burst& burst = queue->front();
    const bool last = burst.beat + 1 == burst.request.beats();
    std::memcpy(rdata, &burst.data[size_t{burst.beat++} * bus_bytes_], bus_bytes_);
    out_ |= kRValid | kData | burst.response << kRRespShift;
    if (burst.request.id()) out_ |= kRId;
    ++control_->read_beats;
    if (!last && !burst.when.empty()) {
        const uint64_t size = dram_.access_bytes();
        const uint64_t first = beat_address(burst.request, 0) / size;
        burst.due = burst.when[beat_address(burst.request, burst.beat) / size - first];
    }
    if (!last) return;
    out_ |= kRLast;
    read_order_.erase(std::find(read_order_.begin(), read_order_.end(), burst.request.id()));
    spare_.push_back(std::move(burst.data));
    queue->pop_front();
}

void DpiMemory::drive_response() {
    std::deque<Burst>* queue = choose(answers_);
    if (!queue) return;
    Burst& burst = queue->front();
    if (burst.response == kOkay && !commit(burst) && !control_->lenient) burst.response = kSlvErr;
    out_ |= kBValid | burst.response << kBRespShift;
    if (burst.request.id()) out_ |= kBId;
    answer_order_.erase(
        std::find(answer_order_.begin(), answer_order_.end(), burst.request.id()));
    spare_.push_back(std::move(burst.data));
    queue->pop_front();
}

uint32_t DpiMemory::step(uint64_t cycle, const AxiAddress& ar, const AxiAddress& aw, uint32_t in,
                         const uint32_t* wdata, uint64_t wstrb, uint32_t* rdata) {
    cycle_ = cycle;
    if (generation_ != control_->generation) configure();
    if (dram_.busy()) dram_.step(cycle);

    const bool ar_taken = ar.valid() && (out_ & kArReady);
    const bool aw_taken = aw.valid() && (out_ & kAwReady);
    const bool w_valid = in & kWValid;
    const bool w_taken = w_valid && (out_ & kWReady);
    check_stable("AR", ar, ar_before_, ar_taken);
    check_stable("AW", aw, aw_before_, aw_taken);
    if (w_waiting_ && (!w_valid || wstrb != w_strobe_ || bool(in & kWLast) != w_last_ ||
                       std::memcmp(w_data_.data(), wdata, bus_bytes_)))
        complain(control_->violations, "W: changed before it was taken");
    w_waiting_ = w_valid && !w_taken;
    if (w_waiting_) {
        w_strobe_ = wstrb;
        w_last_ = in & kWLast;
        const auto* bytes = reinterpret_cast<const uint8_t*>(wdata);
        w_data_.assign(bytes, bytes + bus_bytes_);
    }

    if (ar_taken) accept_read(ar);
    if (aw_taken) {
        check_address("AW", aw);
        Burst burst;
        burst.request = aw;
        burst.response = check_access(burst, kWrite);
        burst.data = buffer(size_t{aw.beats()} * bus_bytes_);
        burst.strobes.resize(aw.beats());
        writes_.push_back(std::move(burst));
        ++control_->write_bursts;
    }
    if (w_taken) accept_data(wdata, wstrb, in & kWLast);
    match_data();

    constexpr uint32_t kR = kRValid | kRId | 3u << kRRespShift | kRLast;
    constexpr uint32_t kB = kBValid | kBId | 3u << kBRespShift;
    out_ &= kR | kB;
    if (!(out_ & kRValid) || (in & kRReady)) out_ &= ~kR, drive_read(rdata);
    if (!(out_ & kBValid) || (in & kBReady)) out_ &= ~kB, drive_response();
    if (!stalls()) out_ |= kArReady;
    if (!stalls()) out_ |= kAwReady;
    if (!stalls() && !dram_.full()) out_ |= kWReady;
    const bool waiting = (out_ & (kRValid | kBValid)) || !read_order_.empty() ||
                         !answer_order_.empty() || !writes_.empty() || !early_.empty() ||
                         ar_before_.valid() || aw_before_.valid() || w_waiting_ || dram_.busy();
    if (waiting) return out_;
    // Idle cycles draw nothing, so that a run's stalls do not depend on the time before it.
    if (control_->stall) out_ &= ~(kArReady | kAwReady | kWReady);
    return out_ | kIdle;
}

extern "C" {

void* dpi_memory_open(const char* memory, const char* control, int bus_bytes) {
    return new DpiMemory(memory, control, bus_bytes);
}

void dpi_memory_reset(void* memory) { static_cast<DpiMemory*>(memory)->reset(); }

int dpi_memory_step(void* memory, long long cycle, long long ar_addr, int ar, long long aw_addr,
                    int aw, int in, const uint32_t* wdata, long long wstrb, uint32_t* rdata) {
    return static_cast<int>(static_cast<DpiMemory*>(memory)->step(
        cycle, {static_cast<uint64_t>(ar_addr), static_cast<uint32_t>(ar)},
        {static_cast<uint64_t>(aw_addr), static_cast<uint32_t>(aw)}, static_cast<uint32_t>(in),
        wdata, static_cast<uint64_t>(wstrb), rdata));
}
}
