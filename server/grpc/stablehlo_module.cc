#include "server/grpc/stablehlo_module.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "server/grpc/mlir_text.h"

namespace neurond {
namespace {

constexpr std::string_view kInnerMain = "@neurond_inner_main";

// Ops that reach outside the program. custom_call can name any function registered in the plugin;
// the others wait for a partner that never comes (XLA ends the process after 40 s).
constexpr std::array<std::string_view, 14> kRefusedOps = {"custom_call",
                                                          "infeed",
                                                          "outfeed",
                                                          "send",
                                                          "recv",
                                                          "all_reduce",
                                                          "all_gather",
                                                          "all_to_all",
                                                          "reduce_scatter",
                                                          "cross-replica-sum",
                                                          "collective_permute",
                                                          "collective_broadcast",
                                                          "async_start",
                                                          "after_all"};
// custom_call targets that are only spellings of ops StableHLO lacks.
constexpr std::array<std::string_view, 3> kAllowedTargets = {"@Sharding", "@mhlo.topk",
                                                             "@mhlo.erf"};

template <typename Array>
bool Contains(const Array& array, std::string_view text) {
  return std::find(array.begin(), array.end(), text) != array.end();
}

// "stablehlo.send" -> "send"; "vhlo.send_v1" -> "send".
std::string_view OpSuffix(std::string_view name) {
  if (const size_t dot = name.rfind('.'); dot != name.npos) name.remove_prefix(dot + 1);
  if (const size_t version = name.rfind("_v");
      version != name.npos && version > 0 &&
      name.find_first_not_of("0123456789", version + 2) == name.npos) {
    name = name.substr(0, version);
  }
  return name;
}

absl::Status CheckOps(const std::vector<MlirToken>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string_view name = tokens[i].text;
    if (tokens[i].kind == MlirTokenKind::kString) {
      // The generic form: "dialect.op"(...).
      if (i + 1 == tokens.size() || tokens[i + 1].text != "(") continue;
      if (name.find('\\') != name.npos) {
        return absl::InvalidArgumentError(
            Cat("StableHLO module: escape in the op name ", name.substr(0, 80)));
      }
      name = name.substr(1, name.size() - 2);
    } else if (tokens[i].kind != MlirTokenKind::kIdentifier) {
      continue;
    }
    if (name == "func.func" && tokens[i].kind == MlirTokenKind::kString) {
      return absl::InvalidArgumentError(
          "StableHLO module: func.func in generic form; print the module in pretty form");
    }
    if (!Contains(kRefusedOps, OpSuffix(name))) continue;
    const bool allowed = OpSuffix(name) == "custom_call" && i + 1 < tokens.size() &&
                         Contains(kAllowedTargets, tokens[i + 1].text);
    if (allowed) continue;
    const bool has_target = i + 1 < tokens.size() && tokens[i + 1].kind == MlirTokenKind::kSymbol;
    return absl::UnimplementedError(
        Cat("StableHLO module: ", name, has_target ? " " : "",
            has_target ? tokens[i + 1].text.substr(0, 80) : "",
            " reaches outside the program and is not for remote clients"));
  }
  return absl::OkStatus();
}

// mhlo.num_partitions = 2 : i32, and replicas: a Program is for one device.
absl::Status CheckOneDevice(const std::vector<MlirToken>& tokens) {
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    const std::string_view name = tokens[i].text;
    if (name != "mhlo.num_partitions" && name != "mhlo.num_replicas") continue;
    if (tokens[i + 1].text == "=" && tokens[i + 2].text != "1") {
      return absl::InvalidArgumentError(
          Cat("StableHLO module: expected ", name, " = 1, saw ", tokens[i + 2].text.substr(0, 40)));
    }
  }
  return absl::OkStatus();
}

std::string TypesText(const std::vector<TensorType>& types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) texts.push_back(TensorTypeText(type));
  return Join(texts, ", ");
}

absl::Status CompareTypes(std::string_view what, const std::vector<TensorType>& declared,
                          const std::vector<TensorType>& seen) {
  if (declared.size() != seen.size()) {
    return absl::InvalidArgumentError(
        Cat("signature: declared ", declared.size(), " ", what, "s, @main has ", seen.size()));
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (declared[i] == seen[i]) continue;
    return absl::InvalidArgumentError(Cat("signature: ", what, " ", i, ": declared ",
                                          TensorTypeText(declared[i]), ", @main has ",
                                          TensorTypeText(seen[i])));
  }
  return absl::OkStatus();
}

