// SPDX-License-Identifier: Apache-2.0
// When a DRAM behind a controller has the data of an access: banks, rows, refresh, turnaround.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

// All times in picoseconds (sw/runtime/simulator/dram.py has the same layout, names and sources).
struct DramTiming {
    uint64_t present;        // 0: no DRAM, memory of a fixed latency
    uint64_t cycle;          // of the NPU's clock
    uint64_t controller;     // from the NPU's port to the DRAM and back
    uint64_t access_bytes;   // of one access, a burst of the DRAM
    uint64_t data;           // of an access on the data bus
    uint64_t groups, banks;  // bank groups, and banks in each
    uint64_t page_bytes;     // of a row of a bank
    uint64_t read_latency, write_latency;  // from command to data
    uint64_t activate;                     // tRCD: from activation to read or write
    uint64_t precharge;                    // tRP
    uint64_t active;                       // tRAS: from activation to precharge
    uint64_t activate_other, activate_group;  // tRRD_S, tRRD_L: between activations
    uint64_t four_activates;                  // tFAW: of at most four activations
    uint64_t next_other, next_group;          // tCCD_S, tCCD_L: between reads, or writes
    uint64_t turn_other, turn_group;          // tWTR_S, tWTR_L: from written data to a read
    uint64_t read_to_write;                   // from a read to a write
    uint64_t write_recovery;                  // tWR: from written data to precharge
    uint64_t read_to_precharge;               // tRTP
    uint64_t refresh, refresh_every;          // tRFC, tREFI; every 0: never
};

// One channel. Reads are served in the order in which they come, writes wait in a queue until no
// read has work for the data bus, or until there are many. Rows stay open. A row is activated as
// soon as an access to it is known, also while others have the data bus.
class Dram {
public:
    static constexpr size_t kQueue = 128, kMany = 96, kFew = 32;  // writes that wait

    void configure(const DramTiming& timing, uint64_t cycle) {
        t_ = timing;
        reset(cycle);
    }

    // As after power-up: no row is open, and refreshes count from that cycle on. A run that begins
    // with it takes the same cycles whatever ran before.
    void reset(uint64_t cycle) {
        banks_.assign(t_.groups * t_.banks, Bank{});
        groups_.assign(t_.groups, Group{});
        activates_.clear();
        writes_.clear();
        booked_.clear();
        bus_free_ = last_read_ = last_write_ = last_activate_ = written_ = 0;
        used_ = wrote_ = reading_ = false;
        next_refresh_ = cycle * t_.cycle + t_.refresh_every;
    }

    bool present() const { return t_.present; }
    bool full() const { return writes_.size() + booked_.size() >= kQueue; }
    bool busy() const { return !writes_.empty() || !booked_.empty(); }
    uint64_t access_bytes() const { return t_.access_bytes; }

    // The cycle in which the NPU gets data of `address` that it asks for in `cycle`.
    uint64_t read(uint64_t cycle, uint64_t address) {
        // Another part of what was read last is there already.
        if (!reading_ || address != last_address_)
            last_data_ = access(cycle * t_.cycle + t_.controller / 2, address, false);
        last_address_ = address, reading_ = true;
        const uint64_t end = std::max(last_data_, cycle * t_.cycle + t_.controller / 2);
        return (end + t_.controller / 2 + t_.cycle - 1) / t_.cycle;
    }

    // Queue a write; returns the cycle in which the controller answers.
    uint64_t write(uint64_t cycle, uint64_t address) {
        // Parts of an access that still waits are written with it.
        if (std::find(writes_.begin(), writes_.end(), address) == writes_.end())
            writes_.push_back(address);
        return cycle + (t_.controller + t_.cycle - 1) / t_.cycle;
    }

    // Once a cycle: write while nothing is read, or because many writes wait.
    void step(uint64_t cycle) {
        const uint64_t now = cycle * t_.cycle + t_.controller / 2;
        while (!booked_.empty() && booked_.front() <= now) booked_.pop_front();
        if (writes_.empty()) return;
        const bool many = writes_.size() >= kMany;
        while (!writes_.empty() && (many ? writes_.size() > kFew : bus_free_ <= now)) {
            booked_.push_back(access(now, writes_.front(), true));
            writes_.pop_front();
        }
    }

private:
    static constexpr uint64_t kClosed = ~0ull;
    struct Bank {
        uint64_t row = kClosed, activated = 0, column = 0, precharge = 0;
    };
    struct Group {
        uint64_t command = 0, activated = 0, written = 0;
        bool used = false, wrote = false, opened = false;
    };

