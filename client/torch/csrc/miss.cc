#include "client/torch/csrc/miss.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "client/torch/csrc/graph.h"
#include "client/torch/csrc/reference_run.h"
#include "client/torch/csrc/tensor.h"
#include "client/torch/csrc/trace.h"

namespace neurond::shim {
namespace {

// One thread at a time per key.
struct Flight {
  std::mutex mutex;
  std::condition_variable done_cv;
  bool done = false;
  std::thread::id owner;
};
struct Flights {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Flight>> open;
};
Flights& InFlight() {
  static Flights* flights = new Flights();
  return *flights;
}

class FlightScope {
 public:
  explicit FlightScope(std::string key) : key_(std::move(key)) {
    Flights& flights = InFlight();
    std::shared_ptr<Flight> other;
    {
      std::lock_guard<std::mutex> lock(flights.mutex);
      std::shared_ptr<Flight>& slot = flights.open[key_];
      if (slot == nullptr) {
        slot = std::make_shared<Flight>();
        slot->owner = std::this_thread::get_id();
        mine_ = slot;
        return;
      }
      other = slot;
    }
    if (other->owner == std::this_thread::get_id()) {
      return;  // a trace that dispatched its own op: no waiting for oneself
    }
    ReleaseGil release;
    std::unique_lock<std::mutex> lock(other->mutex);
    other->done_cv.wait(lock, [&] { return other->done; });
    waited_ = true;
  }
  ~FlightScope() {
    if (mine_ == nullptr) {
      return;
    }
    Flights& flights = InFlight();
    {
      std::lock_guard<std::mutex> lock(flights.mutex);
      flights.open.erase(key_);
    }
    std::lock_guard<std::mutex> lock(mine_->mutex);
    mine_->done = true;
    mine_->done_cv.notify_all();
  }
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;
  bool waited() const { return waited_; }

 private:
  std::string key_;
  std::shared_ptr<Flight> mine_;
  bool waited_ = false;
};

// The key as other processes know it: the op by name and schema (a graph by its content) instead of
// by number.
std::string PortableKey(const OpInfo& info, const Call& call, uint64_t graph) {
  std::string key = info.name + '\0' + (info.is_graph ? GraphHash(graph) : info.schema) + '\0';
  // The first word names the op in this process; of a graph call, two more words hold its number.
  const size_t skip = info.is_graph ? 4 : 1;
  const uint64_t settings = call.key[1];
  key.append(reinterpret_cast<const char*>(&settings), sizeof settings);
  key.append(reinterpret_cast<const char*>(call.key.data() + skip),
             (call.key.size() - skip) * sizeof(uint64_t));
  return key;
}

Entry Blank(const Link& link, const Call& call, uint64_t hash) {
  Entry entry;
  entry.epoch = link.epoch;
  entry.hash = hash;
  entry.key.assign(call.key.begin(), call.key.end());
  return entry;
}

// True if the program's outputs and the arguments it writes have no elements: nothing to run.
bool IsEmptyCall(const OpInfo& info, const Call& call, const Reference& reference) {
  if (!reference.ran || info.name.find("batch_norm") != std::string::npos) {
    return false;
  }
  bool any_new = false;
  for (const ReturnSpec& spec : reference.returns) {
    for (const OutSpec& item : spec.items) {
      if (item.kind == OutSpec::Kind::kNew) {
        any_new = true;
        if (std::find(item.sizes.begin(), item.sizes.end(), 0) == item.sizes.end()) {
          return false;
        }
      } else if (item.kind == OutSpec::Kind::kArg &&
                 call.tensors[static_cast<size_t>(item.arg)].tensor->numel() > 0) {
        return false;
      }
    }
  }
  return info.any_written ? call.slots.empty() : any_new;
}

// Ops whose output size is a matter of values: what the CPU made of zeros says nothing. Indexing is
// one of them only with a mask.
bool DependsOnData(const OpInfo& info, const torch::jit::Stack& stack) {
  return info.op.hasTag(at::Tag::dynamic_output_shape) &&
         (!info.indexes_from_host || MaskIndex(info, stack).has_value());
}

[[noreturn]] void RaiseAs(const std::string& type, const std::string& text) {
  TORCH_CHECK_INDEX(type != "IndexError", text);
  TORCH_CHECK_VALUE(type != "ValueError", text);
  TORCH_CHECK_TYPE(type != "TypeError", text);
  TORCH_CHECK_NOT_IMPLEMENTED(type != "NotImplementedError", text);
  TORCH_CHECK(false, text);
}

class Resolver {
 public:
  Resolver(const OpInfo& info, const Link& link, const Call& call, uint64_t hash,
           const Entry* level1, uint64_t graph, const torch::jit::Stack& stack)
      : info_(info),
        link_(link),
        call_(call),
        hash_(hash),
        level1_(level1),
        graph_(graph),
        stack_(stack),
        portable_(PortableKey(info, call, graph)) {}

