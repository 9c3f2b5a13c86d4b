// Comparisons and logic: both operands in their common dtype, a bool result.
#include "runtime/base/text.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

LowerFn Comparison(std::string_view direction) {
  return [direction](Op& op) -> Values {
    const Value a = op.Tensor(0), b = op.Tensor(1);
    const DType common = Op::Promote({a, b});
    return {op.Out(op.b.Compare(direction, op.Operand(a, common, common, op.ResultSizes()),
                                op.Operand(b, common, common, op.ResultSizes())))};
  };
}

LowerFn Logical(std::string_view hlo) {
  return [hlo](Op& op) -> Values {
    const Value a = op.b.Broadcast(op.b.Convert(op.Tensor(0), DType::kBool), op.ResultSizes());
    const Value b = op.b.Broadcast(op.b.Convert(op.Tensor(1), DType::kBool), op.ResultSizes());
    return {op.Out(op.b.Binary(hlo, a, b))};
  };
}

}  // namespace

void RegisterCompare(OpTable& t) {
  static constexpr struct {
    const char* aten;
    const char* direction;
  } kRows[] = {{"eq", "EQ"}, {"ne", "NE"}, {"lt", "LT"}, {"le", "LE"}, {"gt", "GT"}, {"ge", "GE"}};
  for (const auto& row : kRows) {
    for (const char* overload : {"Tensor", "Scalar"}) {
      t.Add(Cat("aten.", row.aten, ".", overload), Comparison(row.direction));
    }
  }
  t.Add("aten.logical_and.default", Logical("and"));
  t.Add("aten.logical_or.default", Logical("or"));
  t.Add("aten.logical_xor.default", Logical("xor"));
}

}  // namespace neurond::lowering
