#include "client/torch/csrc/dispatch.h"

#include <ATen/core/Generator.h>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/call.h"
#include "client/torch/csrc/entry.h"
#include "client/torch/csrc/errors.h"
#include "client/torch/csrc/fallback.h"
#include "client/torch/csrc/generator.h"
#include "client/torch/csrc/memory.h"
#include "client/torch/csrc/miss.h"
#include "client/torch/csrc/origin.h"
#include "client/torch/csrc/resize.h"
#include "client/torch/csrc/stream.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

// Offsets, scalars that are not static, seed and offset: the Program's words in their order.
void FillWords(const Entry& entry, const Call& call, c10::SmallVector<int64_t, 16>* words) {
  words->append(call.offsets.begin(), call.offsets.end());
  size_t next_static = 0;
  for (size_t i = 0; i < call.scalars.size(); ++i) {
    if (next_static < entry.statics.size() &&
        static_cast<size_t>(entry.statics[next_static]) == i) {
      ++next_static;
      continue;
    }
    words->push_back(call.scalars[i].word);
  }
  if (entry.offsets > 0) {
    const at::Generator& chosen =
        call.generator.has_value() ? *call.generator : DefaultGenerator(call.device);
    auto* generator = static_cast<NeuronGenerator*>(chosen.unsafeGetGeneratorImpl());
    std::lock_guard<std::mutex> lock(generator->mutex_);
    words->push_back(static_cast<int64_t>(generator->current_seed()));
    words->push_back(static_cast<int64_t>(generator->get_offset()));
    generator->set_offset(generator->get_offset() + entry.offsets);
  }
}

// Makes the outputs, names their Buffers in `ids`, and gives the returns.
void MakeReturns(const Link& link, const Entry& entry, const Call& call,
                 c10::SmallVector<uint64_t, 8>* ids, c10::SmallVector<c10::IValue, 4>* returns) {
  const auto make = [&](const OutSpec& spec) -> at::Tensor {
    switch (spec.kind) {
      case OutSpec::Kind::kArg:
        return *call.tensors[static_cast<size_t>(spec.arg)].tensor;
      case OutSpec::Kind::kNone:
      case OutSpec::Kind::kInt:
        return {};
      case OutSpec::Kind::kNew:
        break;
    }
    c10::DataPtr data;
    if (spec.elements > 0) [[likely]] {
      const uint64_t id = link.client->NewBufferId();
      data = WrapBuffer(link, id, ToRing(spec.dtype), spec.elements, spec.bytes, call.device);
      ids->push_back(id);
    } else {
      data = NewBuffer(spec.dtype, 0, call.device);
    }
    return MakeTensor(
        std::move(data), spec.bytes, spec.dtype, spec.sizes,
        spec.contiguous ? std::nullopt : std::optional<c10::IntArrayRef>(spec.strides));
  };
  if (entry.new_buffers > 0) {
    // All at once: when this throws, no name was made.
    Ledger::Get().Reserve(link, call.device, static_cast<int64_t>(entry.new_bytes),
                          entry.new_buffers);
  }
  for (const ReturnSpec& spec : entry.returns) {
    if (!spec.is_list) [[likely]] {
      const OutSpec& item = spec.items[0];
      returns->push_back(item.kind == OutSpec::Kind::kInt ? c10::IValue(item.number)
                                                          : c10::IValue(make(item)));
      continue;
    }
    c10::List<at::Tensor> list;
    list.reserve(spec.items.size());
    for (const OutSpec& item : spec.items) {
      list.push_back(make(item));
    }
    returns->push_back(std::move(list));
  }
}