  const std::string& portable() const { return portable_; }

  const Entry* Run() {
    if (const Entry* known = FromDaemon()) {
      return known;
    }
    if (DependsOnData(info_, stack_)) {
      return Refused("the size of its result depends on data", kLasting);
    }
    Misses().reference_runs.fetch_add(1);
    const Reference reference = RunReference(info_, call_, stack_);
    if (ResizesAnInput(reference)) {
      return Refused("an argument that it reads is its out= and has to be resized", !kLasting);
    }
    if (!reference.resizes.empty()) {
      Entry entry = Blank(link_, call_, hash_);
      entry.kind = Entry::Kind::kResize;
      entry.resizes = reference.resizes;
      entry.warnings = reference.warnings;
      return InsertByValue(std::move(entry));
    }
    if (reference.plain_values) {
      return Refused("it returns a value to the host", kLasting);
    }
    if (reference.aliases) {
      return Refused("its result is a view of an argument or not a strided tensor", kLasting);
    }
    if (IsEmptyCall(info_, call_, reference)) {
      Entry entry = Blank(link_, call_, hash_);
      entry.kind = Entry::Kind::kProgram;
      entry.returns = reference.returns;
      entry.warnings = reference.warnings;
      return InsertByValue(std::move(entry));
    }
    Misses().traces.fetch_add(1);
    const std::vector<int32_t> statics =
        level1_ == nullptr ? std::vector<int32_t>() : level1_->statics;
    return Accept(Trace(info_, call_, statics, graph_, stack_, reference), reference);
  }

 private:
  static constexpr bool kLasting = true;

  // Resized first, it could not be read any more.
  bool ResizesAnInput(const Reference& reference) const {
    return std::any_of(
        reference.resizes.begin(), reference.resizes.end(), [&](const Entry::Resize& resize) {
          const TensorArg& out = call_.tensors[static_cast<size_t>(resize.tensor)];
          return std::any_of(call_.tensors.begin(), call_.tensors.end(), [&](const TensorArg& arg) {
            return &arg != &out && arg.tensor->is_same(*out.tensor);
          });
        });
  }

  // Graphs raise, ops run on the CPU. A lasting refusal is remembered by the daemon, so that the
  // next process does not trace in vain.
  const Entry* Refused(std::string reason, bool lasting) {
    TORCH_CHECK(!info_.is_graph, "neuron: the compiled graph cannot run on the device: ", reason);
    Misses().refused.fetch_add(1);
    Entry entry = Blank(link_, call_, hash_);
    entry.kind = Entry::Kind::kFallback;
    entry.reason = std::move(reason);
    if (lasting && info_.persisted) {
      const client::Status status =
          link_.client->Define(portable_, EncodeEntry(entry), "", &entry.program);
      Runtime::Get().Check(link_, status, "a refusal");
    }
    return EntryTable::Get().Insert(std::move(entry));
  }

  const Entry* FromDaemon() {
    if (!info_.persisted) {
      return nullptr;
    }
    uint64_t program = 0;
    std::string meta;
    const client::Status status = link_.client->Lookup(portable_, &program, &meta);
    if (status.code == client::Code::kNotFound) {
      return nullptr;
    }
    Runtime::Get().Check(link_, status, "a lookup");
    Entry entry = Blank(link_, call_, hash_);
    const bool decoded = DecodeEntry(meta, &entry);
    if (!decoded || (entry.kind == Entry::Kind::kFallback) != (program == 0)) {
      return nullptr;
    }
    entry.program = program;
    entry.Warn();
    Misses().lookups_known.fetch_add(1);
    return EntryTable::Get().Insert(std::move(entry));
  }

  // An entry made from sizes that the CPU gave for this call's numbers: it holds for these values
  // only.
  const Entry* InsertByValue(Entry entry) {
    if (call_.scalars.empty() || level1_ != nullptr) {
      return EntryTable::Get().Insert(std::move(entry));
    }
    Entry names = Blank(link_, call_, hash_);
    names.kind = Entry::Kind::kStatic;
    Call second;
    second.key = call_.key;
    second.scalars = call_.scalars;
    for (size_t i = 0; i < call_.scalars.size(); ++i) {
      names.statics.push_back(static_cast<int32_t>(i));
    }
    second.AddStaticValues(names.statics);
    entry.statics = names.statics;
    entry.key.assign(second.key.begin(), second.key.end());
    entry.hash = second.Hash();
    EntryTable::Get().Insert(std::move(entry));
    return EntryTable::Get().Insert(std::move(names));
  }

