// Compiled graphs: neuron::run_graph(int graph, Tensor[] tensors, Scalar[] scalars) -> Tensor[],
// through the keyed path.
//
// Thread-safety: all functions, from any thread. Graphs are never unregistered: Dynamo keeps them
// for the process's life.

#ifndef NEUROND_CLIENT_TORCH_CSRC_GRAPH_H_
#define NEUROND_CLIENT_TORCH_CSRC_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace neurond::shim {

// The number that Python names the graph by. Equal content hashes are different graphs here, the
// same program in the daemon.
int64_t RegisterGraph(std::string content_hash, std::vector<int64_t> mutated);
std::string GraphHash(uint64_t graph);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_GRAPH_H_
