// make_seeds DIR: writes a seed corpus for each target, made of what a well-behaved client sends.
#include <filesystem>
#include <fstream>
#include <string>

#include "neurond/v1/program.pb.h"
#include "proto/ring/ring_abi.h"
#include "runtime/lowering/lowering.h"

namespace {

namespace ring = neurond::ring;
namespace v1 = neurond::v1;

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void Save(const std::filesystem::path& directory, const std::string& name,
          const std::string& bytes) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / name, std::ios::binary) << bytes;
}

ring::RecordHeader Header(ring::RecordType type, uint64_t seq, size_t bytes) {
  return {static_cast<uint32_t>(bytes), static_cast<uint16_t>(type), 1, seq};
}

template <class Record>
std::string Fixed(Record record, ring::RecordType type, uint64_t seq) {
  record.h = Header(type, seq, sizeof(record));
  return Bytes(record);
}

std::string ExecuteBytes(uint64_t seq) {
  ring::ExecuteRecord r{};
  r.program = 3;
  r.input_count = 2;
  r.output_count = r.word_count = 1;
  r.h = Header(ring::RecordType::kExecute, seq, sizeof(r) + 32);
  return Bytes(r) + std::string(32, '\1');
}

void SaveRings(const std::filesystem::path& directory) {
  const auto ring_of = [](const std::string& records) {
    return Bytes(static_cast<uint64_t>(records.size())) + records;
  };
  ring::AllocRecord alloc{};
  alloc.buffer = 1;
  alloc.elements = 16;
  alloc.dtype = 12;
  ring::WriteRecord write{};
  write.buffer = 1;
  write.bytes = write.total_bytes = 64;
  write.flags = ring::kLastChunk;
  ring::ReadRecord read{};
  read.buffer = 1;
  read.bytes = 64;
  ring::FreeManyRecord many{};
  many.count = 2;
  many.h = Header(ring::RecordType::kFreeMany, 4, sizeof(many) + 16);
  const std::string all = Fixed(alloc, ring::RecordType::kAlloc, 1) +
                          Fixed(write, ring::RecordType::kWrite, 2) + ExecuteBytes(3) +
                          Bytes(many) + std::string(16, '\2') +
                          Fixed(read, ring::RecordType::kRead, 5) +
                          Fixed(ring::CopyRecord{}, ring::RecordType::kCopy, 6) +
                          Fixed(ring::EventRecord{}, ring::RecordType::kRecord, 7) +
                          Fixed(ring::WaitRecord{}, ring::RecordType::kWait, 8) +
                          Fixed(ring::FreeRecord{}, ring::RecordType::kFree, 9);
  Save(directory, "all", ring_of(all));
  Save(directory, "execute", ring_of(ExecuteBytes(1)));
  // Staging holds the same bytes as the ring: the large record at 0 stands for the one behind it.
  const ring::LargeRecord large{{}, sizeof(ring::LargeRecord), ExecuteBytes(1).size()};
  Save(
      directory, "large",
      Bytes(uint64_t{sizeof(large)}) + Fixed(large, ring::RecordType::kLarge, 1) + ExecuteBytes(1));
}

void SaveFrames(const std::filesystem::path& directory) {
  const auto frame = [](ring::FrameType type, const std::string& payload) {
    return Bytes(ring::FrameHeader{ring::kMagic, static_cast<uint16_t>(type), 0,
                                   static_cast<uint32_t>(payload.size()), 1, 0}) +
           payload;
  };
  Save(directory, "hello",
       frame(ring::FrameType::kHello, Bytes(ring::HelloFrame{1, 1, 42, 4, 3}) + "beefA=1"));
  Save(directory, "define",
       frame(ring::FrameType::kDefine, Bytes(ring::DefineFrame{3, 4, 7}) + "keymetaprogram"));
  Save(directory, "several",
       frame(ring::FrameType::kLookup, Bytes(ring::LookupFrame{3, 0}) + "key") +
           frame(ring::FrameType::kStats, "") +
           frame(ring::FrameType::kGrant, Bytes(ring::GrantFrame{0, 0, 1 << 20})) +
           frame(ring::FrameType::kTakeError, Bytes(ring::TakeErrorFrame{-1, -1, 0, 0})) +
           frame(ring::FrameType::kBye, ""));
}

// A view of the first buffer (float32[64]) or the second (int64[4]).
v1::View ViewOf(v1::DType dtype, std::initializer_list<int64_t> sizes, int row, int offset_word) {
  v1::View view;
  view.set_dtype(dtype);
  for (int64_t size : sizes) view.add_sizes(size);
  if (sizes.size() == 2) view.add_strides(row);
  view.add_strides(1);
  view.set_offset_word(offset_word);
  return view;
}

