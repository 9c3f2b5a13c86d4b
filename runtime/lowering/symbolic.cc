// Arithmetic on run-time numbers (`sym.*`): 0-dim int64, float64 and bool values, as Python
// computes them.
#include "runtime/base/text.h"
#include "runtime/lowering/elementwise.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

Value Arg(Op& op, int i) { return op.b.Convert(op.Tensor(i), op.LogicalResultDType()); }

Values Wrapped(Value v) {
  v.wrapped = true;
  return {v};
}

LowerFn Fold(std::string_view hlo) {
  return [hlo](Op& op) -> Values {
    Value out = Arg(op, 0);
    for (int i = 1; i < op.ArgCount(); ++i) out = op.b.Binary(hlo, out, Arg(op, i));
    return Wrapped(out);
  };
}

LowerFn Apply(std::string_view hlo) {
  return [hlo](Op& op) -> Values { return Wrapped(op.b.Unary(hlo, Arg(op, 0))); };
}

Values Cast(Op& op) {
  const Value x = op.Tensor(0);
  if (IsFloat(x.dtype) && !IsFloat(op.LogicalResultDType())) {
    return Wrapped(op.b.Convert(Truncate(op.b, op.b.Convert(x, x.dtype)), op.LogicalResultDType()));
  }
  return Wrapped(Arg(op, 0));
}

LowerFn Comparison(std::string_view direction) {
  return [direction](Op& op) -> Values {
    const Value a = op.Tensor(0), b = op.Tensor(1);
    const DType common = IsFloat(a.dtype) || IsFloat(b.dtype) ? DType::kF64 : DType::kI64;
    return Wrapped(op.b.Compare(direction, op.b.Convert(a, common), op.b.Convert(b, common)));
  };
}

// Python's floor division and modulo.
LowerFn Floored(bool modulo) {
  return [modulo](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = Arg(op, 0), d = Arg(op, 1), r = b.Binary("remainder", x, d);
    const Value borrow =
        b.And(b.Compare("NE", r, 0), b.Compare("NE", b.Compare("LT", r, 0), b.Compare("LT", d, 0)));
    if (!IsFloat(d.dtype)) {
      op.Check(ErrorKind::kZeroDivision, "integer division or modulo by zero",
               b.Compare("EQ", d, 0), d);
    }
    if (modulo) return Wrapped(b.Select(borrow, b.Add(r, d), r));
    if (IsFloat(d.dtype)) return Wrapped(b.Unary("floor", b.Div(x, d)));
    const Value q = b.Div(x, d);
    return Wrapped(b.Select(borrow, b.Sub(q, 1), q));
  };
}

}  // namespace

void RegisterSymbolic(OpTable& t) {
  t.Add("sym.add", Fold("add"));
  t.Add("sym.sub", Fold("subtract"));
  t.Add("sym.mul", Fold("multiply"));
  t.Add("sym.truediv", Fold("divide"));
  t.Add("sym.pow", Fold("power"));
  t.Add("sym.max", Fold("maximum"));
  t.Add("sym.min", Fold("minimum"));
  t.Add("sym.and", Fold("and"));
  t.Add("sym.or", Fold("or"));
  t.Add("sym.not", Apply("not"));
  t.Add("sym.neg", Apply("negate"));
  t.Add("sym.abs", Apply("abs"));
  t.Add("sym.sqrt", Apply("sqrt"));
  t.Add("sym.exp", Apply("exponential"));
  t.Add("sym.log", Apply("log"));
  t.Add("sym.floor", [](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), DType::kF64);
    return Wrapped(op.b.Convert(op.b.Unary("floor", x), op.LogicalResultDType()));
  });
  t.Add("sym.ceil", [](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), DType::kF64);
    return Wrapped(op.b.Convert(op.b.Unary("ceil", x), op.LogicalResultDType()));
  });
  t.Add("sym.float", Cast);
  t.Add("sym.int", Cast);
  t.Add("sym.floordiv", Floored(false));
  t.Add("sym.mod", Floored(true));
  static constexpr const char* kCompare[][2] = {{"eq", "EQ"}, {"ne", "NE"}, {"lt", "LT"},
                                                {"le", "LE"}, {"gt", "GT"}, {"ge", "GE"}};
  for (const auto& row : kCompare) t.Add(Cat("sym.", row[0]), Comparison(row[1]));
}

}  // namespace neurond::lowering
