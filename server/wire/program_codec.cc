#include "server/wire/program_codec.h"

#include <utility>

#include "neurond/v1/program.pb.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::wire {
namespace {

// An unknown number becomes kInvalid, which Validate() refuses where a dtype is needed.
DType FromProto(v1::DType t) {
  const DType dtype = static_cast<DType>(t);
  return t > 0 && t < kDTypeCount ? dtype : DType::kInvalid;
}

template <typename Field>
std::vector<int64_t> Ints(const Field& field) {
  return {field.begin(), field.end()};
}

View FromProto(const v1::View& view) {
  return {FromProto(view.dtype()), Ints(view.sizes()), Ints(view.strides()), view.offset_word()};
}

absl::StatusOr<Arg> FromProto(const v1::Arg& arg, int depth) {
  switch (arg.kind_case()) {
    case v1::Arg::kNone:
    case v1::Arg::KIND_NOT_SET:
      return Arg{};
    case v1::Arg::kValue:
      return Arg{ValueRef{arg.value()}};
    case v1::Arg::kIntValue:
      return Arg{static_cast<int64_t>(arg.int_value())};
    case v1::Arg::kFloatValue:
      return Arg{arg.float_value()};
    case v1::Arg::kBoolValue:
      return Arg{arg.bool_value()};
    case v1::Arg::kStringValue:
      return Arg{arg.string_value()};
    case v1::Arg::kDtype:
      return Arg{FromProto(arg.dtype())};
    case v1::Arg::kList:
      break;
  }
  if (depth >= kArgDepthMax) {
    return absl::InvalidArgumentError(Cat("lists in an argument nest deeper than ", kArgDepthMax));
  }
  ArgList list;
  list.reserve(arg.list().items_size());
  for (const v1::Arg& item : arg.list().items()) {
    absl::StatusOr<Arg> decoded = FromProto(item, depth + 1);
    if (!decoded.ok()) return decoded.status();
    list.push_back(*std::move(decoded));
  }
  return Arg{std::move(list)};
}

absl::StatusOr<Node> FromProto(const v1::Node& node) {
  Node out;
  out.op = node.op();
  out.stack = node.stack();
  for (const v1::Arg& arg : node.args()) {
    absl::StatusOr<Arg> decoded = FromProto(arg, 0);
    if (!decoded.ok()) return decoded.status();
    out.args.push_back(*std::move(decoded));
  }
  for (const v1::TensorType& type : node.results()) {
    out.results.push_back({FromProto(type.dtype()), Ints(type.sizes())});
  }
  return out;
}

absl::StatusOr<OutputSpec> FromProto(const v1::Output& output) {
  OutputSpec out;
  out.value = output.value();
  switch (output.to_case()) {
    case v1::Output::kCreate:
      out.creates = true;
      out.strides = Ints(output.create().strides());
      return out;
    case v1::Output::kWrite:
      out.creates = false;
      out.buffer = output.write().buffer();
      out.view = FromProto(output.write().view());
      return out;
    case v1::Output::TO_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("an output neither creates nor writes a Buffer");
}

}  // namespace

absl::StatusOr<Graph> DecodeProgram(std::string_view bytes) {
  v1::Program program;
  if (static_cast<int64_t>(bytes.size()) > kProgramBytesMax) {
    return absl::InvalidArgumentError(
        Cat("a Program of ", bytes.size(), " bytes is over the limit of ", kProgramBytesMax));
  }
  if (!program.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("the bytes are not a neurond.v1.Program");
  }
  Graph graph;
  graph.name = program.name();
  for (const v1::BufferSpec& buffer : program.buffers()) {
    graph.buffers.push_back({FromProto(buffer.dtype()), buffer.elements()});
  }
  for (const v1::Input& input : program.inputs()) {
    graph.inputs.push_back({input.buffer(), FromProto(input.view())});
  }
  for (const v1::Scalar& scalar : program.scalars()) {
    graph.scalars.push_back({FromProto(scalar.dtype()), scalar.word(), scalar.wrapped()});
  }
  for (const v1::Node& node : program.nodes()) {
    absl::StatusOr<Node> decoded = FromProto(node);
    if (!decoded.ok()) return decoded.status();
    graph.nodes.push_back(*std::move(decoded));
  }
  for (const v1::Output& output : program.outputs()) {
    absl::StatusOr<OutputSpec> decoded = FromProto(output);
    if (!decoded.ok()) return decoded.status();
    graph.outputs.push_back(*std::move(decoded));
  }
  graph.word_count = program.word_count();
  graph.seed_word = program.seed_word();
  graph.offset_word = program.offset_word();
  graph.offsets_used = program.offsets_used();
  graph.float64_as_float32 = program.float64_as_float32();
  graph.precision = program.precision().empty() ? "highest" : program.precision();
  return graph;
}

}  // namespace neurond::wire
