// GraphBuilder: Graphs for tests, in the order that value ids demand (inputs, scalars, nodes).

#ifndef NEUROND_TESTS_UNIT_LOWERING_GRAPH_BUILDER_H_
#define NEUROND_TESTS_UNIT_LOWERING_GRAPH_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "runtime/program/graph.h"

namespace neurond::testing {

using Sizes = std::vector<int64_t>;

inline Sizes DenseStrides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * (sizes[d] > 0 ? sizes[d] : 1);
  return strides;
}

inline Arg None() { return {}; }
inline Arg V(int id) { return {ValueRef{id}}; }
inline Arg I(int64_t n) { return {n}; }
inline Arg F(double x) { return {x}; }
inline Arg B(bool b) { return {b}; }
inline Arg Str(std::string s) { return {std::move(s)}; }
inline Arg List(ArgList items) { return {std::move(items)}; }
inline Arg Ints(const Sizes& values) {
  ArgList items;
  for (int64_t v : values) items.push_back(I(v));
  return List(items);
}

class GraphBuilder {
 public:
  GraphBuilder() { graph.name = "test"; }

  // A dense input over a Buffer of its own. Returns the value id.
  int Input(DType dtype, const Sizes& sizes) {
    const View view{dtype, sizes, DenseStrides(sizes), -1};
    graph.buffers.push_back({dtype, view.Elements()});
    graph.inputs.push_back({static_cast<int>(graph.buffers.size()) - 1, view});
    return next_++;
  }
  int InputView(int buffer, View view) {
    graph.inputs.push_back({buffer, std::move(view)});
    return next_++;
  }
  int Buffer(DType dtype, int64_t elements) {
    graph.buffers.push_back({dtype, elements});
    return static_cast<int>(graph.buffers.size()) - 1;
  }
  int Scalar(DType dtype, bool wrapped = true) {
    graph.scalars.push_back({dtype, graph.word_count++, wrapped});
    return next_++;
  }
  // Returns the id of the first result.
  int Node(std::string op, std::vector<Arg> args, std::vector<TensorType> results) {
    const int first = next_;
    next_ += static_cast<int>(results.size());
    graph.nodes.push_back({std::move(op), std::move(args), std::move(results), ""});
    return first;
  }
  void Create(int value, const Sizes& sizes) {
    OutputSpec output;
    output.value = value;
    output.strides = DenseStrides(sizes);
    graph.outputs.push_back(output);
  }
  void Write(int value, int buffer, View view) {
    OutputSpec output;
    output.value = value;
    output.creates = false;
    output.buffer = buffer;
    output.view = std::move(view);
    graph.outputs.push_back(output);
  }

  Graph graph;

 private:
  int next_ = 0;
};

}  // namespace neurond::testing

#endif  // NEUROND_TESTS_UNIT_LOWERING_GRAPH_BUILDER_H_
