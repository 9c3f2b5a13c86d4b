// Graphs come from clients. Whatever their arguments are, Lower() answers with a Program or a
// Status; under the sanitizers this test is what holds the lowering functions to it.
#include <gtest/gtest.h>

#include <random>

#include "runtime/lowering/lowering.h"
#include "tests/unit/lowering/graph_builder.h"

namespace neurond {
namespace {

using testing::GraphBuilder;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  Graph Make(const std::string& op) {
    GraphBuilder b;
    b.graph.word_count = 2;
    if (Pick(2) == 0) {
      b.graph.seed_word = 0;
      b.graph.offset_word = 1;
    }
    const int inputs = 1 + Pick(4);
    for (int i = 0; i < inputs; ++i) values_ = b.Input(Type(), Shape()) + 1;
    if (Pick(2) == 0) values_ = b.Scalar(Pick(2) == 0 ? DType::kF64 : DType::kI64) + 1;
    b.graph.float64_as_float32 = Pick(2) == 0;
    std::vector<Arg> args;
    const int count = Pick(18);
    for (int i = 0; i < count; ++i)
      args.push_back(i < 3 && Pick(3) > 0 ? testing::V(Pick(values_)) : Any(0));
    std::vector<TensorType> results;
    const int outputs = 1 + Pick(5);
    for (int i = 0; i < outputs; ++i) {
      results.push_back({Pick(6) == 0 ? DType::kInvalid : Type(), Shape()});
    }
    const int first = b.Node(op, args, results);
    b.Create(first, results[0].sizes);
    return b.graph;
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  DType Type() { return static_cast<DType>(1 + Pick(15)); }

  std::vector<int64_t> Shape() {
    std::vector<int64_t> sizes(Pick(5));
    for (int64_t& s : sizes) s = Pick(5);
    return sizes;
  }

  int64_t Number() {
    static constexpr int64_t kOdd[] = {INT64_MIN, INT64_MAX, -1, int64_t{1} << 40,
                                       -(int64_t{1} << 40)};
    return Pick(8) == 0 ? kOdd[Pick(5)] : Pick(9) - 3;
  }

  Arg Any(int depth) {
    static const char* const kWords[] = {"",      "mean",  "sum",  "tanh",
                                         "floor", "trunc", "amax", "right"};
    switch (Pick(depth == 0 ? 10 : 7)) {
      case 0:
        return testing::None();
      case 1:
        return testing::V(Pick(values_));
      case 2:
      case 3:
        return testing::I(Number());
      case 4:
        return testing::F(Pick(2) == 0 ? 0.5 : 1e308 * 10);
      case 5:
        return testing::B(Pick(2) == 0);
      case 6:
        return Pick(2) == 0 ? testing::Str(kWords[Pick(8)]) : Arg{Type()};
      default: {
        ArgList items;
        const int n = Pick(5);
        const bool alike = Pick(2) == 0;
        for (int i = 0; i < n; ++i) items.push_back(alike ? testing::I(Number()) : Any(depth + 1));
        return testing::List(items);
      }
    }
  }

  std::mt19937 random_;
  int values_ = 0;
};

TEST(HostileGraphTest, EveryOpAnswersRandomArgumentsWithAProgramOrAStatus) {
  int lowered = 0, refused = 0;
  for (const std::string& op : LoweredOps()) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const Graph graph = RandomGraph(seed).Make(op);
      (Lower(graph).ok() ? lowered : refused)++;
    }
  }
  // Both happen: the generator is neither too wild nor too tame.
  EXPECT_GT(lowered, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace neurond
