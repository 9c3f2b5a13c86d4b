// Ops that make values from nothing: fills, ranges, identity, constants; and conversions.
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

Value FillWith(Op& op, const Value& value) {
  return op.b.Broadcast(op.b.Convert(value, op.ResultDType()), op.ResultSizes());
}

LowerFn FillArg(int i) {
  return [i](Op& op) -> Values { return {FillWith(op, op.Tensor(i))}; };
}

LowerFn FillConstant(double value) {
  return
      [value](Op& op) -> Values { return {op.b.Fill(op.ResultDType(), value, op.ResultSizes())}; };
}

// start + i * step. PyTorch steps in float64 for float results.
Value Range(Op& op, const Value& start, const Value& step) {
  Builder& b = op.b;
  const DType result = op.ResultDType();
  const Sizes& sizes = op.ResultSizes();
  auto whole = [](const Value& v) {
    if (std::holds_alternative<int64_t>(v.number)) return true;
    const auto* d = std::get_if<double>(&v.number);
    return d != nullptr && std::nearbyint(*d) == *d && std::fabs(*d) < 0x1p20;
  };
  const bool exact = whole(start) && whole(step) && op.ResultSizes()[0] < (1 << 23);
  const DType compute = !IsFloat(result)                 ? DType::kI64
                        : exact && result != DType::kF64 ? DType::kF32
                                                         : DType::kF64;
  const Value at = b.Iota(compute, sizes, 0);
  return op.Out(b.Add(b.Mul(at, b.Broadcast(b.Convert(step, compute), sizes)),
                      b.Broadcast(b.Convert(start, compute), sizes)));
}

Value Literal(int64_t n) {
  return {.name = "", .dtype = DType::kI64, .sizes = {}, .wrapped = true, .number = n};
}

// (start, end, step) at arguments `start` and `step`; -1: the default.
LowerFn Arange(int start, int step) {
  return [start, step](Op& op) -> Values {
    if (op.ResultSizes().size() != 1) {
      op.Invalid("the result is not one-dimensional");
      return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
    }
    return {Range(op, start < 0 ? Literal(0) : op.Tensor(start),
                  step < 0 ? Literal(1) : op.Tensor(step))};
  };
}

Values PrimsIota(Op& op) {
  if (op.ResultSizes().size() != 1) {
    op.Invalid("the result is not one-dimensional");
    return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
  }
  return {Range(op, op.Tensor(1), op.Tensor(2))};
}

// From both ends towards the middle, as PyTorch's.
Values Linspace(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  if (sizes.size() != 1) {
    op.Invalid("the result is not one-dimensional");
    return {b.Zeros(op.ResultDType(), sizes)};
  }
  const DType compute =
      op.ResultDType() == DType::kF64 || !IsFloat(op.ResultDType()) ? DType::kF64 : DType::kF32;
  const int64_t n = sizes[0];
  auto wide = [&](const Value& v) { return b.Broadcast(b.Convert(v, compute), sizes); };
  const Value start = wide(op.Tensor(0)), end = wide(op.Tensor(1));
  if (n <= 1) return {op.Out(start)};
  const Value step = b.Div(b.Sub(end, start), static_cast<double>(n - 1));
  const Value at = b.Iota(compute, sizes, 0);
  const Value up = b.Add(start, b.Mul(at, step));
  const Value down =
      b.Sub(end, b.Mul(b.Sub(b.Fill(compute, static_cast<double>(n - 1), sizes), at), step));
  const Value out = b.Select(b.Compare("LT", at, static_cast<double>(n / 2)), up, down);
  return {op.Out(out)};
}

Values Eye(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  if (sizes.size() != 2) {
    op.Invalid("the result is not a matrix");
    return {b.Zeros(op.ResultDType(), sizes)};
  }
  const Value same = b.Compare("EQ", b.Iota(DType::kI32, sizes, 0), b.Iota(DType::kI32, sizes, 1));
  return {op.Out(same)};
}

// neuron.constant(numbers, dtype, sizes): a tensor literal, row-major.
Values Constant(Op& op) {
  Builder& b = op.b;
  const DType dtype = op.ResultDType();
  const Values numbers = op.Tensors(0);
  int64_t n = 1;
  for (int64_t s : op.ResultSizes()) n *= s;
  if (static_cast<int64_t>(numbers.size()) != n) {
    op.Invalid(Cat(numbers.size(), " numbers for ", n, " elements"));
    return {b.Zeros(dtype, op.ResultSizes())};
  }
  if (n == 0) return {b.Zeros(dtype, op.ResultSizes())};
  Values parts;
  for (const Value& v : numbers) parts.push_back(b.Reshape(b.Convert(v, dtype), {1}));
  return {b.Reshape(b.Concatenate(parts, 0), op.ResultSizes())};
}

Values ToCopy(Op& op) { return {op.Out(op.Tensor(0))}; }

// Copies the second argument over the first.
Values CopyOver(Op& op) {
  return {op.b.Broadcast(op.b.Convert(op.Tensor(1), op.ResultDType()), op.ResultSizes())};
}

}  // namespace

void RegisterCreate(OpTable& t) {
  t.Add("aten.full.default", FillArg(1));
  t.Add("aten.full_like.default", FillArg(1));
  t.Add("aten.new_full.default", FillArg(2));
  t.Add("aten.scalar_tensor.default", FillArg(0));
  t.Add("aten.fill.Scalar", FillArg(1));
  t.Add("aten.fill.Tensor", FillArg(1));
  for (const char* name :
       {"zeros.default", "zeros_like.default", "new_zeros.default", "zero.default",
        // Memory nobody wrote is zeros, never another session's bytes.
        "empty.memory_format", "empty_like.default", "empty_strided.default", "new_empty.default",
        "new_empty_strided.default", "empty_permuted.default"}) {
    t.Add(Cat("aten.", name), FillConstant(0));
  }
  for (const char* name : {"ones.default", "ones_like.default", "new_ones.default"}) {
    t.Add(Cat("aten.", name), FillConstant(1));
  }
  t.Add("aten.arange.default", Arange(-1, -1));
  t.Add("aten.arange.start", Arange(0, -1));
  t.Add("aten.arange.start_step", Arange(0, 2));
  t.Add("prims.iota.default", PrimsIota);
  for (const char* name : {"default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"}) {
    t.Add(Cat("aten.linspace.", name), Linspace);
  }
  t.Add("aten.eye.default", Eye);
  t.Add("aten.eye.m", Eye);
  t.Add("neuron.constant", Constant);
  t.Add("neuron.constant.default", Constant);
  for (const char* name : {"aten._to_copy.default", "prims.convert_element_type.default",
                           "aten.to.dtype", "prims.device_put.default", "prims.clone.default"}) {
    t.Add(name, ToCopy);
  }
  t.Add("aten.copy.default", CopyOver);
}

}  // namespace neurond::lowering
