#include "plugins/fake/interpreter.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "plugins/fake/elementwise.h"
#include "plugins/fake/number.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

using Index = std::vector<int64_t>;

const Index kNone;

const Index& NumbersOf(const HloInstruction& op, const char* name) {
  const auto it = op.numbers.find(name);
  return it == op.numbers.end() ? kNone : it->second;
}

// A value while the module runs. Parameters and constants are not copied.
struct Tensor {
  const HloType* type = nullptr;
  const char* data = nullptr;
};

// --- checking -----------------------------------------------------------------------------------

class Checker {
 public:
  explicit Checker(const HloModule& module) : types_(module.signature.parameters) {}

  absl::Status Check(const HloInstruction& op) {
    op_ = &op;
    status_ = absl::OkStatus();
    Dispatch();
    types_.push_back(op.type);
    return status_;
  }

 private:
  const HloType& Operand(size_t i) const { return types_[op_->operands[i]]; }

  bool Want(bool condition, std::string_view what) {
    if (!condition && status_.ok()) {
      status_ = absl::InvalidArgumentError(Cat("stablehlo.", op_->op, ": ", what));
    }
    return status_.ok();
  }
  bool WantOperands(size_t count) {
    return Want(op_->operands.size() == count,
                Cat("expected ", count, " operands, found ", op_->operands.size()));
  }
  void Refuse() {
    status_ = absl::UnimplementedError(
        Cat("the fake plugin does not interpret stablehlo.", op_->op, " of ",
            op_->operands.empty() ? op_->type.ToString() : Operand(0).ToString()));
  }

  void Dispatch() {
    const std::string& op = op_->op;
    if (op == "constant") return;
    if (op == "iota") {
      const Index& dim = NumbersOf(*op_, "dim");
      Want(op_->operands.empty() && dim.size() == 1 && dim[0] >= 0 && dim[0] < Rank(op_->type) &&
               op_->type.dtype != DType::kBool,
           "needs a dimension");
      return;
    }
    if (op_->operands.empty()) return Refuse();
    if (op == "reshape") return (void)(WantOperands(1) && Want(SameBytes(), "sizes differ"));
    if (op == "bitcast_convert") return (void)(WantOperands(1) && Want(Bitcasts(), "sizes differ"));
    if (op == "convert") return (void)(WantOperands(1) && Want(SameSizes(), "sizes differ"));
    if (op == "select") return Select();
    if (op == "compare") return Compare();
    if (op == "broadcast_in_dim") return BroadcastInDim();
    if (op == "transpose") return Transpose();
    if (op == "slice") return Slice();
    if (op == "dynamic_slice") return DynamicSlice();
    if (op == "dynamic_update_slice") return DynamicUpdateSlice();
    if (op == "concatenate") return Concatenate();
    Elementwise();
  }

  static int64_t Rank(const HloType& type) { return static_cast<int64_t>(type.sizes.size()); }
  bool SameSizes() const { return Operand(0).sizes == op_->type.sizes; }
  bool SameBytes() const {
    return Operand(0).dtype == op_->type.dtype && Operand(0).elements() == op_->type.elements();
  }
  // Bytes are kept; a change of width appends or drops a last dimension.
  bool Bitcasts() const {
    Index from = Operand(0).sizes, to = op_->type.sizes;
    const int from_bytes = DTypeBytes(Operand(0).dtype), to_bytes = DTypeBytes(op_->type.dtype);
    if (from_bytes > to_bytes) from.push_back(from_bytes / to_bytes);
    if (to_bytes > from_bytes) to.push_back(to_bytes / from_bytes);
    return from == to;
  }

  void Elementwise() {
    const DType dtype = Operand(0).dtype;
    if (FindBinary(op_->op, dtype) != nullptr) {
      Want(op_->operands.size() == 2 && Operand(0) == op_->type && Operand(1) == op_->type,
           "operands and result differ in type");
    } else if (FindUnary(op_->op, dtype) != nullptr) {
      Want(op_->operands.size() == 1 && SameSizes(), "operand and result differ in size");
    } else {
      Refuse();
    }
  }