  const Entry* Accept(TraceAnswer answer, const Reference& reference) {
    switch (answer.status) {
      case TraceAnswer::Status::kOk:
        break;
      case TraceAnswer::Status::kRaised:
        // Where the CPU did not judge the call, the trace's error is the user's.
        if (!reference.ran && !info_.skip_reference && !MaskIndex(info_, stack_).has_value()) {
          RaiseAs(answer.error_type, answer.reason);
        }
        return Refused("tracing failed: " + answer.error_type + ": " + answer.reason, !kLasting);
      case TraceAnswer::Status::kRefused:
      case TraceAnswer::Status::kDynamic:
        return Refused(std::move(answer.reason), answer.lasting);
    }
    std::vector<int32_t> statics = answer.statics;
    if (level1_ != nullptr) {
      statics.insert(statics.end(), level1_->statics.begin(), level1_->statics.end());
    }
    std::sort(statics.begin(), statics.end());
    statics.erase(std::unique(statics.begin(), statics.end()), statics.end());

    Entry program = Blank(link_, call_, hash_);
    program.kind = Entry::Kind::kProgram;
    program.returns = std::move(answer.returns);
    program.warnings = reference.warnings;
    program.offsets = answer.offsets;
    program.statics = statics;
    if (statics.empty() || (level1_ != nullptr && level1_->statics == statics)) {
      return Define(std::move(program), portable_, answer.program);
    }
    return DefineStatic(std::move(program), answer.program);
  }

  // nullptr: refused by the daemon; *reason says why.
  const Entry* Define(Entry entry, const std::string& portable, const std::string& bytes) {
    const client::Status status =
        link_.client->Define(info_.persisted ? std::string_view(portable) : std::string_view(),
                             EncodeEntry(entry), bytes, &entry.program);
    if (link_.client->dead() || status.code == client::Code::kUnavailable) {
      Runtime::Get().Check(link_, status, "a definition");
    }
    if (!status.ok()) {
      return Refused(status.message, status.code == client::Code::kUnimplemented ||
                                         status.code == client::Code::kInvalidArgument);
    }
    return EntryTable::Get().Insert(std::move(entry));
  }

  // The trace depended on scalars: the key's first level names them, the second holds their values.
  const Entry* DefineStatic(Entry program, const std::string& bytes) {
    Call first;
    const size_t level1_words =
        level1_ == nullptr ? call_.key.size() : call_.key.size() - 1 - 2 * level1_->statics.size();
    first.key.append(call_.key.begin(), call_.key.begin() + static_cast<ptrdiff_t>(level1_words));
    first.scalars = call_.scalars;
    Entry names = Blank(link_, first, first.Hash());
    names.kind = Entry::Kind::kStatic;
    names.statics = program.statics;
    const std::string first_portable = PortableKey(info_, first, graph_);
    first.AddStaticValues(program.statics);
    program.key.assign(first.key.begin(), first.key.end());
    program.hash = first.Hash();
    const Entry* defined = Define(std::move(program), PortableKey(info_, first, graph_), bytes);
    if (defined->kind != Entry::Kind::kProgram) {
      return defined;
    }
    const Entry* level1 = Define(std::move(names), first_portable, bytes);
    return level1_ == nullptr ? level1 : nullptr;
  }

  const OpInfo& info_;
  const Link& link_;
  const Call& call_;
  const uint64_t hash_;
  const Entry* level1_;
  const uint64_t graph_;
  const torch::jit::Stack& stack_;
  const std::string portable_;
};

}  // namespace

MissCounters& Misses() {
  static MissCounters* counters = new MissCounters();
  return *counters;
}

const Entry* Resolve(const OpInfo& info, const Link& link, const Call& call, uint64_t hash,
                     const Entry* level1, uint64_t graph, const torch::jit::Stack* stack) {
  Misses().misses.fetch_add(1);
  Resolver resolver(info, link, call, hash, level1, graph, *stack);
  FlightScope flight(resolver.portable());
  // Another thread may have finished between the look-up and here, whether this one waited for it
  // or not.
  if (const Entry* known = EntryTable::Get().Find(call, hash, link.epoch)) {
    return known;
  }
  return resolver.Run();
}

}  // namespace neurond::shim
