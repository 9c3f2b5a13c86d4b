#include "client/torch/csrc/graph.h"

#include <torch/library.h>

#include <mutex>

#include "client/torch/csrc/dispatch.h"
#include "client/torch/csrc/register.h"

namespace neurond::shim {
namespace {

struct Graphs {
  std::mutex mutex;
  std::vector<std::string> hashes{""};  // numbers start at 1
};
Graphs& Known() {
  static Graphs* graphs = new Graphs();
  return *graphs;
}

void RunGraph(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
              torch::jit::Stack* stack) {
  const int64_t graph = (*stack)[stack->size() - 3].toInt();
  {
    Graphs& graphs = Known();
    std::lock_guard<std::mutex> lock(graphs.mutex);
    TORCH_CHECK(graph > 0 && static_cast<size_t>(graph) < graphs.hashes.size(), "neuron: no graph ",
                graph);
  }
  RunKeyed(OpInfo::Of(op), stack, static_cast<uint64_t>(graph));
}

}  // namespace

int64_t RegisterGraph(std::string content_hash, std::vector<int64_t> /*mutated*/) {
  Graphs& graphs = Known();
  std::lock_guard<std::mutex> lock(graphs.mutex);
  graphs.hashes.push_back(std::move(content_hash));
  return static_cast<int64_t>(graphs.hashes.size()) - 1;
}

std::string GraphHash(uint64_t graph) {
  Graphs& graphs = Known();
  std::lock_guard<std::mutex> lock(graphs.mutex);
  return graphs.hashes.at(graph);
}

void RegisterGraphOp() {
  static auto* definition =
      new torch::Library(torch::Library::FRAGMENT, "neuron", std::nullopt, __FILE__, __LINE__);
  definition->def("run_graph(int graph, Tensor[] tensors, Scalar[] scalars) -> Tensor[]");
  // For every key: a graph may have no tensor arguments.
  static auto* kernel =
      new torch::Library(torch::Library::IMPL, "neuron",
                         c10::DispatchKey::CompositeExplicitAutograd, __FILE__, __LINE__);
  kernel->impl("run_graph", torch::CppFunction::makeFromBoxedFunction<&RunGraph>());
}

}  // namespace neurond::shim