v1::Program TwoInputs() {
  v1::Program program;
  program.set_name("seed");
  program.set_seed_word(0);
  program.set_offset_word(1);
  program.set_word_count(3);
  const auto buffer = [&](v1::DType dtype, int64_t elements) {
    program.add_buffers()->set_dtype(dtype);
    program.mutable_buffers()->rbegin()->set_elements(elements);
  };
  buffer(v1::DTYPE_F32, 64);
  buffer(v1::DTYPE_I64, 4);
  *program.add_inputs()->mutable_view() = ViewOf(v1::DTYPE_F32, {4, 4}, 8, 2);
  *program.add_inputs()->mutable_view() = ViewOf(v1::DTYPE_F32, {4, 4}, 4, -1);
  auto* index = program.add_inputs();
  index->set_buffer(1);
  *index->mutable_view() = ViewOf(v1::DTYPE_I64, {4}, 1, -1);
  return program;
}

// One letter an argument: a, b, i the inputs; 0, 1 numbers; l a list; n none; f, t booleans; e
// 1e-5.
void AddArgs(v1::Node& node, std::string_view letters) {
  for (char letter : letters) {
    v1::Arg& arg = *node.add_args();
    if (letter == 'a') arg.set_value(0);
    if (letter == 'b') arg.set_value(1);
    if (letter == 'i') arg.set_value(2);
    if (letter == '0' || letter == '1') arg.set_int_value(letter - '0');
    if (letter == 'l') {
      arg.mutable_list()->add_items()->set_int_value(1);
      arg.mutable_list()->add_items()->set_int_value(0);
    }
    if (letter == 'n') arg.set_none(true);
    if (letter == 'f' || letter == 't') arg.set_bool_value(letter == 't');
    if (letter == 'e') arg.set_float_value(1e-5);
  }
}

// Each op behind the ways in which most are called; the fuzzer does the rest.
void SavePrograms(const std::filesystem::path& directory) {
  for (const std::string& op : neurond::LoweredOps()) {
    for (const char* args : {"ab1", "alf", "a1ib", "abbbbfee"}) {
      v1::Program program = TwoInputs();
      v1::Node& node = *program.add_nodes();
      node.set_op(op);
      AddArgs(node, args);
      auto* result = node.add_results();
      result->set_dtype(v1::DTYPE_F32);
      for (int i = 0; i < 2; ++i) result->add_sizes(4);
      auto* output = program.add_outputs();
      output->set_value(3);
      output->mutable_create()->add_strides(4);
      output->mutable_create()->add_strides(1);
      auto* write = program.add_outputs();
      write->set_value(3);
      *write->mutable_write()->mutable_view() = program.inputs(0).view();
      Save(directory, op + "-" + args, program.SerializeAsString());
    }
  }
}

void SaveModules(const std::filesystem::path& directory) {
  Save(directory, "pretty",
       "module @jit attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
       "  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.sharding = \"\"} loc(\"x\"), "
       "%arg1: tensor<0xi64>) -> (tensor<f32> {jax.result_info = \"\"}, tensor<2xi1>) attributes "
       "{a = 1} {\n"
       "    %0 = stablehlo.custom_call @Sharding(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
       "    %1:2 = \"stablehlo.reduce\"(%0) ({}) : () -> () // @main\n"
       "    return %1#0, %1#1 : tensor<f32>, tensor<2xi1>\n  }\n}\n");
  Save(directory, "bare", "func.func @main() { return }");
  Save(directory, "one-result", "func.func @main(%a: tensor<1xbf16>) -> tensor<1xbf16> { }");
  Save(directory, "refused", "func.func @main() { \"stablehlo.send\"() : () -> () }");
  Save(directory, "type", "tensor<4x8xcomplex<f32>>");
  Save(directory, "utf8", "\xe2\x82\xac \xf0\x9f\x98\x80 \xc3\xa9 \xed\xa0\x80");
}

