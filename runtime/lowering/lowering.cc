#include "runtime/lowering/lowering.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/limits.h"
#include "runtime/lowering/op.h"
#include "runtime/lowering/view.h"

namespace neurond {
namespace {

using lowering::Builder;
using lowering::kNameBytesMax;
using lowering::kStackBytesMax;
using lowering::Module;
using lowering::Op;
using lowering::OpTable;
using lowering::Value;
using lowering::Values;

const OpTable& Table() {
  static const OpTable* const table = [] {
    auto* t = new OpTable;
    for (auto family :
         {lowering::RegisterUnary,     lowering::RegisterBinary,     lowering::RegisterCompare,
          lowering::RegisterShape,     lowering::RegisterPadding,    lowering::RegisterReinterpret,
          lowering::RegisterEmbedding, lowering::RegisterCreate,     lowering::RegisterReduce,
          lowering::RegisterMatmul,    lowering::RegisterConv,       lowering::RegisterPool,
          lowering::RegisterIndex,     lowering::RegisterMask,       lowering::RegisterScan,
          lowering::RegisterSort,      lowering::RegisterActivation, lowering::RegisterSoftmax,
          lowering::RegisterNorm,      lowering::RegisterBatchNorm,  lowering::RegisterLoss,
          lowering::RegisterSymbolic,  lowering::RegisterRandom,     lowering::RegisterAttention}) {
      family(*t);
    }
    return t;
  }();
  return *table;
}

bool IsSymbolic(std::string_view op) { return op.substr(0, 4) == "sym."; }

// Adds the node's op to a failure's message, once.
absl::Status Named(const absl::Status& status, const Node& node) {
  const std::string message(status.message());
  if (message.find(node.op) != std::string::npos) return status;
  return absl::Status(status.code(), Cat(node.op, ": ", message));
}

class Lowerer {
 public:
  explicit Lowerer(const Graph& graph) : graph_(graph), m_{.graph = graph} {}

  absl::StatusOr<Program> Run() {
    Signature();
    Inputs();
    for (const Node& node : graph_.nodes) {
      if (absl::Status status = LowerNode(node); !status.ok()) return Named(status, node);
    }
    Outputs();
    Checks();
    if (!m_.b.ok()) return InProgram(m_.b.status());
    Text();
    return std::move(program_);
  }

 private:
  absl::Status InProgram(const absl::Status& status) const {
    return absl::Status(status.code(),
                        Cat("program ", graph_.name, ": ", std::string(status.message())));
  }

  // Which buffers the module takes: those that something reads or writes.
  void Signature() {
    program_.name = Shortened(graph_.name, kProgramNameBytesMax);
    program_.buffers = graph_.buffers;
    program_.word_count = graph_.word_count;
    std::vector<bool> used(graph_.buffers.size(), false);
    for (const InputSpec& input : graph_.inputs) {
      if (input.view.Elements() > 0) used[input.buffer] = true;
      AddBound(input.buffer, input.view);
      Append(program_.detail, program_.detail.empty() ? "" : ", ", TorchName(input.view.dtype), "[",
             Join(input.view.sizes), "]");
    }
    for (const OutputSpec& output : graph_.outputs) {
      if (output.creates) continue;
      if (output.view.Elements() > 0) used[output.buffer] = true;
      AddBound(output.buffer, output.view);
    }
    for (size_t slot = 0; slot < used.size(); ++slot) {
      if (!used[slot] || graph_.buffers[slot].elements == 0) continue;
      arg_of_slot_[static_cast<int>(slot)] = static_cast<int>(program_.parameters.size());
      program_.parameters.push_back(static_cast<int>(slot));
    }
    for (const Node& node : graph_.nodes) {
      if (node.stack.empty() || program_.stack.size() > kStackBytesMax) continue;
      if (program_.stack.find(node.stack) == std::string::npos)
        Append(program_.stack, node.stack, "\n");
    }
  }

  void AddBound(int buffer, const View& view) {
    if (view.offset_word < 0) return;
    const BufferSpec& spec = graph_.buffers[buffer];
    const OffsetBound bound{view.offset_word, buffer, view.Span(),
                            spec.elements * DTypeBytes(spec.dtype) / DTypeBytes(view.dtype)};
    for (const OffsetBound& b : program_.bounds) {
      if (b.word == bound.word && b.buffer == bound.buffer && b.span == bound.span &&
          b.elements == bound.elements) {
        return;
      }
    }
    program_.bounds.push_back(bound);
  }

  Value Flat(int slot) {
    const BufferSpec& spec = graph_.buffers[slot];
    const auto it = arg_of_slot_.find(slot);
    if (it == arg_of_slot_.end()) return m_.b.Zeros(spec.dtype, {spec.elements});
    return {.name = Cat("%arg", it->second), .dtype = spec.dtype, .sizes = {spec.elements}};
  }

  void Inputs() {
    if (graph_.word_count > 0) {
      m_.words = {.name = Cat("%arg", program_.parameters.size()),
                  .dtype = DType::kI64,
                  .sizes = {graph_.word_count}};
    }
    for (const InputSpec& input : graph_.inputs) {
      const Value value = lowering::ReadView(m_, Flat(input.buffer), input.view);
      m_.values.push_back(m_.b.Convert(value, m_.Physical(input.view.dtype)));
      m_.logical.push_back({input.view.dtype, input.view.sizes});
    }
    for (const ScalarSpec& scalar : graph_.scalars) {
      // Scalars stay float64 under float64_as_float32: expressions over them (1 - beta ** step)
      // need it.
      const Value word = m_.Word(scalar.word);
      Value value = scalar.dtype == DType::kI64   ? word
                    : scalar.dtype == DType::kF64 ? m_.b.BitcastConvert(word, DType::kF64, {})
                                                  : m_.b.Compare("NE", word, 0);
      value.wrapped = scalar.wrapped;
      m_.values.push_back(value);
      m_.logical.push_back({scalar.dtype, {}});
    }
  }

