// ExecuTorch's backend SystolaBackend: hands programs and tensors to callbacks, which Python sets.
//
// Built against the headers and libexecutorch.so of the installed package (library.py). A program
// is known by the number that `open` returned, which is never 0; ExecuTorch keeps it as the handle.

#include <cstdint>
#include <vector>

#include <executorch/runtime/backend/interface.h>

namespace et = executorch::runtime;

extern "C" {

// A tensor of a call: data is written for results. sizes, strides: `rank` of them, in elements.
struct SystolaTensor {
  void* data;
  int64_t bytes;
  const int32_t* sizes;
  const int32_t* strides;
  int32_t rank;
  int32_t dtype;
};

struct SystolaCallbacks {
  // The number of the program in these bytes, 0 where it is refused.
  int64_t (*open)(const void* data, int64_t bytes);
  // 0 where the call succeeds.
  int32_t (*run)(int64_t program, const SystolaTensor* tensors, int32_t count);
  void (*close)(int64_t program);
};
}

namespace {

class SystolaBackend final : public et::BackendInterface {
 public:
  SystolaCallbacks callbacks{};

  bool is_available() const override { return callbacks.open != nullptr; }

  et::Result<et::DelegateHandle*> init(
      et::BackendInitContext&, et::FreeableBuffer* processed,
      et::ArrayRef<et::CompileSpec>) const override {
    const int64_t program =
        callbacks.open(processed->data(), static_cast<int64_t>(processed->size()));
    processed->Free();
    if (program == 0) {
      return et::Error::DelegateInvalidCompatibility;
    }
    return reinterpret_cast<et::DelegateHandle*>(static_cast<intptr_t>(program));
  }

  et::Error execute(
      et::BackendExecutionContext&, et::DelegateHandle* handle,
      et::Span<et::EValue*> arguments) const override {
    std::vector<SystolaTensor> tensors;
    tensors.reserve(arguments.size());
    for (et::EValue* argument : arguments) {
      if (!argument->isTensor()) {
        return et::Error::InvalidArgument;
      }
      const auto& tensor = argument->toTensor();
      tensors.push_back({tensor.mutable_data_ptr(), static_cast<int64_t>(tensor.nbytes()),
                         tensor.sizes().data(), tensor.strides().data(),
                         static_cast<int32_t>(tensor.dim()),
                         static_cast<int32_t>(tensor.scalar_type())});
    }
    const auto program = static_cast<int64_t>(reinterpret_cast<intptr_t>(handle));
    const auto count = static_cast<int32_t>(tensors.size());
    return callbacks.run(program, tensors.data(), count) == 0 ? et::Error::Ok
                                                              : et::Error::DelegateInvalidHandle;
  }

  void destroy(et::DelegateHandle* handle) const override {
    callbacks.close(static_cast<int64_t>(reinterpret_cast<intptr_t>(handle)));
  }
};

SystolaBackend backend;

}  // namespace

// Registers the backend under `name`, which must outlive it; ExecuTorch's error code, 0 for none.
extern "C" int32_t systola_register(const char* name, const SystolaCallbacks* callbacks) {
  backend.callbacks = *callbacks;
  return static_cast<int32_t>(et::register_backend({name, &backend}));
}
