#include "runtime/lowering/op.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/text.h"

namespace neurond::lowering {

Value Module::Word(int index) {
  const auto it = word_cache.find(index);
  if (it != word_cache.end()) return it->second;
  const Value slice = b.Slice(words, {index}, {index + 1}, {1});
  return word_cache[index] = b.Reshape(slice, {});
}

void Op::Unimplemented(std::string_view why) {
  b.Fail(absl::UnimplementedError(Cat(node_.op, ": ", why)));
}

void Op::Invalid(std::string_view why) {
  b.Fail(absl::InvalidArgumentError(Cat(node_.op, ": ", why)));
}

// --- arguments ---

const Arg* Op::Get(int i) const { return i >= 0 && i < ArgCount() ? &node_.args[i] : nullptr; }

bool Op::Has(int i) const {
  const Arg* arg = Get(i);
  return arg != nullptr && !arg->IsNone();
}

bool Op::IsTensor(int i) const {
  const Arg* arg = Get(i);
  return arg != nullptr && arg->IsValue();
}

bool Op::IsNumber(int i) const {
  const Arg* arg = Get(i);
  return arg != nullptr &&
         (std::holds_alternative<int64_t>(arg->v) || std::holds_alternative<double>(arg->v) ||
          std::holds_alternative<bool>(arg->v));
}

Value Op::ToValue(const Arg& arg) {
  if (const auto* ref = std::get_if<ValueRef>(&arg.v)) {
    if (ref->id >= 0 && ref->id < static_cast<int>(module_.values.size()) &&
        module_.values[ref->id].dtype != DType::kInvalid) {
      return module_.values[ref->id];
    }
    Invalid(Cat("value ", ref->id, " was not computed"));
  } else if (const auto* i = std::get_if<int64_t>(&arg.v)) {
    return {.name = "", .dtype = DType::kI64, .sizes = {}, .wrapped = true, .number = *i};
  } else if (const auto* d = std::get_if<double>(&arg.v)) {
    return {.name = "", .dtype = DType::kF64, .sizes = {}, .wrapped = true, .number = *d};
  } else if (const auto* flag = std::get_if<bool>(&arg.v)) {
    return {
        .name = "", .dtype = DType::kBool, .sizes = {}, .wrapped = true, .number = int64_t{*flag}};
  } else {
    Invalid("an argument is not a tensor");
  }
  return b.Zeros(DType::kF32);
}

Value Op::Tensor(int i) {
  const Arg* arg = Get(i);
  if (arg != nullptr) return ToValue(*arg);
  Invalid(Cat("argument ", i, " is missing"));
  return b.Zeros(DType::kF32);
}

Values Op::Tensors(int i) {
  Values out;
  const Arg* arg = Get(i);
  const auto* list = arg == nullptr ? nullptr : std::get_if<ArgList>(&arg->v);
  if (list == nullptr) {
    Invalid(Cat("argument ", i, " is not a list"));
    return out;
  }
  for (const Arg& item : *list) out.push_back(item.IsNone() ? Value{} : ToValue(item));
  return out;
}

int64_t Op::Int(int i) {
  const Arg* arg = Get(i);
  if (arg != nullptr) {
    if (const auto* v = std::get_if<int64_t>(&arg->v)) return *v;
    if (const auto* v = std::get_if<bool>(&arg->v)) return *v;
    if (arg->IsValue()) {
      Unimplemented(Cat("argument ", i, " must be known when the program is made"));
      return 0;
    }
  }
  Invalid(Cat("argument ", i, " is not an int"));
  return 0;
}

double Op::Double(int i) {
  const Arg* arg = Get(i);
  if (arg != nullptr) {
    if (const auto* v = std::get_if<double>(&arg->v)) return *v;
    return static_cast<double>(Int(i));
  }
  Invalid(Cat("argument ", i, " is not a float"));
  return 0;
}

bool Op::Bool(int i) {
  const Arg* arg = Get(i);
  if (arg != nullptr) {
    if (const auto* v = std::get_if<bool>(&arg->v)) return *v;
    if (const auto* v = std::get_if<int64_t>(&arg->v)) return *v != 0;
  }
  Invalid(Cat("argument ", i, " is not a bool"));
  return false;
}

std::string Op::String(int i) {
  const Arg* arg = Get(i);
  const auto* v = arg == nullptr ? nullptr : std::get_if<std::string>(&arg->v);
  if (v != nullptr) return *v;
  Invalid(Cat("argument ", i, " is not a string"));
  return "";
}

DType Op::Type(int i) {
  const Arg* arg = Get(i);
  const auto* v = arg == nullptr ? nullptr : std::get_if<DType>(&arg->v);
  if (v != nullptr && IsValid(*v)) return *v;
  Invalid(Cat("argument ", i, " is not a dtype"));
  return DType::kF32;
}

Sizes Op::Ints(int i) {
  const Arg* arg = Get(i);
  if (arg == nullptr || arg->IsNone()) return {};
  const auto* list = std::get_if<ArgList>(&arg->v);
  if (list == nullptr) return {Int(i)};
  Sizes out;
  for (const Arg& item : *list) {
    if (const auto* v = std::get_if<int64_t>(&item.v)) {
      out.push_back(*v);
    } else if (const auto* flag = std::get_if<bool>(&item.v)) {
      out.push_back(*flag);
    } else if (item.IsValue()) {
      Unimplemented(Cat("argument ", i, " must be known when the program is made"));
    } else {
      Invalid(Cat("argument ", i, " is not a list of ints"));
    }
  }
  return out;
}

std::vector<double> Op::Doubles(int i) {
  const Arg* arg = Get(i);
  const auto* list = arg == nullptr ? nullptr : std::get_if<ArgList>(&arg->v);
  std::vector<double> out;
  if (list == nullptr) return out;
  for (const Arg& item : *list) {
    if (const auto* v = std::get_if<double>(&item.v)) {
      out.push_back(*v);
    } else if (const auto* n = std::get_if<int64_t>(&item.v)) {
      out.push_back(static_cast<double>(*n));
    } else {
      Invalid(Cat("argument ", i, " is not a list of floats"));
    }
  }
  return out;
}

int Op::Dim(int64_t dim, int rank) {
  const int64_t n = std::max(rank, 1);
  if (dim >= -n && dim < n) return static_cast<int>(dim < 0 ? dim + n : dim);
  Invalid(Cat("Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
              "], but got ", dim, ")"));
  return 0;
}

Sizes Op::Dims(int i, int rank) {
  Sizes dims = Ints(i);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& d : dims) d = Dim(d, rank);
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) {
    Invalid("a dimension appears twice in the list of dims");
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  }
  if (rank == 0) dims.clear();
  return dims;
}

