// PyTorch's allocator for the device: memory of the host, counted.
//
// A storage of PyTorch is made and freed in C++, so its allocator has to be there as well. It is
// the only part of the device that is. Of PyTorch's headers it takes those of c10, which compile in
// two seconds; memory.py builds it and calls the functions at the end.

#include <c10/core/Allocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace {

std::atomic<std::int64_t> used{0};
std::atomic<std::int64_t> peak{0};

struct Block {
  void* data;
  std::int64_t bytes;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  used -= block->bytes;
  c10::free_cpu(block->data);
  delete block;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* block = new Block{c10::alloc_cpu(bytes), static_cast<std::int64_t>(bytes)};
    const auto now = used += block->bytes;
    auto most = peak.load();
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
    return {block->data, block, &release, c10::Device(c10::DeviceType::PrivateUse1, 0)};
  }

  // No raw pointers: what `release` needs is not in them.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

Allocator allocator;

}  // namespace

extern "C" {
void systola_register() { c10::SetAllocator(c10::DeviceType::PrivateUse1, &allocator); }
std::int64_t systola_used() { return used; }
std::int64_t systola_peak() { return peak; }
void systola_reset_peak() { peak = used.load(); }
}