  absl::Status LowerNode(const Node& node) {
    const lowering::LowerFn* fn = Table().Find(node.op);
    if (fn == nullptr) return absl::UnimplementedError(Cat("no lowering for ", node.op));
    Op op(m_, node);
    Values results = (*fn)(op);
    if (!m_.b.ok()) return m_.b.status();
    if (results.size() != node.results.size()) {
      return absl::InternalError(Cat(node.op, ": lowered to ", results.size(),
                                     " results, the graph has ", node.results.size()));
    }
    for (size_t k = 0; k < results.size(); ++k) {
      const TensorType& type = node.results[k];
      if (!IsValid(type.dtype)) {
        m_.values.push_back({});
        m_.logical.push_back(type);
        continue;
      }
      const DType expected = IsSymbolic(node.op) ? type.dtype : m_.Physical(type.dtype);
      if (results[k].dtype != expected || results[k].sizes != type.sizes) {
        return absl::InternalError(Cat(node.op, ": result ", k, " lowered to ",
                                       Builder::Type(results[k]), ", the graph has ",
                                       Builder::Type(expected, type.sizes)));
      }
      results[k].name = m_.b.Ref(results[k]);
      m_.values.push_back(results[k]);
      m_.logical.push_back(type);
    }
    return absl::OkStatus();
  }

  void Outputs() {
    std::map<int, Value> next;  // of written slots
    for (const OutputSpec& output : graph_.outputs) {
      const Value& value = m_.values[output.value];
      if (!IsValid(value.dtype)) {
        m_.b.Fail(absl::InvalidArgumentError(Cat("value ", output.value, " was not computed")));
        return;
      }
      if (output.creates) {
        Create(output, value);
        continue;
      }
      if (graph_.buffers[output.buffer].elements == 0 || output.view.Elements() == 0) continue;
      if (!next.contains(output.buffer)) next[output.buffer] = Flat(output.buffer);
      Value& flat = next[output.buffer];
      flat = lowering::WriteView(m_, flat, output.view, m_.b.Convert(value, output.view.dtype));
    }
    for (const auto& [slot, value] : next) {
      program_.written.push_back(slot);
      program_.written_results.push_back(static_cast<int>(results_.size()));
      alias_[arg_of_slot_[slot]] = static_cast<int>(results_.size());
      results_.push_back(value);
    }
  }

  void Create(const OutputSpec& output, const Value& value) {
    const DType dtype = m_.logical[output.value].dtype;
    program_.created.push_back({dtype, value.Elements()});
    if (value.Elements() == 0) {
      program_.created_results.push_back(-1);
      return;
    }
    program_.created_results.push_back(static_cast<int>(results_.size()));
    results_.push_back(m_.b.Convert(lowering::FlattenAs(m_, value, output.strides), dtype));
  }

  // {number of the first failed check, its value}.
  void Checks() {
    if (m_.checks.empty() || !m_.b.ok()) return;
    Builder& b = m_.b;
    Value number = b.Int(DType::kI64, 0), value = number;
    for (size_t i = m_.checks.size(); i-- > 0;) {
      const Module::Check& check = m_.checks[i];
      number = b.Select(check.failed, b.Int(DType::kI64, static_cast<int64_t>(i) + 1), number);
      value = b.Select(check.failed, check.value, value);
    }
    for (const Module::Check& check : m_.checks) program_.checks.push_back(check.spec);
    program_.check_result = static_cast<int>(results_.size());
    results_.push_back(b.Concatenate({b.Reshape(number, {1}), b.Reshape(value, {1})}, 0));
  }

  void Text() {
    program_.result_count = static_cast<int>(results_.size());
    program_.empty = results_.empty();
    std::string args, types, refs;
    for (size_t i = 0; i < program_.parameters.size(); ++i) {
      const BufferSpec& spec = graph_.buffers[program_.parameters[i]];
      Append(args, args.empty() ? "" : ", ", "%arg", i, ": ",
             Builder::Type(spec.dtype, {spec.elements}));
      if (const auto it = alias_.find(static_cast<int>(i)); it != alias_.end()) {
        Append(args, " {tf.aliasing_output = ", it->second, " : i32}");
      }
    }
    if (graph_.word_count > 0) {
      Append(args, args.empty() ? "" : ", ", m_.words.name, ": ", Builder::Type(m_.words));
    }
    for (const Value& r : results_) {
      Append(refs, refs.empty() ? "" : ", ", m_.b.Ref(r));
      Append(types, types.empty() ? "" : ", ", Builder::Type(r));
    }
    program_.module =
        Cat("module @", Symbol(),
            " attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n",
            "  func.func public @main(", args, ") -> (", types, ") {\n", m_.b.text(), "    return ",
            refs, refs.empty() ? "" : " : ", types, "\n  }\n}\n");
  }

  // The name as a quoted symbol; what could end the quotes is replaced.
  std::string Symbol() const {
    std::string out = "\"";
    for (char c : graph_.name.substr(0, kNameBytesMax)) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$' || c == ':' ||
                         c == '-';
      out += plain ? c : '_';
    }
    if (graph_.name.empty()) out += "program";
    return out + "\"";
  }

  const Graph& graph_;
  Module m_;
  Program program_;
  std::map<int, int> arg_of_slot_;
  std::map<int, int> alias_;  // parameter -> module result
  Values results_;
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph) {
  if (absl::Status status = Validate(graph); !status.ok()) return status;
  return Lowerer(graph).Run();
}

std::vector<std::string> LoweredOps() { return Table().Names(); }

}  // namespace neurond