DType Op::LogicalDType(int i) const {
  const Arg* arg = Get(i);
  const auto* ref = arg == nullptr ? nullptr : std::get_if<ValueRef>(&arg->v);
  if (ref == nullptr || ref->id < 0 || ref->id >= static_cast<int>(module_.logical.size())) {
    return DType::kInvalid;
  }
  return module_.logical[ref->id].dtype;
}

// --- results ---

bool Op::HasResult(int k) const { return k < ResultCount() && IsValid(node_.results[k].dtype); }

DType Op::LogicalResultDType(int k) const {
  return HasResult(k) ? node_.results[k].dtype : DType::kF32;
}

DType Op::ResultDType(int k) const { return module_.Physical(LogicalResultDType(k)); }

const Sizes& Op::ResultSizes(int k) const {
  static const Sizes kNone;
  return HasResult(k) ? node_.results[k].sizes : kNone;
}

// --- run time ---

void Op::Check(ErrorKind kind, std::string message, const Value& failed, const Value& value) {
  Value flag = failed, number = b.Convert(value, DType::kI64);
  if (failed.rank() > 0) {
    Sizes dims(failed.rank());
    std::iota(dims.begin(), dims.end(), 0);
    // "the first that failed": associative, so any order of evaluation gives the same.
    const Values reduced = b.Reduce({flag, number}, {b.Int(DType::kBool, 0), b.Int(DType::kI64, 0)},
                                    dims, [&](const Values& x) {
                                      return Values{b.Or(x[0], x[2]), b.Select(x[0], x[1], x[3])};
                                    });
    flag = reduced[0];
    number = reduced[1];
  }
  module_.checks.push_back({{kind, std::move(message)}, flag, number});
}

Value Op::CheckedIndex(const Value& index, int64_t size, std::string message) {
  const Value i = b.Convert(index, DType::kI64);
  const Value bad = b.Or(b.Compare("LT", i, b.Int(DType::kI64, -size, i.sizes)),
                         b.Compare("GE", i, b.Int(DType::kI64, size, i.sizes)));
  if (i.Elements() > 0) Check(ErrorKind::kIndex, std::move(message), bad, i);
  return b.Select(b.Compare("LT", i, 0), b.Add(i, b.Int(DType::kI64, size, i.sizes)), i);
}

std::string_view Op::Precision() const {
  const std::string& p = module_.graph.precision;
  return p == "highest" ? "HIGHEST" : p == "high" ? "HIGH" : "DEFAULT";
}

std::vector<std::string> OpTable::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, fn] : fns_) names.push_back(name);
  return names;
}

}  // namespace neurond::lowering
