// SPDX-License-Identifier: Apache-2.0
// Simulates the top for an FPGA: bytes of standard input go to its line, bytes of the line to
// standard output, until standard input ends.
//
// Argument: clock cycles of a bit.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

namespace {

// What the host's adapter does: 8 data bits, no parity, one stop bit.
class Sender {
public:
    explicit Sender(int divisor) : divisor_(divisor) {}
    void put(uint8_t byte) { bytes_.push_back(byte); }
    bool idle() const { return bytes_.empty() && left_ == 0; }
    bool step() {
        if (left_ == 0 && !bytes_.empty()) {
            frame_ = (1u << 9 | bytes_.front() << 1);
            bytes_.pop_front();
            left_ = 10 * divisor_;
        }
        if (left_ == 0) return true;
        const bool level = frame_ >> ((10 * divisor_ - left_) / divisor_) & 1;
        --left_;
        return level;
    }

private:
    int divisor_;
    int left_ = 0;
    unsigned frame_ = 0;
    std::deque<uint8_t> bytes_;
};

class Receiver {
public:
    explicit Receiver(int divisor) : divisor_(divisor) {}
    // Whether a byte is complete; it is in `byte`.
    bool step(bool level, uint8_t& byte) {
        if (at_ < 0) {
            if (!level) at_ = 0;
            return false;
        }
        ++at_;
        if (at_ % divisor_ != divisor_ / 2) return false;
        const int bit = at_ / divisor_;
        if (bit >= 1 && bit <= 8) value_ = value_ >> 1 | level << 7;
        if (bit < 9) return false;
        at_ = -1;
        byte = value_;
        return level;
    }

private:
    int divisor_;
    int at_ = -1;
    uint8_t value_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const int divisor = argc > 1 ? std::atoi(argv[1]) : 0;
    if (divisor < 4) {
        std::fprintf(stderr, "usage: simulator DIVISOR, at least 4\n");
        return 2;
    }
    VerilatedContext context;
    auto top = std::make_unique<Vtop>(&context, "");
    Sender sender(divisor);
    Receiver receiver(divisor);
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    constexpr uint64_t kReset = 64;    // cycles in which the top resets itself
    constexpr int kLook = 64;          // cycles between looks at standard input
    constexpr int kQuiet = 1'000'000;  // cycles without a byte after which it waits for one
    int quiet = 0;
    top->rx = 1;
    for (uint64_t cycle = 0;; ++cycle) {
        if (cycle >= kReset && cycle % kLook == 0 && sender.idle()) {
            if (quiet > kQuiet) {
                pollfd wait{0, POLLIN, 0};
                poll(&wait, 1, 100);
            }
            uint8_t buffer[4096];
            const ssize_t count = read(0, buffer, sizeof buffer);
            if (count == 0) break;
            if (count < 0 && errno != EAGAIN && errno != EINTR) return 1;
            for (ssize_t i = 0; i < count; ++i) sender.put(buffer[i]);
            quiet = count > 0 ? 0 : quiet + kLook;
        }
        top->clk = 0;
        top->eval();
        top->rx = sender.step();
        top->clk = 1;
        top->eval();
        uint8_t byte;
        if (receiver.step(top->tx, byte)) {
            if (write(1, &byte, 1) != 1) return 1;
            quiet = 0;
        }
    }
    top->final();
    return 0;
}