  void Select() {
    if (!WantOperands(3)) return;
    const HloType& which = Operand(0);
    Want(which.dtype == DType::kBool && (which.sizes.empty() || SameSizes()) &&
             Operand(1) == op_->type && Operand(2) == op_->type,
         "operands and result differ in type");
  }

  void Compare() {
    if (!WantOperands(2)) return;
    if (FindCompare(op_->word, Operand(0).dtype) == nullptr) return Refuse();
    Want(Operand(0) == Operand(1) && SameSizes() && op_->type.dtype == DType::kBool,
         "operands and result differ in type");
  }

  void BroadcastInDim() {
    const Index& dims = NumbersOf(*op_, "dims");
    if (!WantOperands(1) ||
        !Want(dims.size() == Operand(0).sizes.size() && Operand(0).dtype == op_->type.dtype,
              "needs one target dimension per operand dimension")) {
      return;
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t size = Operand(0).sizes[d];
      Want(dims[d] >= 0 && dims[d] < Rank(op_->type) &&
               (size == 1 || size == op_->type.sizes[dims[d]]),
           "sizes do not broadcast");
    }
  }

  void Transpose() {
    const Index& dims = NumbersOf(*op_, "dims");
    if (!WantOperands(1)) return;
    Index sorted = dims, all(Operand(0).sizes.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    if (!Want(sorted == all && dims.size() == op_->type.sizes.size() &&
                  Operand(0).dtype == op_->type.dtype,
              "dims is not a permutation")) {
      return;
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      Want(op_->type.sizes[d] == Operand(0).sizes[dims[d]], "sizes differ");
    }
  }

  void Slice() {
    const Index &starts = NumbersOf(*op_, "starts"), &limits = NumbersOf(*op_, "limits"),
                &strides = NumbersOf(*op_, "strides");
    if (!WantOperands(1) ||
        !Want(starts.size() == Operand(0).sizes.size() && op_->type.sizes.size() == starts.size() &&
                  Operand(0).dtype == op_->type.dtype,
              "needs one range per dimension")) {
      return;
    }
    for (size_t d = 0; d < starts.size(); ++d) {
      Want(starts[d] >= 0 && starts[d] <= limits[d] && limits[d] <= Operand(0).sizes[d] &&
               strides[d] > 0 &&
               op_->type.sizes[d] == (limits[d] - starts[d] + strides[d] - 1) / strides[d],
           "range does not fit");
    }
  }

  // Scalars of one integer type from operand `first` on, one per dimension.
  bool Starts(size_t first) {
    bool fits = op_->operands.size() == first + Operand(0).sizes.size();
    for (size_t i = first; fits && i < op_->operands.size(); ++i) {
      fits = Operand(i).sizes.empty() && IsInteger(Operand(i).dtype);
    }
    return Want(fits, "needs one integer start per dimension");
  }

  void DynamicSlice() {
    if (!Starts(1)) return;
    const Index& sizes = NumbersOf(*op_, "sizes");
    bool fits = sizes == op_->type.sizes && sizes.size() == Operand(0).sizes.size() &&
                Operand(0).dtype == op_->type.dtype;
    for (size_t d = 0; fits && d < sizes.size(); ++d) fits = sizes[d] <= Operand(0).sizes[d];
    Want(fits, "sizes do not fit");
  }

  void DynamicUpdateSlice() {
    if (!Want(op_->operands.size() >= 2, "needs an update") || !Starts(2)) return;
    const HloType& update = Operand(1);
    bool fits = Operand(0) == op_->type && update.dtype == op_->type.dtype &&
                update.sizes.size() == op_->type.sizes.size();
    for (size_t d = 0; fits && d < update.sizes.size(); ++d) {
      fits = update.sizes[d] <= op_->type.sizes[d];
    }
    Want(fits, "the update does not fit");
  }

  void Concatenate() {
    const Index& dim = NumbersOf(*op_, "dim");
    if (!Want(dim.size() == 1 && dim[0] >= 0 && dim[0] < Rank(op_->type), "needs a dimension")) {
      return;
    }
    int64_t total = 0;
    for (size_t i = 0; i < op_->operands.size(); ++i) {
      HloType part = Operand(i);
      if (!Want(part.sizes.size() == op_->type.sizes.size(), "ranks differ")) return;
      total += part.sizes[dim[0]];
      part.sizes[dim[0]] = op_->type.sizes[dim[0]];
      Want(part == op_->type, "sizes differ");
    }
    Want(total == op_->type.sizes[dim[0]], "sizes differ");
  }

  std::vector<HloType> types_;
  const HloInstruction* op_ = nullptr;
  absl::Status status_;
};

// --- running ------------------------------------------------------------------------------------

Index RowMajorStrides(const Index& sizes) {
  Index strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

// Calls `fn(position, index)` for every element of a dense row-major tensor.
void ForEach(const Index& sizes, const std::function<void(int64_t, const Index&)>& fn) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  Index index(sizes.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    fn(position, index);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

int64_t Position(const Index& index, const Index& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

class Runner {
 public:
  Runner(const HloInstruction& op, const std::vector<Tensor>& values, char* out)
      : op_(op), values_(values), out_(out), bytes_(DTypeBytes(op.type.dtype)) {}

  void Run() {
    const std::string& op = op_.op;
    if (op == "constant") {
      std::memcpy(out_, op_.literal.data(), op_.literal.size());
    } else if (op == "iota") {
      const int64_t dim = NumbersOf(op_, "dim")[0];
      ForEach(op_.type.sizes, [&](int64_t at, const Index& index) {
        Store(at, ConvertNumber({.i = index[dim]}, DType::kI64, op_.type.dtype));
      });
    } else if (op == "reshape" || op == "bitcast_convert") {
      std::memcpy(out_, Operand(0).data, op_.type.bytes());
    } else if (op == "convert") {
      for (int64_t i = 0; i < op_.type.elements(); ++i) {
        Store(i, ConvertNumber(Load(0, i), Operand(0).type->dtype, op_.type.dtype));
      }
    } else if (op == "select") {
      const bool scalar = Operand(0).type->sizes.empty();
      for (int64_t i = 0; i < op_.type.elements(); ++i) {
        Store(i, Load(Load(0, scalar ? 0 : i).i != 0 ? 1 : 2, i));
      }
    } else if (op == "compare") {
      const DType dtype = Operand(0).type->dtype;
      const CompareFn fn = FindCompare(op_.word, dtype);
      for (int64_t i = 0; i < op_.type.elements(); ++i) {
        Store(i, {.i = fn(dtype, Load(0, i), Load(1, i))});
      }
    } else if (op == "concatenate") {
      Concatenate();
    } else if (op == "dynamic_update_slice") {
      DynamicUpdateSlice();
    } else if (!Moves()) {
      Elementwise();
    }
  }

 private:
  const Tensor& Operand(size_t i) const { return values_[op_.operands[i]]; }
  Number Load(size_t operand, int64_t position) const {
    const Tensor& tensor = Operand(operand);
    const DType dtype = tensor.type->dtype;
    return LoadNumber(dtype, tensor.data + position * DTypeBytes(dtype));
  }
  void Store(int64_t position, const Number& number) {
    StoreNumber(op_.type.dtype, number, out_ + position * bytes_);
  }

  void Elementwise() {
    const DType dtype = Operand(0).type->dtype;
    const BinaryFn binary = FindBinary(op_.op, dtype);
    const UnaryFn unary = FindUnary(op_.op, dtype);
    for (int64_t i = 0; i < op_.type.elements(); ++i) {
      Store(i,
            binary != nullptr ? binary(dtype, Load(0, i), Load(1, i)) : unary(dtype, Load(0, i)));
    }
  }

  // Clamped, as StableHLO says: the slice always lies within the operand.
  Index DynamicStarts(size_t first, const Index& sizes) const {
    Index starts;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const int64_t last = Operand(0).type->sizes[d] - sizes[d];
      starts.push_back(std::clamp<int64_t>(Load(first + d, 0).i, 0, last));
    }
    return starts;
  }

  // Ops whose result element at `index` is an operand's element at start + index * step, in strides
  // of the operand.
  bool Moves() {
    const Index& sizes = Operand(0).type->sizes;
    const Index strides = RowMajorStrides(sizes);
    Index step(op_.type.sizes.size(), 0);
    int64_t start = 0;
    if (op_.op == "broadcast_in_dim") {
      const Index& dims = NumbersOf(op_, "dims");
      for (size_t d = 0; d < dims.size(); ++d) step[dims[d]] = sizes[d] == 1 ? 0 : strides[d];
    } else if (op_.op == "transpose") {
      const Index& dims = NumbersOf(op_, "dims");
      for (size_t d = 0; d < dims.size(); ++d) step[d] = strides[dims[d]];
    } else if (op_.op == "slice") {
      for (size_t d = 0; d < step.size(); ++d) step[d] = strides[d] * NumbersOf(op_, "strides")[d];
      start = Position(NumbersOf(op_, "starts"), strides);
    } else if (op_.op == "dynamic_slice") {
      step = strides;
      start = Position(DynamicStarts(1, op_.type.sizes), strides);
    } else {
      return false;
    }
    const char* from = Operand(0).data + start * bytes_;
    ForEach(op_.type.sizes, [&](int64_t at, const Index& index) {
      std::memcpy(out_ + at * bytes_, from + Position(index, step) * bytes_, bytes_);
    });
    return true;
  }

  // Copies a dense tensor into a box of the result.
  void CopyBox(const Tensor& part, const Index& starts) {
    const Index strides = RowMajorStrides(op_.type.sizes);
    char* to = out_ + Position(starts, strides) * bytes_;
    ForEach(part.type->sizes, [&](int64_t at, const Index& index) {
      std::memcpy(to + Position(index, strides) * bytes_, part.data + at * bytes_, bytes_);
    });
  }

  void DynamicUpdateSlice() {
    std::memcpy(out_, Operand(0).data, op_.type.bytes());
    CopyBox(Operand(1), DynamicStarts(2, Operand(1).type->sizes));
  }

  void Concatenate() {
    Index starts(op_.type.sizes.size(), 0);
    const int64_t dim = NumbersOf(op_, "dim")[0];
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      CopyBox(Operand(i), starts);
      starts[dim] += Operand(i).type->sizes[dim];
    }
  }

  const HloInstruction& op_;
  const std::vector<Tensor>& values_;
  char* const out_;
  const int64_t bytes_;
};

}  // namespace

absl::Status CheckModule(const HloModule& module) {
  Checker checker(module);
  for (const HloInstruction& op : module.instructions) {
    if (absl::Status status = checker.Check(op); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::vector<char>> Interpret(const HloModule& module,
                                         std::span<const char* const> arguments) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    values.push_back({&module.signature.parameters[i], arguments[i]});
  }
  std::vector<std::vector<char>> storage;
  storage.reserve(module.instructions.size());
  for (const HloInstruction& op : module.instructions) {
    std::vector<char>& out = storage.emplace_back(op.type.bytes());
    Runner(op, values, out.data()).Run();
    values.push_back({&op.type, out.data()});
  }
  std::vector<std::vector<char>> results;
  for (int value : module.results) {
    results.emplace_back(values[value].data, values[value].data + values[value].type->bytes());
  }
  return results;
}

}  // namespace neurond::fake
