// Matrix products. Only two-dimensional dots, or one batch dimension, and never a contraction over
// two dimensions: that form is what plugins run fast. Half types multiply into float32 and are
// rounded once.
#include "runtime/lowering/matmul.h"

#include "runtime/lowering/families.h"

namespace neurond::lowering {

Value Dot(Op& op, const Value& a, const Value& b, int contract_a, int contract_b) {
  const DType wide = OpMath(a.dtype);
  if (a.dtype == DType::kBool) {
    op.Unimplemented("a product of bools");
    return a;
  }
  return op.b.DotGeneral(a, b, {}, {}, {contract_a}, {contract_b}, wide, op.Precision());
}

Value BatchDot(Op& op, const Value& a, const Value& b, int contract_a, int contract_b) {
  return op.b.DotGeneral(a, b, {0}, {0}, {contract_a}, {contract_b}, OpMath(a.dtype),
                         op.Precision());
}

namespace {

// `a` and `b` in the result's dtype.
Value Arg(Op& op, int i) { return op.b.Convert(op.Tensor(i), op.ResultDType()); }

bool Ranks(Op& op, const Value& a, int rank_a, const Value& b, int rank_b) {
  if (a.rank() == rank_a && b.rank() == rank_b) return true;
  op.Invalid("operands of these ranks");
  return false;
}

Values Mm(Op& op) {
  const Value a = Arg(op, 0), b = Arg(op, 1);
  if (!Ranks(op, a, 2, b, 2)) return {a};
  return {op.Out(Dot(op, a, b, 1, 0))};
}

Values Bmm(Op& op) {
  const Value a = Arg(op, 0), b = Arg(op, 1);
  if (!Ranks(op, a, 3, b, 3)) return {a};
  return {op.Out(BatchDot(op, a, b, 2, 1))};
}

LowerFn DotVectors(bool conjugate) {
  return [conjugate](Op& op) -> Values {
    const Value a = Arg(op, 0), b = Arg(op, 1);
    if (!Ranks(op, a, 1, b, 1)) return {a};
    const Value row = op.b.Reshape(conjugate ? op.b.Conjugate(a) : a, {1, a.dim(0)});
    const Value product = Dot(op, row, op.b.Reshape(b, {b.dim(0), 1}), 1, 0);
    return {op.Out(op.b.Reshape(product, {}))};
  };
}

Values Mv(Op& op) {
  const Value a = Arg(op, 0), b = Arg(op, 1);
  if (!Ranks(op, a, 2, b, 1)) return {a};
  const Value product = Dot(op, a, op.b.Reshape(b, {b.dim(0), 1}), 1, 0);
  return {op.Out(op.b.Reshape(product, {a.dim(0)}))};
}

bool IsOne(Op& op, int i) { return !op.Has(i) || (op.IsNumber(i) && op.Double(i) == 1.0); }
bool IsZero(Op& op, int i) { return op.IsNumber(i) && op.Double(i) == 0.0; }

// beta * self + alpha * product. beta == 0 ignores self, NaN included.
Value Combine(Op& op, const Value& product, int beta, int alpha) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const DType wide = product.dtype;
  Value out = product;
  if (!IsOne(op, alpha)) out = b.Mul(out, op.Operand(op.Tensor(alpha), wide, wide, sizes));
  if (IsZero(op, beta)) return out;
  Value self = op.Operand(op.Tensor(0), op.ResultDType(), wide, sizes);
  if (!IsOne(op, beta)) {
    const Value factor = op.Operand(op.Tensor(beta), wide, wide, sizes);
    self = b.Mul(self, factor);
    if (op.IsTensor(beta)) {
      self = b.Select(b.Compare("EQ", factor, 0), b.Zeros(wide, sizes), self);
    }
  }
  return b.Add(out, self);
}

LowerFn AddTo(int rank_a, int rank_b) {
  return [rank_a, rank_b](Op& op) -> Values {
    const Value a = Arg(op, 1), b = Arg(op, 2);
    if (!Ranks(op, a, rank_a, b, rank_b)) return {a};
    Value product;
    if (rank_a == 3) {
      product = BatchDot(op, a, b, 2, 1);
    } else if (rank_b == 2) {
      product = Dot(op, a, b, 1, 0);
    } else {
      product = op.b.Reshape(Dot(op, a, op.b.Reshape(b, {b.dim(0), 1}), 1, 0), {a.dim(0)});
    }
    return {op.Out(Combine(op, product, 3, 4))};
  };
}

Values Addbmm(Op& op) {
  const Value a = Arg(op, 1), b = Arg(op, 2);
  if (!Ranks(op, a, 3, b, 3)) return {a};
  // The batch joins the contracted dimension.
  const Value flat_a = op.b.Reshape(op.b.Transpose(a, {1, 0, 2}), {a.dim(1), a.dim(0) * a.dim(2)});
  const Value flat_b = op.b.Reshape(b, {b.dim(0) * b.dim(1), b.dim(2)});
  return {op.Out(Combine(op, Dot(op, flat_a, flat_b, 1, 0), 3, 4))};
}

Values Addr(Op& op) {
  const Value a = Arg(op, 1), b = Arg(op, 2);
  if (!Ranks(op, a, 1, b, 1)) return {a};
  const Sizes sizes{a.dim(0), b.dim(0)};
  const DType wide = OpMath(a.dtype);
  const Value product = op.b.Mul(op.b.BroadcastInDim(op.b.Convert(a, wide), sizes, {0}),
                                 op.b.BroadcastInDim(op.b.Convert(b, wide), sizes, {1}));
  return {op.Out(Combine(op, product, 3, 4))};
}

}  // namespace

void RegisterMatmul(OpTable& t) {
  t.Add("aten.mm.default", Mm);
  t.Add("aten.bmm.default", Bmm);
  t.Add("aten.dot.default", DotVectors(false));
  t.Add("aten.vdot.default", DotVectors(true));
  t.Add("aten.mv.default", Mv);
  t.Add("aten.addmm.default", AddTo(2, 2));
  t.Add("aten.addmv.default", AddTo(2, 1));
  t.Add("aten.baddbmm.default", AddTo(3, 3));
  t.Add("aten.addbmm.default", Addbmm);
  t.Add("aten.addr.default", Addr);
}

}  // namespace neurond::lowering
