// neurond-lower: a serialized neurond.v1.Program -> StableHLO text, as the daemon would compile it.
//
//   neurond-lower FILE       the module on standard output; FILE "-" is standard input
//   neurond-lower --ops      names of all ops with a lowering
//   neurond-lower --serve    "<bytes>\n<program>" on standard input, again and again -> "<ok|error>
//   <bytes>\n<text>" each,
//                            where the text starts with the signature as comment lines
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "runtime/base/text.h"
#include "runtime/lowering/lowering.h"
#include "server/wire/program_codec.h"

namespace {

using neurond::Append;
using neurond::Cat;
using neurond::Join;

// The parts of a Program that are not in its module, as MLIR comments.
std::string Signature(const neurond::Program& p) {
  std::string out = Cat("// parameters ", Join(p.parameters), "\n// created ");
  for (const auto& c : p.created) Append(out, neurond::TorchName(c.dtype), "[", c.elements, "] ");
  Append(out, "\n// created_results ", Join(p.created_results), "\n// written ", Join(p.written),
         "\n// written_results ", Join(p.written_results), "\n// check_result ", p.check_result,
         "\n// words ", p.word_count, "\n");
  for (const auto& c : p.checks)
    Append(out, "// check ", static_cast<int>(c.kind), " ", c.message, "\n");
  for (const auto& b : p.bounds) {
    Append(out, "// bound word ", b.word, " buffer ", b.buffer, " span ", b.span, " of ",
           b.elements, "\n");
  }
  return out;
}

absl::StatusOr<std::string> LowerBytes(const std::string& bytes) {
  const auto graph = neurond::wire::DecodeProgram(bytes);
  if (!graph.ok()) return graph.status();
  const auto program = neurond::Lower(*graph);
  if (!program.ok()) return program.status();
  return Signature(*program) + program->module;
}

int Serve() {
  std::string header;
  while (std::getline(std::cin, header)) {
    std::string bytes(std::stoul(header), '\0');
    if (!std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return 1;
    const auto text = LowerBytes(bytes);
    const std::string body = text.ok() ? *text : text.status().ToString();
    std::cout << (text.ok() ? "ok " : "error ") << body.size() << "\n" << body << std::flush;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--ops") {
    for (const std::string& op : neurond::LoweredOps()) std::cout << op << "\n";
    return 0;
  }
  if (what == "--serve") return Serve();
  if (what.empty()) {
    std::cerr << "usage: neurond-lower FILE | --ops | --serve\n";
    return 2;
  }
  std::ifstream file;
  if (what != "-") file.open(what, std::ios::binary);
  std::istream& in = what == "-" ? std::cin : file;
  if (!in) {
    std::cerr << "cannot read " << what << "\n";
    return 2;
  }
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const auto text = LowerBytes(bytes);
  if (!text.ok()) {
    std::cerr << text.status().ToString() << "\n";
    return 1;
  }
  std::cout << *text;
  return 0;
}
