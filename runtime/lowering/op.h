// Op: what a lowering function sees of its node: arguments by position in the schema, the result
// types that the trace promised, run-time words and checks. And OpTable: name -> lowering function.
//
// A lowering function is `Values (Op& op)`; it returns one Value per result of the node, in order
// (a result that the trace left out is a Value without dtype). Errors are sticky (see builder.h):
// an accessor that finds another kind of argument fails the node and returns something harmless.
//
// Thread-safety: none; lives during one call of one lowering function.

#ifndef NEUROND_RUNTIME_LOWERING_OP_H_
#define NEUROND_RUNTIME_LOWERING_OP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/lowering/builder.h"
#include "runtime/lowering/value.h"
#include "runtime/program/graph.h"
#include "runtime/program/program.h"

namespace neurond::lowering {

// State of one Lower() call that all its nodes share.
struct Module {
  const Graph& graph;
  Builder b = {};
  std::vector<Value> values = {};        // by value id
  std::vector<TensorType> logical = {};  // by value id: the types PyTorch sees
  Value words = {};                      // tensor<word_count x i64>; no name if there are none
  std::map<int, Value> word_cache = {};

  struct Check {
    CheckSpec spec;
    Value failed;  // i1
    Value value;   // i64
  };
  std::vector<Check> checks = {};

  // The dtype a value of `t` has inside the module.
  DType Physical(DType t) const {
    if (!graph.float64_as_float32) return t;
    return t == DType::kF64 ? DType::kF32 : t == DType::kC128 ? DType::kC64 : t;
  }
  // Run-time word `index` as tensor<i64>.
  Value Word(int index);
};

class Op {
 public:
  Op(Module& module, const Node& node) : b(module.b), module_(module), node_(node) {}

  Builder& b;

  const std::string& name() const { return node_.op; }
  bool ok() const { return b.ok(); }
  // Fails the node: the form of it is not handled.
  void Unimplemented(std::string_view why);
  // Fails the node: the arguments are wrong.
  void Invalid(std::string_view why);

  // --- arguments ---
  int ArgCount() const { return static_cast<int>(node_.args.size()); }
  bool Has(int i) const;  // present and not None
  bool IsTensor(int i) const;
  bool IsNumber(int i) const;  // an int, float or bool literal
  Value Tensor(int i);         // a value, or a literal number as a wrapped 0-dim Value
  Values Tensors(int i);       // a list of values; None items have no dtype
  int64_t Int(int i);
  int64_t Int(int i, int64_t otherwise) { return Has(i) ? Int(i) : otherwise; }
  double Double(int i);
  double Double(int i, double otherwise) { return Has(i) ? Double(i) : otherwise; }
  bool Bool(int i);
  bool Bool(int i, bool otherwise) { return Has(i) ? Bool(i) : otherwise; }
  std::string String(int i);
  std::string String(int i, std::string_view otherwise) {
    return Has(i) ? String(i) : std::string(otherwise);
  }
  DType Type(int i);
  Sizes Ints(int i);  // a list of ints; a single int is a list of one; None is empty
  std::vector<double> Doubles(int i);
  // A dimension number in [-rank, rank) -> [0, rank). A 0-dim value counts as one-dimensional.
  int Dim(int64_t dim, int rank);
  int DimArg(int i, int rank) { return Dim(Int(i), rank); }
  // A list of dimensions, wrapped and sorted; empty or None: all of them.
  Sizes Dims(int i, int rank);
  // The dtype that PyTorch sees (float64 where the module computes in float32).
  DType LogicalDType(int i) const;

  // --- results ---
  int ResultCount() const { return static_cast<int>(node_.results.size()); }
  bool HasResult(int k) const;
  DType ResultDType(int k = 0) const;  // as inside the module
  DType LogicalResultDType(int k = 0) const;
  const Sizes& ResultSizes(int k = 0) const;
  // `v` converted to result k's dtype.
  Value Out(const Value& v, int k = 0) { return b.Convert(v, ResultDType(k)); }

  // --- type promotion ---
  // torch.result_type of the operands.
  static DType Promote(const Values& operands);
  static DType Promote(DType a, DType b);
  // `v` as an operand of an elementwise op that computes in `compute` after promotion to `common`,
  // broadcast to `sizes`.
  Value Operand(const Value& v, DType common, DType compute, const Sizes& sizes);

  // --- run time ---
  // The program fails with `message` ("{value}" is replaced) where `failed` (i1, any shape) is true
  // anywhere; the first such element's `value` (integers, same shape) is reported.
  void Check(ErrorKind kind, std::string message, const Value& failed, const Value& value);
  // `index` (integers) with negative ones wrapped, checked against [-size, size).
  Value CheckedIndex(const Value& index, int64_t size, std::string message);
  Value Word(int index) { return module_.Word(index); }
  const Graph& graph() const { return module_.graph; }
  // Precision of dots and convolutions: "HIGHEST", "HIGH" or "DEFAULT".
  std::string_view Precision() const;

 private:
  const Arg* Get(int i) const;
  Value ToValue(const Arg& arg);

  Module& module_;
  const Node& node_;
};

using LowerFn = std::function<Values(Op&)>;
class OpTable {
 public:
  void Add(std::string name, LowerFn fn) { fns_[std::move(name)] = std::move(fn); }
  const LowerFn* Find(const std::string& name) const {
    const auto it = fns_.find(name);
    return it == fns_.end() ? nullptr : &it->second;
  }
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, LowerFn, std::less<>> fns_;
};

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_OP_H_
