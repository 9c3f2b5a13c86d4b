#include "runtime/program/graph.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

int64_t Product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

// OK if `sizes` is a shape whose element count fits, so that later products cannot overflow.
absl::Status CheckSizes(std::string_view what, const std::vector<int64_t>& sizes) {
  if (sizes.size() > static_cast<size_t>(kRankMax)) {
    return absl::InvalidArgumentError(
        Cat(what, ": ", sizes.size(), " dimensions, at most ", kRankMax));
  }
  for (int64_t s : sizes) {
    if (s < 0 || s > kElementsMax) {
      return absl::InvalidArgumentError(Cat(what, ": size ", s, " in [", Join(sizes), "]"));
    }
  }
  // A product with a zero is zero, but each partial product must fit too: shapes are sliced and
  // permuted.
  int64_t n = 1;
  for (int64_t s : sizes) {
    if (s == 0) continue;
    if (n > kElementsMax / s) {
      return absl::InvalidArgumentError(
          Cat(what, ": [", Join(sizes), "] has more than ", kElementsMax, " elements"));
    }
    n *= s;
  }
  return absl::OkStatus();
}

class Validator {
 public:
  explicit Validator(const Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    for (auto part : {&Validator::Counts, &Validator::Buffers, &Validator::Inputs,
                      &Validator::Scalars, &Validator::Nodes, &Validator::Outputs}) {
      if (absl::Status status = (this->*part)(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Counts() {
    for (size_t n : {graph_.buffers.size(), graph_.inputs.size(), graph_.scalars.size(),
                     graph_.nodes.size(), graph_.outputs.size()}) {
      if (n > static_cast<size_t>(kProgramPartsMax)) return Bad(Cat("has ", n, " parts"));
    }
    if (graph_.word_count < 0 || graph_.word_count > kProgramWordsMax) {
      return Bad(Cat("has ", graph_.word_count, " words, at most ", kProgramWordsMax));
    }
    if (graph_.offsets_used < 0) return Bad("uses a negative number of random offsets");
    if (absl::Status s = Word("seed", graph_.seed_word, true); !s.ok()) return s;
    if (absl::Status s = Word("offset", graph_.offset_word, true); !s.ok()) return s;
    if ((graph_.seed_word < 0) != (graph_.offset_word < 0)) {
      return Bad("has a seed word without an offset word, or the reverse");
    }
    if (graph_.precision != "highest" && graph_.precision != "high" &&
        graph_.precision != "medium") {
      return Bad(Cat("has precision \"", graph_.precision, "\""));
    }
    return absl::OkStatus();
  }

  absl::Status Buffers() {
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const BufferSpec& buffer = graph_.buffers[i];
      if (!IsValid(buffer.dtype)) return Bad(Cat("buffer ", i, ": no dtype"));
      if (absl::Status s = CheckSizes(Cat("buffer ", i), {buffer.elements}); !s.ok()) {
        return Bad(std::string(s.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Inputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const InputSpec& input = graph_.inputs[i];
      if (absl::Status s = CheckView(Cat("input ", i), input.buffer, input.view); !s.ok()) {
        return s;
      }
    }
    values_ = static_cast<int64_t>(graph_.inputs.size());
    return absl::OkStatus();
  }

  absl::Status Scalars() {
    for (size_t i = 0; i < graph_.scalars.size(); ++i) {
      const ScalarSpec& scalar = graph_.scalars[i];
      if (scalar.dtype != DType::kI64 && scalar.dtype != DType::kF64 &&
          scalar.dtype != DType::kBool) {
        return Bad(Cat("scalar ", i, ": dtype ", TorchName(scalar.dtype)));
      }
      if (absl::Status s = Word(Cat("scalar ", i), scalar.word, false); !s.ok()) return s;
    }
    values_ += static_cast<int64_t>(graph_.scalars.size());
    return absl::OkStatus();
  }

  absl::Status Nodes() {
    for (const Node& node : graph_.nodes) {
      for (const Arg& arg : node.args) {
        if (absl::Status s = CheckArg(node, arg, 0); !s.ok()) return s;
      }
      for (const TensorType& type : node.results) {
        if (!IsValid(type.dtype)) continue;
        if (absl::Status s = CheckSizes(node.op, type.sizes); !s.ok())
          return Bad(std::string(s.message()));
      }
      values_ += static_cast<int64_t>(node.results.size());
      if (values_ > kProgramPartsMax) return Bad(Cat("has more than ", values_, " values"));
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const OutputSpec& output = graph_.outputs[i];
      const std::string what = Cat("output ", i);
      if (output.value < 0 || output.value >= values_) {
        return Bad(Cat(what, ": no value ", output.value));
      }
      if (output.creates) continue;
      if (absl::Status s = CheckView(what, output.buffer, output.view); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status CheckArg(const Node& node, const Arg& arg, int depth) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) {
      if (ref->id >= 0 && ref->id < values_) return absl::OkStatus();
      return Bad(Cat(node.op, ": an argument names value ", ref->id, " of ", values_));
    }
    const auto* list = std::get_if<ArgList>(&arg.v);
    if (list == nullptr) return absl::OkStatus();
    if (depth >= kArgDepthMax || list->size() > static_cast<size_t>(kArgItemsMax)) {
      return Bad(Cat(node.op, ": an argument list of ", list->size(), " items at depth ", depth));
    }
    for (const Arg& item : *list) {
      if (absl::Status s = CheckArg(node, item, depth + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status CheckView(const std::string& what, int buffer, const View& view) {
    if (buffer < 0 || buffer >= static_cast<int>(graph_.buffers.size())) {
      return Bad(Cat(what, ": no buffer ", buffer));
    }
    if (!IsValid(view.dtype)) return Bad(Cat(what, ": no dtype"));
    if (view.sizes.size() != view.strides.size()) {
      return Bad(
          Cat(what, ": ", view.sizes.size(), " sizes and ", view.strides.size(), " strides"));
    }
    if (absl::Status s = CheckSizes(what, view.sizes); !s.ok())
      return Bad(std::string(s.message()));
    if (absl::Status s = Word(what, view.offset_word, true); !s.ok()) return s;
    for (int64_t stride : view.strides) {
      if (stride < 0 || stride > kElementsMax) {
        return Bad(Cat(what, ": stride ", stride));
      }
    }
    const BufferSpec& spec = graph_.buffers[buffer];
    const int64_t elements = spec.elements * DTypeBytes(spec.dtype) / DTypeBytes(view.dtype);
    // Written so that nothing overflows: each term is compared with what is left.
    int64_t left = view.Elements() == 0 ? elements : elements - 1;
    for (size_t d = 0; d < view.sizes.size() && view.Elements() > 0; ++d) {
      const int64_t steps = view.sizes[d] - 1;
      if (steps > 0 && view.strides[d] > 0) {
        left = view.strides[d] > left / steps ? -1 : left - steps * view.strides[d];
      }
      if (left < 0) break;
    }
    if (left >= 0) return absl::OkStatus();
    return Bad(Cat(what, ": sizes [", Join(view.sizes), "], strides [", Join(view.strides),
                   "] reach beyond buffer ", buffer, " of ", elements, " ", TorchName(view.dtype)));
  }

  absl::Status Word(std::string_view what, int word, bool optional) {
    if ((optional && word == -1) || (word >= 0 && word < graph_.word_count)) {
      return absl::OkStatus();
    }
    return Bad(Cat(what, ": no word ", word, " of ", graph_.word_count));
  }

  absl::Status Bad(std::string_view message) const {
    return absl::InvalidArgumentError(Cat("program ", graph_.name, ": ", message));
  }

  const Graph& graph_;
  int64_t values_ = 0;
};

}  // namespace

int64_t View::Elements() const { return Product(sizes); }

int64_t View::Span() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

int64_t TensorType::Elements() const { return Product(sizes); }

absl::Status Validate(const Graph& graph) { return Validator(graph).Run(); }

}  // namespace neurond