// As the rings' records, but a request frame is a record of type 256 + its own.
void SaveSessions(const std::filesystem::path& directory) {
  const auto alloc = [](uint64_t buffer, uint64_t elements) {
    ring::AllocRecord r{};
    r.buffer = buffer;
    r.elements = elements;
    r.dtype = 12;
    return Fixed(r, ring::RecordType::kAlloc, 1);
  };
  const auto request = [](ring::FrameType type, const std::string& payload) {
    const size_t bytes = (sizeof(ring::RecordHeader) + payload.size() + 7) / 8 * 8;
    std::string record =
        Bytes(Header(static_cast<ring::RecordType>(256 + static_cast<int>(type)), 1, bytes)) +
        payload;
    record.resize(bytes);
    return record;
  };
  const auto execute = [](uint64_t program, std::initializer_list<uint64_t> ids, uint32_t inputs,
                          uint32_t outputs, uint32_t words) {
    ring::ExecuteRecord r{};
    r.program = program;
    r.input_count = inputs;
    r.output_count = outputs;
    r.word_count = words;
    r.h = Header(ring::RecordType::kExecute, 1, sizeof(r) + 8 * ids.size());
    std::string bytes = Bytes(r);
    for (uint64_t id : ids) bytes += Bytes(id);
    return bytes;
  };
  ring::WriteRecord write{};
  write.buffer = write.transfer = 1;
  write.bytes = write.total_bytes = 16;
  write.flags = ring::kLastChunk;
  ring::WriteRecord part = write;
  part.bytes = part.total_bytes = 4;
  part.buffer_offset = 8;
  ring::ReadRecord read{};
  read.buffer = 1;
  read.bytes = 16;
  ring::CopyRecord copy{};
  copy.source = 1;
  copy.destination = 2;
  const std::string start = alloc(1, 4) + alloc(2, 4);
  // Programs of the test host: 1 add, 2 inc_, 3 fill, 4 checked_, 5 broken_, 6 broken.
  Save(directory, "execute",
       start + execute(1, {1, 2, 3}, 2, 1, 0) + execute(2, {3, 5}, 1, 0, 1) +
           execute(3, {4, 9}, 0, 1, 1) + execute(4, {4}, 1, 0, 0));
  Save(directory, "transfer",
       start + Fixed(write, ring::RecordType::kWrite, 1) +
           Fixed(part, ring::RecordType::kWrite, 1) + Fixed(read, ring::RecordType::kRead, 1) +
           Fixed(copy, ring::RecordType::kCopy, 1));
  Save(directory, "fail",
       start + execute(5, {1}, 1, 0, 0) + execute(1, {1, 2, 3}, 2, 1, 0) +
           request(ring::FrameType::kTakeError, Bytes(ring::TakeErrorFrame{-1, 0, 9, 0})) +
           Fixed(read, ring::RecordType::kRead, 1) +
           Fixed(ring::FreeRecord{{}, 1}, ring::RecordType::kFree, 1));
  Save(directory, "order",
       start + Fixed(ring::EventRecord{{}, 7}, ring::RecordType::kRecord, 1) +
           Fixed(ring::WaitRecord{{}, 1, 0, {}}, ring::RecordType::kWait, 1) +
           request(ring::FrameType::kEventTime, Bytes(ring::EventTimeFrame{7})));
  Save(directory, "requests",
       request(ring::FrameType::kGrant, Bytes(ring::GrantFrame{0, 0, 4096})) +
           request(ring::FrameType::kLookup, Bytes(ring::LookupFrame{8, 0}) + "thekey__") +
           request(ring::FrameType::kDefine,
                   Bytes(ring::DefineFrame{4, 4, 8}) + "key_metaprogram_") +
           request(ring::FrameType::kDevices, "") + request(ring::FrameType::kStats, ""));
}

// Byte 0: the call, byte 1: descriptors; then what the daemon says.
void SaveReplies(const std::filesystem::path& directory) {
  const auto reply = [](char call, ring::FrameType type, const std::string& payload,
                        uint16_t status = 0) {
    const auto frame = [&](uint32_t request) {
      return Bytes(ring::FrameHeader{ring::kMagic, static_cast<uint16_t>(type), status,
                                     static_cast<uint32_t>(payload.size()), request, 0}) +
             payload;
    };
    return std::string({call, '\4'}) + (call == 7 ? frame(0) : frame(1) + frame(2));
  };
  ring::TakeErrorReplyFrame error{};
  error.found = 1;
  error.op_bytes = error.detail_bytes = error.stack_bytes = error.message_bytes = 2;
  Save(directory, "error", reply(0, ring::FrameType::kTakeErrorReply, Bytes(error) + "opdestme"));
  Save(directory, "lookup",
       reply(1, ring::FrameType::kLookupReply, Bytes(ring::LookupReplyFrame{5, 4, 0}) + "meta"));
  Save(directory, "define",
       reply(2, ring::FrameType::kDefineReply, Bytes(ring::DefineReplyFrame{5})));
  Save(directory, "grant",
       reply(3, ring::FrameType::kGrantReply, Bytes(ring::GrantReplyFrame{1, 2, 3})));
  Save(directory, "event", reply(4, ring::FrameType::kEventTimeReply, Bytes(int64_t{5})));
  Save(directory, "devices",
       reply(5, ring::FrameType::kDevicesReply,
             Bytes(ring::DevicesReplyFrame{1, 0}) + Bytes(ring::DeviceFrame{})));
  Save(directory, "stats", reply(6, ring::FrameType::kStatsReply, "{}"));
  Save(directory, "refused", reply(2, ring::FrameType::kDefineReply, "no lowering", 12));
  Save(directory, "bye", reply(1, ring::FrameType::kBye, "the session is over", 3));
  Save(directory, "hello",
       reply(7, ring::FrameType::kHelloReply,
             Bytes(ring::HelloReplyFrame{1, 4, 42, 7, 4, 0}) + "beef"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path directory(argv[1]);
  SaveRings(directory / "ring_decoder");
  SaveFrames(directory / "frame_parser");
  SavePrograms(directory / "program_codec");
  SaveModules(directory / "stablehlo_module");
  SaveSessions(directory / "session_records");
  SaveReplies(directory / "client_reply");
  return 0;
}
