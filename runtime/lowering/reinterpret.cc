// The same bytes under another dtype, and the parts of complex numbers.
#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/view.h"

namespace neurond::lowering {
namespace {

Values ViewDType(Op& op) {
  Builder& b = op.b;
  // The bytes that PyTorch sees: float64 that is computed as float32 is widened first.
  Value x = op.Tensor(0);
  if (const DType seen = op.LogicalDType(0); IsValid(seen)) x = b.Convert(x, seen);
  const Value flat = BitcastFlat(b, b.Reshape(x, {x.Elements()}), op.LogicalResultDType());
  return {op.Out(b.Reshape(flat, op.ResultSizes()))};
}

Values ViewAsReal(Op& op) {
  const Value x = op.Tensor(0);
  Sizes sizes = x.sizes;
  sizes.push_back(1);
  const DType part = RealOf(x.dtype);
  return {op.b.Concatenate({op.b.Reshape(op.b.UnaryTo("real", x, part), sizes),
                            op.b.Reshape(op.b.UnaryTo("imag", x, part), sizes)},
                           x.rank())};
}

Values ViewAsComplex(Op& op) {
  const Value x = op.Tensor(0);
  const int last = x.rank() - 1;
  if (last < 0 || x.dim(last) != 2) {
    op.Invalid("Tensor must have a last dimension of size 2");
    return {x};
  }
  return {op.b.Complex(op.b.Reshape(op.b.SliceDim(x, last, 0, 1), op.ResultSizes()),
                       op.b.Reshape(op.b.SliceDim(x, last, 1, 2), op.ResultSizes()))};
}

LowerFn Part(std::string_view hlo) {
  return [hlo](Op& op) -> Values {
    const Value x = op.Tensor(0);
    if (!IsComplex(x.dtype)) {
      return {hlo == "real" ? x : op.b.Zeros(x.dtype, x.sizes)};
    }
    return {op.b.UnaryTo(hlo, x, RealOf(x.dtype))};
  };
}

Values MakeComplex(Op& op) {
  const DType part = RealOf(op.ResultDType());
  return {op.b.Complex(op.Operand(op.Tensor(0), part, part, op.ResultSizes()),
                       op.Operand(op.Tensor(1), part, part, op.ResultSizes()))};
}

Values Conjugate(Op& op) { return {op.b.Conjugate(op.Tensor(0))}; }

}  // namespace

void RegisterReinterpret(OpTable& t) {
  t.Add("aten.view.dtype", ViewDType);
  t.Add("aten.view_copy.dtype", ViewDType);
  t.Add("aten.view_as_real.default", ViewAsReal);
  t.Add("aten.view_as_real_copy.default", ViewAsReal);
  t.Add("aten.view_as_complex.default", ViewAsComplex);
  t.Add("aten.view_as_complex_copy.default", ViewAsComplex);
  t.Add("aten.real.default", Part("real"));
  t.Add("aten.imag.default", Part("imag"));
  t.Add("aten.complex.default", MakeComplex);
  for (const char* name : {"conj", "_conj", "conj_physical", "_conj_physical", "_conj_copy"}) {
    t.Add(Cat("aten.", name, ".default"), Conjugate);
  }
}

}  // namespace neurond::lowering