    // The time at which an access from `from` on has passed the data bus.
    uint64_t access(uint64_t from, uint64_t address, bool write) {
        // Neighbouring accesses go to different groups, rows that follow one another to different
        // banks; the row's bits are mixed in, so that streams a power of two apart do not meet.
        uint64_t rest = address / t_.access_bytes;
        const uint64_t group = rest % t_.groups;
        rest = rest / t_.groups / (t_.page_bytes / t_.access_bytes);
        const uint64_t row = rest / t_.banks;
        const uint64_t number = group * t_.banks + (rest + row) % t_.banks;
        uint64_t at = command(from, number, group, row, write);
        while (t_.refresh_every && at >= next_refresh_) {
            refresh(from);
            at = command(from, number, group, row, write);
        }
        open(from, number, group, row);
        Bank& bank = banks_[number];
        Group& own = groups_[group];
        const uint64_t begin = at + (write ? t_.write_latency : t_.read_latency);
        bus_free_ = begin + t_.data;
        used_ = own.used = true;
        own.command = at;
        if (write) {
            last_write_ = at, written_ = own.written = bus_free_, wrote_ = own.wrote = true;
            bank.precharge = std::max(bank.precharge, bus_free_ + t_.write_recovery);
        } else {
            last_read_ = at;
            bank.precharge = std::max(bank.precharge, at + t_.read_to_precharge);
        }
        return bus_free_;
    }

    // When the row can be activated.
    uint64_t activation(uint64_t from, const Bank& bank, const Group& group) const {
        uint64_t at = std::max(from, bank.column);
        if (bank.row != kClosed) at = std::max(from, bank.precharge) + t_.precharge;
        if (!activates_.empty()) at = std::max(at, last_activate_ + t_.activate_other);
        if (group.opened) at = std::max(at, group.activated + t_.activate_group);
        if (activates_.size() == 4) at = std::max(at, activates_.front() + t_.four_activates);
        return at;
    }

    // When the read or write command can be given.
    uint64_t command(uint64_t from, uint64_t number, uint64_t group, uint64_t row,
                     bool write) const {
        const Bank& bank = banks_[number];
        const Group& own = groups_[group];
        uint64_t at = bank.row == row ? std::max(from, bank.column)
                                      : activation(from, bank, own) + t_.activate;
        if (used_) at = std::max(at, std::max(last_read_, last_write_) + t_.next_other);
        if (own.used) at = std::max(at, own.command + t_.next_group);
        if (write && used_) at = std::max(at, last_read_ + t_.read_to_write);
        if (!write && wrote_) at = std::max(at, written_ + t_.turn_other);
        if (!write && own.wrote) at = std::max(at, own.written + t_.turn_group);
        const uint64_t latency = write ? t_.write_latency : t_.read_latency;
        return bus_free_ > at + latency ? bus_free_ - latency : at;
    }

    void open(uint64_t from, uint64_t number, uint64_t group, uint64_t row) {
        Bank& bank = banks_[number];
        if (bank.row == row) return;
        const uint64_t at = activation(from, bank, groups_[group]);
        bank = Bank{row, at, at + t_.activate, at + t_.active};
        last_activate_ = groups_[group].activated = at;
        groups_[group].opened = true;
        activates_.push_back(at);
        if (activates_.size() > 4) activates_.pop_front();
    }

    // All banks are closed and refreshed; of those while nothing happened, only the last counts.
    void refresh(uint64_t from) {
        if (from > next_refresh_ + t_.refresh_every)
            next_refresh_ += (from - next_refresh_) / t_.refresh_every * t_.refresh_every;
        uint64_t start = std::max(next_refresh_, bus_free_);
        for (const Bank& bank : banks_)
            if (bank.row != kClosed) start = std::max(start, bank.precharge + t_.precharge);
        for (Bank& bank : banks_) bank = Bank{kClosed, 0, start + t_.refresh, 0};
        next_refresh_ += t_.refresh_every;
    }

    DramTiming t_{};
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    std::deque<uint64_t> activates_, writes_;
    std::deque<uint64_t> booked_;  // when writes that have their time on the data bus are done
    uint64_t bus_free_ = 0, last_read_ = 0, last_write_ = 0, last_activate_ = 0, written_ = 0;
    uint64_t next_refresh_ = 0, last_address_ = 0, last_data_ = 0;
    bool used_ = false, wrote_ = false, reading_ = false;
};
