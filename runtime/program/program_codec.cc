#include "runtime/program/program_codec.h"

#include <algorithm>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

void Write(ByteWriter& w, const std::vector<int>& list) {
  w.Number(static_cast<int64_t>(list.size()));
  for (int item : list) w.Number(item);
}

void Write(ByteWriter& w, const std::vector<BufferSpec>& list) {
  w.Number(static_cast<int64_t>(list.size()));
  for (const BufferSpec& spec : list) {
    w.Number(static_cast<int64_t>(spec.dtype));
    w.Number(spec.elements);
  }
}

int ReadInt(ByteReader& r) { return static_cast<int>(r.Number()); }

void Read(ByteReader& r, std::vector<int>& list) {
  list.resize(r.Count());
  for (int& item : list) item = ReadInt(r);
}

void Read(ByteReader& r, std::vector<BufferSpec>& list) {
  list.resize(r.Count());
  for (BufferSpec& spec : list) {
    spec.dtype = static_cast<DType>(r.Number());
    spec.elements = r.Number();
  }
}

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(Cat("the Program's signature is inconsistent: ", what));
}

bool ValidSpecs(const std::vector<BufferSpec>& specs) {
  return std::all_of(specs.begin(), specs.end(), [](const BufferSpec& spec) {
    return IsValid(spec.dtype) && spec.elements >= 0 && spec.elements <= kElementsMax;
  });
}

// Each in [low, high), none twice.
bool DistinctIn(std::vector<int> list, int low, int high) {
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) return false;
  return list.empty() || (list.front() >= low && list.back() < high);
}

// Every module result has one use: a created Buffer, a written slot or the check.
absl::Status CheckResults(const Program& p) {
  std::vector<int> used;
  for (size_t i = 0; i < p.written.size(); ++i) {
    if (p.written_results[i] >= 0) used.push_back(p.written_results[i]);
    if (p.written_results[i] < 0 && p.buffers[p.written[i]].elements != 0) {
      return Bad("a written slot has no result");
    }
  }
  for (size_t i = 0; i < p.created.size(); ++i) {
    if (p.created_results[i] >= 0) used.push_back(p.created_results[i]);
    if (p.created_results[i] < 0 && p.created[i].elements != 0) {
      return Bad("a created Buffer has no result");
    }
  }
  if (p.check_result >= 0) used.push_back(p.check_result);
  if (!DistinctIn(used, 0, p.result_count)) return Bad("a result index is out of range");
  if (p.check_result >= 0 && p.checks.empty()) return Bad("a check result without checks");
  return absl::OkStatus();
}

}  // namespace

int64_t ByteReader::Number() {
  int64_t value = 0;
  if (rest_.size() < sizeof(value)) {
    ok_ = false;
    return 0;
  }
  std::memcpy(&value, rest_.data(), sizeof(value));
  rest_.remove_prefix(sizeof(value));
  return value;
}

std::string_view ByteReader::Text() {
  const int64_t size = Number();
  if (size < 0 || static_cast<uint64_t>(size) > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view text = rest_.substr(0, static_cast<size_t>(size));
  rest_.remove_prefix(static_cast<size_t>(size));
  return text;
}

int64_t ByteReader::Count() {
  const int64_t count = Number();
  if (count < 0 || static_cast<uint64_t>(count) > rest_.size() / sizeof(int64_t)) {
    ok_ = false;
    return 0;
  }
  return count;
}

void EncodeProgram(const Program& p, ByteWriter& w) {
  w.Text(p.name);
  Write(w, p.buffers);
  Write(w, p.parameters);
  Write(w, p.created);
  Write(w, p.created_results);
  Write(w, p.written);
  Write(w, p.written_results);
  w.Number(p.check_result);
  w.Number(static_cast<int64_t>(p.checks.size()));
  for (const CheckSpec& check : p.checks) {
    w.Number(static_cast<int64_t>(check.kind));
    w.Text(check.message);
  }
  w.Number(static_cast<int64_t>(p.bounds.size()));
  for (const OffsetBound& bound : p.bounds) {
    w.Number(bound.word);
    w.Number(bound.buffer);
    w.Number(bound.span);
    w.Number(bound.elements);
  }
  w.Number(p.word_count);
  w.Number(p.result_count);
  w.Text(p.module);
  w.Text(p.detail);
  w.Text(p.stack);
  w.Number(p.empty);
}

std::optional<Program> DecodeProgram(ByteReader& r) {
  Program p;
  p.name = r.Text();
  Read(r, p.buffers);
  Read(r, p.parameters);
  Read(r, p.created);
  Read(r, p.created_results);
  Read(r, p.written);
  Read(r, p.written_results);
  p.check_result = ReadInt(r);
  p.checks.resize(r.Count());
  for (CheckSpec& check : p.checks) {
    check.kind = static_cast<ErrorKind>(r.Number());
    check.message = r.Text();
  }
  p.bounds.resize(r.Count());
  for (OffsetBound& bound : p.bounds) {
    bound.word = ReadInt(r);
    bound.buffer = ReadInt(r);
    bound.span = r.Number();
    bound.elements = r.Number();
  }
  p.word_count = ReadInt(r);
  p.result_count = ReadInt(r);
  p.module = r.Text();
  p.detail = r.Text();
  p.stack = r.Text();
  p.empty = r.Number() != 0;
  if (!r.ok() || !CheckProgram(p).ok()) return std::nullopt;
  return p;
}

absl::Status CheckProgram(const Program& p) {
  const int slots = static_cast<int>(p.buffers.size());
  if (!ValidSpecs(p.buffers) || !ValidSpecs(p.created)) return Bad("a Buffer's dtype or elements");
  if (!DistinctIn(p.parameters, 0, slots)) return Bad("parameters");
  if (!DistinctIn(p.written, 0, slots)) return Bad("written slots");
  if (p.created_results.size() != p.created.size()) return Bad("created_results");
  if (p.written_results.size() != p.written.size()) return Bad("written_results");
  if (p.word_count < 0 || p.word_count > kProgramWordsMax) return Bad("word_count");
  if (p.result_count < 0 || p.result_count > kProgramPartsMax) return Bad("result_count");
  for (const OffsetBound& bound : p.bounds) {
    if (bound.word < 0 || bound.word >= p.word_count || bound.span < 0 || bound.elements < 0) {
      return Bad("a bound");
    }
  }
  for (int slot : p.parameters) {
    if (p.buffers[slot].elements == 0) return Bad("a parameter without elements");
  }
  if (absl::Status status = CheckResults(p); !status.ok()) return status;
  if (p.empty && p.result_count != 0) return Bad("an empty Program with results");
  return absl::OkStatus();
}

}  // namespace neurond
