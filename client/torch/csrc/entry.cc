#include "client/torch/csrc/entry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/limits.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, const Entry*> entries;
};
Table& Entries() {
  static Table* table = new Table();
  return *table;
}

thread_local std::array<const Entry*, kFrontCacheSlots> front{};

constexpr uint64_t kMetaVersion = 4;

class Writer {
 public:
  void Put(uint64_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  void PutList(const std::vector<int64_t>& list) {
    Put(list.size());
    for (const int64_t item : list) {
      Put(static_cast<uint64_t>(item));
    }
  }
  void PutText(const std::string& text) {
    Put(text.size());
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }
  uint64_t Get() {
    uint64_t word = 0;
    if (bytes_.size() < sizeof word) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&word, bytes_.data(), sizeof word);
    bytes_.remove_prefix(sizeof word);
    return word;
  }
  std::string GetText() {
    const uint64_t size = Get();
    ok_ = ok_ && size <= bytes_.size();
    std::string text(bytes_.substr(0, ok_ ? size : 0));
    bytes_.remove_prefix(text.size());
    return text;
  }
  // A count of items that take at least a word each.
  uint64_t Count() {
    const uint64_t count = Get();
    ok_ = ok_ && count <= bytes_.size() / sizeof(uint64_t);
    return ok_ ? count : 0;
  }
  std::vector<int64_t> GetList() {
    std::vector<int64_t> list(Count());
    for (int64_t& item : list) {
      item = static_cast<int64_t>(Get());
    }
    return list;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace

void OutSpec::Derive() {
  if (kind != Kind::kNew) {
    return;
  }
  int64_t stride = 1;
  contiguous = true;
  bool empty = false;
  for (size_t i = sizes.size(); i-- > 0;) {
    empty = empty || sizes[i] == 0;
    contiguous = contiguous && (sizes[i] == 1 || strides[i] == stride);
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  elements = empty ? 0 : static_cast<uint64_t>(Extent(sizes, strides));
  bytes = elements * c10::elementSize(dtype);
  // Strides of dimensions of size 1 are free, but are kept as the CPU made them.
  int64_t plain = 1;
  for (size_t i = sizes.size(); i-- > 0 && contiguous;) {
    contiguous = strides[i] == plain;
    plain *= std::max<int64_t>(sizes[i], 1);
  }
}

void Entry::Warn() const {
  for (const std::string& warning : warnings) {
    TORCH_WARN(warning);
  }
}

EntryTable& EntryTable::Get() {
  static EntryTable table;
  return table;
}

const Entry* EntryTable::Find(const Call& call, uint64_t hash, uint32_t epoch) {
  const Entry*& slot = front[hash & (kFrontCacheSlots - 1)];
  if (slot != nullptr && slot->epoch == epoch && slot->Matches(call, hash)) [[likely]] {
    return slot;
  }
  Table& table = Entries();
  std::lock_guard<std::mutex> lock(table.mutex);
  const auto [begin, end] = table.entries.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second->epoch == epoch && at->second->Matches(call, hash)) {
      slot = at->second;
      return slot;
    }
  }
  return nullptr;
}

const Entry* EntryTable::Insert(Entry entry) {
  for (ReturnSpec& spec : entry.returns) {
    for (OutSpec& item : spec.items) {
      item.Derive();
      entry.new_buffers += item.kind == OutSpec::Kind::kNew && item.elements > 0 ? 1 : 0;
      entry.new_bytes += item.bytes;
    }
  }
  const auto* made = new Entry(std::move(entry));
  Table& table = Entries();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (table.entries.size() >= kEntriesMax) {
    table.entries
        .clear();  // other threads' front caches still hold theirs: entries are never freed
  }
  const auto [begin, end] = table.entries.equal_range(made->hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second->key == made->key) {
      table.entries.erase(at);
      break;
    }
  }
  table.entries.emplace(made->hash, made);
  return made;
}

std::string EncodeEntry(const Entry& entry) {
  Writer out;
  out.Put(kMetaVersion);
  out.Put(static_cast<uint64_t>(entry.kind));
  out.PutText(entry.reason);
  out.Put(entry.warnings.size());
  for (const std::string& warning : entry.warnings) {
    out.PutText(warning);
  }
  out.Put(entry.offsets);
  out.PutList(std::vector<int64_t>(entry.statics.begin(), entry.statics.end()));
  out.Put(entry.returns.size());
  for (const ReturnSpec& spec : entry.returns) {
    out.Put(spec.is_list ? 1 : 0);
    out.Put(spec.items.size());
    for (const OutSpec& item : spec.items) {
      out.Put(static_cast<uint64_t>(item.kind));
      out.Put(static_cast<uint64_t>(ToRing(item.dtype)));
      out.Put(static_cast<uint64_t>(item.arg));
      out.Put(static_cast<uint64_t>(item.number));
      out.PutList(item.sizes);
      out.PutList(item.strides);
    }
  }
  return out.Take();
}

bool DecodeEntry(std::string_view bytes, Entry* entry) {
  Reader in(bytes);
  if (in.Get() != kMetaVersion) {
    return false;
  }
  const uint64_t kind = in.Get();
  if (kind != static_cast<uint64_t>(Entry::Kind::kProgram) &&
      kind != static_cast<uint64_t>(Entry::Kind::kStatic) &&
      kind != static_cast<uint64_t>(Entry::Kind::kFallback)) {
    return false;
  }
  entry->kind = static_cast<Entry::Kind>(kind);
  entry->reason = in.GetText();
  entry->warnings.resize(in.Count());
  for (std::string& warning : entry->warnings) {
    warning = in.GetText();
  }
  entry->offsets = in.Get();
  for (const int64_t index : in.GetList()) {
    entry->statics.push_back(static_cast<int32_t>(index));
  }
  entry->returns.resize(in.Count());
  for (ReturnSpec& spec : entry->returns) {
    spec.is_list = in.Get() != 0;
    spec.items.resize(in.Count());
    for (OutSpec& item : spec.items) {
      item.kind = static_cast<OutSpec::Kind>(std::min<uint64_t>(in.Get(), 3));
      item.dtype = ToTorch(static_cast<ring::DType>(in.Get() & 0xff));
      item.arg = static_cast<int32_t>(in.Get());
      item.number = static_cast<int64_t>(in.Get());
      item.sizes = in.GetList();
      item.strides = in.GetList();
      if (item.sizes.size() != item.strides.size()) {
        return false;
      }
    }
  }
  return in.done();
}

}  // namespace neurond::shim