BufferSpec Flat(const TensorType& type) { return {type.dtype, type.Elements()}; }
std::string FlatText(const TensorType& type) {
  return TensorTypeText({type.dtype, {type.Elements()}});
}

// The new main. Writes the Program's buffers on the way: a tensor without elements takes no slot.
std::string NewMain(const MlirFunction& inner, Program& program) {
  std::vector<std::string> parameters, arguments, results, values;
  std::string body;
  for (size_t i = 0; i < inner.inputs.size(); ++i) {
    const TensorType& type = inner.inputs[i];
    const std::string text = TensorTypeText(type);
    arguments.push_back(Cat("%in", i));
    if (type.Elements() == 0) {
      Append(body, "    %in", i, " = stablehlo.constant dense<> : ", text, "\n");
      continue;
    }
    program.parameters.push_back(static_cast<int>(program.buffers.size()));
    program.buffers.push_back(Flat(type));
    parameters.push_back(Cat("%flat", i, ": ", FlatText(type)));
    Append(body, "    %in", i, " = stablehlo.reshape %flat", i, " : (", FlatText(type), ") -> ",
           text, "\n");
  }
  std::string call = Cat("func.call ", kInnerMain, "(", Join(arguments, ", "), ") : (",
                         TypesText(inner.inputs), ") -> (", TypesText(inner.outputs), ")\n");
  const size_t count = inner.outputs.size();
  if (count > 0) call = Cat("%out", count > 1 ? Cat(":", count) : "", " = ", call);
  Append(body, "    ", call);
  for (size_t i = 0; i < count; ++i) {
    const TensorType& type = inner.outputs[i];
    if (type.Elements() == 0) continue;
    program.created_results.push_back(static_cast<int>(program.created.size()));
    program.created.push_back(Flat(type));
    results.push_back(FlatText(type));
    values.push_back(Cat("%res", i));
    Append(body, "    %res", i, " = stablehlo.reshape %out", count > 1 ? Cat("#", i) : "", " : (",
           TensorTypeText(type), ") -> ", FlatText(type), "\n");
  }
  program.result_count = static_cast<int>(results.size());
  const std::string types = Join(results, ", ");
  return Cat("func.func public @main(", Join(parameters, ", "), ") -> (", types, ") {\n", body,
             "    func.return ", Join(values, ", "), values.empty() ? "" : " : ", types,
             "\n  }\n  ");
}

std::string InnerHeader(const MlirFunction& inner) {
  std::vector<std::string> arguments;
  for (size_t i = 0; i < inner.inputs.size(); ++i) {
    arguments.push_back(Cat(inner.argument_names[i], ": ", TensorTypeText(inner.inputs[i])));
  }
  return Cat("func.func private ", kInnerMain, "(", Join(arguments, ", "), ") -> (",
             TypesText(inner.outputs), ") ");
}

}  // namespace

absl::StatusOr<Program> ProgramFromModule(std::string name, std::string_view text,
                                          const std::optional<DeclaredTypes>& declared) {
  const absl::StatusOr<std::vector<MlirToken>> tokens = TokenizeMlir(text);
  if (!tokens.ok()) return tokens.status();
  if (text.find(kInnerMain.substr(1)) != text.npos) {
    return absl::InvalidArgumentError(
        Cat("StableHLO module: the name ", kInnerMain, " is reserved"));
  }
  if (absl::Status s = CheckOps(*tokens); !s.ok()) return s;
  if (absl::Status s = CheckOneDevice(*tokens); !s.ok()) return s;
  absl::StatusOr<MlirFunction> inner = FindMain(text, *tokens);
  if (!inner.ok()) return inner.status();
  if (declared.has_value()) {
    if (absl::Status s = CompareTypes("input", declared->inputs, inner->inputs); !s.ok()) return s;
    if (absl::Status s = CompareTypes("output", declared->outputs, inner->outputs); !s.ok()) {
      return s;
    }
  }
  Program program;
  program.name = std::move(name);
  program.detail = TypesText(inner->inputs);
  program.module = Cat(text.substr(0, inner->begin), NewMain(*inner, program), InnerHeader(*inner),
                       text.substr(inner->body_begin));
  program.empty = program.result_count == 0;
  program.declared = DeclaredTypes{std::move(inner->inputs), std::move(inner->outputs)};
  return program;
}

}  // namespace neurond
