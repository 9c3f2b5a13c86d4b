#include "plugins/fake/interpreter_plugin.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "plugins/fake/hlo_module.h"
#include "plugins/fake/interpreter.h"
#include "plugins/fake/interpreter_buffer.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

constexpr std::string_view kMagic = "fakexla1";  // changes with the meaning of what follows

// FNV-1a: guards against accidents only.
uint64_t Checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : bytes) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

class InterpreterExecutable final : public LoadedExecutable {
 public:
  InterpreterExecutable(HloModule module, int device_count)
      : module_(std::move(module)), device_count_(device_count) {}

  absl::StatusOr<ExecuteResult> Execute(int device, std::span<DeviceBuffer* const> arguments,
                                        std::span<const bool> donate, DoneCallback done) override;
  int64_t TemporaryBytes() const override { return 0; }

 private:
  absl::Status CheckArguments(int device, std::span<DeviceBuffer* const> arguments,
                              std::span<const bool> donate) const;

  const HloModule module_;
  const int device_count_;
};

absl::Status InterpreterExecutable::CheckArguments(int device,
                                                   std::span<DeviceBuffer* const> arguments,
                                                   std::span<const bool> donate) const {
  const std::vector<HloType>& parameters = module_.signature.parameters;
  if (device < 0 || device >= device_count_) {
    return absl::InvalidArgumentError(Cat("no device ", device));
  }
  if (arguments.size() != parameters.size() || donate.size() != parameters.size()) {
    return absl::InvalidArgumentError(Cat("got ", arguments.size(), " arguments and ",
                                          donate.size(), " donate flags, expected ",
                                          parameters.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& buffer = static_cast<const InterpreterBuffer&>(*arguments[i]);
    if (buffer.device() != device) {
      return absl::InvalidArgumentError(
          Cat("argument ", i, " is on device ", buffer.device(), ", expected ", device));
    }
    // As with PJRT, the byte size must match; the caller has checked the rest.
    if (buffer.bytes() != parameters[i].bytes()) {
      return absl::InvalidArgumentError(
          Cat("argument ", i, " has ", buffer.bytes(), " bytes, expected ", parameters[i].bytes()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecuteResult> InterpreterExecutable::Execute(
    int device, std::span<DeviceBuffer* const> arguments, std::span<const bool> donate,
    DoneCallback done) {
  if (absl::Status status = CheckArguments(device, arguments, donate); !status.ok()) return status;
  const HloSignature& signature = module_.signature;
  std::vector<std::shared_ptr<Block>> blocks;
  std::vector<const char*> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    blocks.push_back(static_cast<InterpreterBuffer*>(arguments[i])->block());
    if (blocks.back() == nullptr) {
      return absl::InvalidArgumentError(Cat("argument ", i, " has been deleted or donated"));
    }
    inputs.push_back(blocks.back()->data());
  }
  const std::vector<std::vector<char>> results = Interpret(module_, inputs);

  // Everything that can fail comes before the first donation.
  std::vector<std::shared_ptr<Block>> targets(results.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int result = donate[i] ? signature.aliases[i] : -1;
    if (result >= 0 && signature.results[result].bytes() == signature.parameters[i].bytes()) {
      targets[result] = blocks[i];
    }
  }
  for (size_t r = 0; r < results.size(); ++r) {
    if (targets[r] == nullptr) targets[r] = Block::Allocate(signature.results[r].bytes());
    if (targets[r] == nullptr) {
      return absl::ResourceExhaustedError(
          Cat("out of memory allocating ", signature.results[r].bytes(), " bytes"));
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (donate[i] && signature.aliases[i] >= 0) {
      static_cast<InterpreterBuffer*>(arguments[i])->Donate();
    }
  }
  ExecuteResult out;
  for (size_t r = 0; r < results.size(); ++r) {
    std::memcpy(targets[r]->data(), results[r].data(), results[r].size());
    out.outputs.push_back(
        std::make_shared<InterpreterBuffer>(std::move(targets[r]), signature.results[r].dtype,
                                            signature.results[r].elements(), device));
  }
  // CLONE: a real device returns here and runs `done` from its own thread when the work is
  // complete.
  done(Error{});
  return out;
}

}  // namespace

std::shared_ptr<Block> Block::Allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
  auto* data = static_cast<char*>(std::aligned_alloc(64, rounded));
  if (data == nullptr) return nullptr;
  return std::make_shared<Block>(data, [data] { std::free(data); });
}

absl::StatusOr<std::unique_ptr<Plugin>> InterpreterPlugin::Create(int device_count) {
  if (device_count < 1 || device_count > kPluginDevicesMax) {
    return absl::InvalidArgumentError(
        Cat("devices = ", device_count, ", expected 1 to ", kPluginDevicesMax));
  }
  return std::unique_ptr<Plugin>(new InterpreterPlugin(device_count));
}

InterpreterPlugin::InterpreterPlugin(int device_count) : traits_(device_count) {
  for (int i = 0; i < device_count; ++i) {
    traits_[i].name = Cat("interpreter:", i);
    traits_[i].platform = "interpreter";
    traits_[i].host_memory = true;
  }
}

std::string InterpreterPlugin::fingerprint() const { return std::string(kMagic); }

absl::StatusOr<std::string> InterpreterPlugin::Compile(const std::string& module,
                                                       const std::string&) {
  // CLONE: a real plugin compiles here, for seconds.
  absl::StatusOr<HloModule> parsed = ParseModule(module);
  if (!parsed.ok()) return parsed.status();
  if (absl::Status status = CheckModule(*parsed); !status.ok()) return status;
  const uint64_t checksum = Checksum(module);
  std::string serialized(kMagic);
  serialized.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  return serialized + module;
}

absl::StatusOr<LoadedExecutablePtr> InterpreterPlugin::Load(const std::string& serialized) {
  uint64_t checksum = 0;
  const size_t header = kMagic.size() + sizeof(checksum);
  if (serialized.size() < header || serialized.compare(0, kMagic.size(), kMagic) != 0) {
    return absl::InvalidArgumentError("not an executable of the fake plugin");
  }
  std::memcpy(&checksum, serialized.data() + kMagic.size(), sizeof(checksum));
  const std::string module = serialized.substr(header);
  if (Checksum(module) != checksum) {
    return absl::InvalidArgumentError("the executable is truncated or altered");
  }
  absl::StatusOr<HloModule> parsed = ParseModule(module);
  if (!parsed.ok()) return parsed.status();
  if (absl::Status status = CheckModule(*parsed); !status.ok()) return status;
  return std::make_shared<InterpreterExecutable>(*std::move(parsed), device_count());
}

absl::StatusOr<LoadedExecutablePtr> InterpreterPlugin::CompileAndLoad(const std::string& module,
                                                                      const std::string& options) {
  absl::StatusOr<std::string> serialized = Compile(module, options);
  if (!serialized.ok()) return serialized.status();
  return Load(*serialized);
}

absl::Status InterpreterPlugin::CheckUpload(int device, DType dtype, int64_t elements) const {
  if (device < 0 || device >= device_count()) {
    return absl::InvalidArgumentError(Cat("no device ", device));
  }
  if (!IsValid(dtype) || elements <= 0 ||
      elements > std::numeric_limits<int64_t>::max() / DTypeBytes(dtype)) {
    return absl::InvalidArgumentError(
        Cat("a device buffer of ", elements, " elements of ", TorchName(dtype)));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceBufferPtr> InterpreterPlugin::Upload(int device, DType dtype, int64_t elements,
                                                          const void* data) {
  if (absl::Status status = CheckUpload(device, dtype, elements); !status.ok()) return status;
  const int64_t bytes = elements * DTypeBytes(dtype);
  std::shared_ptr<Block> block = Block::Allocate(bytes);
  if (block == nullptr) {
    return absl::ResourceExhaustedError(Cat("out of memory allocating ", bytes, " bytes"));
  }
  std::memcpy(block->data(), data, static_cast<size_t>(bytes));
  return std::make_shared<InterpreterBuffer>(std::move(block), dtype, elements, device);
}

absl::StatusOr<DeviceBufferPtr> InterpreterPlugin::Adopt(int device, DType dtype, int64_t elements,
                                                         void* block,
                                                         std::function<void()> release) {
  if (absl::Status status = CheckUpload(device, dtype, elements); !status.ok()) return status;
  return std::make_shared<InterpreterBuffer>(
      std::make_shared<Block>(static_cast<char*>(block), std::move(release)), dtype, elements,
      device);
}

absl::Status InterpreterPlugin::Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes,
                                         void* destination, DoneCallback done) {
  auto& source = static_cast<InterpreterBuffer&>(buffer);
  if (offset < 0 || bytes < 0 || offset > source.bytes() || bytes > source.bytes() - offset) {
    return absl::InvalidArgumentError(Cat("bytes [", offset, ", +", bytes,
                                          ") are not within a buffer of ", source.bytes(),
                                          " bytes"));
  }
  std::shared_ptr<Block> block = source.block();
  if (block == nullptr) {
    return absl::InvalidArgumentError("the buffer has been deleted or donated");
  }
  std::memcpy(destination, block->data() + offset, static_cast<size_t>(bytes));
  done(Error{});
  return absl::OkStatus();
}

absl::StatusOr<DeviceBufferPtr> InterpreterPlugin::CopyToDevice(DeviceBuffer& buffer, int device) {
  auto& source = static_cast<InterpreterBuffer&>(buffer);
  std::shared_ptr<Block> block = source.block();
  if (block == nullptr || source.device() == device) {
    return absl::InvalidArgumentError(block == nullptr ? "the buffer has been deleted or donated"
                                                       : "the buffer is on that device already");
  }
  return Upload(device, source.dtype(), source.elements(), block->data());
}

}  // namespace neurond::fake
