// softmax and log_softmax along one dimension, and their gradients.
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

struct Rows {
  Value x;
  Sizes dims;  // the one that sums to one; empty for a 0-dim value
};

Rows Input(Op& op, int i, int dim_arg) {
  const Value v = op.Tensor(i);
  const Value x = op.b.Convert(v, OpMath(v.dtype));
  const int dim = op.DimArg(dim_arg, x.rank());
  return {x, x.rank() == 0 ? Sizes{} : Sizes{dim}};
}

Value Centered(Builder& b, const Rows& r) {
  return b.Sub(r.x, Spread(b, MaxOver(b, r.x, r.dims), r.x.sizes, r.dims));
}

Values Softmax(Op& op) {
  Builder& b = op.b;
  const Rows r = Input(op, 0, 1);
  const Value e = b.Unary("exponential", Centered(b, r));
  return {op.Out(b.Div(e, Spread(b, SumOver(b, e, r.dims), e.sizes, r.dims)))};
}

Values LogSoftmax(Op& op) {
  Builder& b = op.b;
  const Rows r = Input(op, 0, 1);
  const Value c = Centered(b, r);
  const Value log_sum = b.Unary("log", SumOver(b, b.Unary("exponential", c), r.dims));
  return {op.Out(b.Sub(c, Spread(b, log_sum, c.sizes, r.dims)))};
}

// (grad, output, dim): output * (grad - sum(grad * output)).
Values SoftmaxBackward(Op& op) {
  Builder& b = op.b;
  const Rows grad = Input(op, 0, 2), y = Input(op, 1, 2);
  const Value product = b.Mul(grad.x, y.x);
  const Value sum = Spread(b, SumOver(b, product, y.dims), y.x.sizes, y.dims);
  return {op.Out(b.Sub(product, b.Mul(y.x, sum)))};
}

// (grad, output, dim): grad - exp(output) * sum(grad).
Values LogSoftmaxBackward(Op& op) {
  Builder& b = op.b;
  const Rows grad = Input(op, 0, 2), y = Input(op, 1, 2);
  const Value sum = Spread(b, SumOver(b, grad.x, grad.dims), grad.x.sizes, grad.dims);
  return {op.Out(b.Sub(grad.x, b.Mul(b.Unary("exponential", y.x), sum)))};
}

}  // namespace

void RegisterSoftmax(OpTable& t) {
  t.Add("aten._softmax.default", Softmax);
  t.Add("aten._log_softmax.default", LogSoftmax);
  t.Add("aten._softmax_backward_data.default", SoftmaxBackward);
  t.Add("aten._log_softmax_backward_data.default", LogSoftmaxBackward);
}

}  // namespace neurond::lowering