void Submit(const OpInfo& info, const Link& link, const Entry& entry, const Call& call,
            torch::jit::Stack* stack) {
  c10::SmallVector<uint64_t, 8> outputs;
  c10::SmallVector<c10::IValue, 4> returns;
  MakeReturns(link, entry, call, &outputs, &returns);
  if (entry.program != 0) {
    c10::SmallVector<int64_t, 16> words;
    FillWords(entry, call, &words);
    c10::SmallVector<uint64_t, 8> inputs;
    for (const Buffer* buffer : call.slots) {
      inputs.push_back(buffer->id);
    }
    uint64_t seq = 0;
    const int stream = CurrentRingStream(call.device);
    const client::Status status =
        link.client->Execute(stream, entry.program, CurrentOrigin(), {inputs.data(), inputs.size()},
                             {outputs.data(), outputs.size()}, {words.data(), words.size()}, &seq);
    if (!status.ok()) [[unlikely]] {
      Runtime::Get().Fail(link, status, info.name.c_str());
    }
    info.executed.fetch_add(1, std::memory_order_relaxed);
    if (Runtime::Get().launch_blocking()) [[unlikely]] {
      Runtime::Get().Check(link, link.client->WaitCompleted(stream, seq), "synchronize");
      RaiseStreamError(link, stream, seq);
    }
  }
  torch::jit::drop(*stack, info.args.size());
  for (c10::IValue& value : returns) {
    stack->push_back(std::move(value));
  }
}

void WarnFloat64(const OpInfo& info) {
  if (!Runtime::Get().native_float64() && !info.warned_float64.exchange(true)) {
    TORCH_WARN(
        "neuron: ", info.name,
        " computes float64 as float32 (set NEURON_FLOAT64=native to use the device's own float64)");
  }
}

void ApplyResizes(const Entry& entry, const Call& call) {
  for (const Entry::Resize& resize : entry.resizes) {
    ResizeStrided(*call.tensors[static_cast<size_t>(resize.tensor)].tensor, resize.sizes,
                  resize.strides);
  }
}

}  // namespace

void RunKeyed(const OpInfo& info, torch::jit::Stack* stack, uint64_t graph) {
  const Link& link = Runtime::Get().Ready();
  // A resize changes the key once, static values append to it once or (new guards) twice.
  for (int turn = 0; turn < 4; ++turn) {
    Call call;
    TakeApart(info, stack, graph, &call);
    if (call.unknown_dtype) [[unlikely]] {
      RunOnCpu(info, stack, "a dtype or layout that programs cannot hold");
      return;
    }
    if (call.float64) [[unlikely]] {
      WarnFloat64(info);
    }
    const Entry* level1 = nullptr;
    bool resolved = false;
    for (;;) {
      const uint64_t hash = call.Hash();
      const Entry* entry = EntryTable::Get().Find(call, hash, link.epoch);
      if (entry == nullptr) [[unlikely]] {
        entry = Resolve(info, link, call, hash, level1, graph, stack);
        resolved = true;
        if (entry == nullptr) {
          break;  // the key changed
        }
      }
      if (!resolved && !entry->warnings.empty()) [[unlikely]] {
        entry->Warn();  // resolving has run the CPU, which warned, or has warned itself
      }
      if (entry->kind == Entry::Kind::kProgram) [[likely]] {
        Submit(info, link, *entry, call, stack);
        return;
      }
      if (entry->kind == Entry::Kind::kFallback) {
        RunOnCpu(info, stack, entry->reason);
        return;
      }
      if (entry->kind == Entry::Kind::kResize) {
        ApplyResizes(*entry, call);
        break;
      }
      level1 = entry;
      call.AddStaticValues(entry->statics);
    }
  }
  TORCH_CHECK(false, "neuron: ", info.name, " does not settle on a program");
}

namespace {

// Autograd's own kernels count the version of each tensor that an op writes, but not of those in a
// list: that is left to the kernel of the device.
std::vector<at::Tensor> WrittenLists(const OpInfo& info, const torch::jit::Stack& stack) {
  std::vector<at::Tensor> written;
  const size_t first = stack.size() - info.args.size();
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.written[i] && stack[first + i].isTensorList()) {
      const auto list = stack[first + i].toTensorVector();
      written.insert(written.end(), list.begin(), list.end());
    }
  }
  return written;
}

}  // namespace

void BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                 torch::jit::Stack* stack) {
  const OpInfo& info = OpInfo::Of(op);
  if (!info.counts_versions) [[likely]] {
    RunKeyed(info, stack);
    return;
  }
  const std::vector<at::Tensor> written = WrittenLists(info, *stack);
  RunKeyed(info, stack);
  for (const at::Tensor& tensor : written) {
    if (!tensor.is_inference()) {
      tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

}  // namespace neurond::shim
