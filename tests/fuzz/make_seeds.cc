// make_seeds DIR: writes a seed corpus for each target, made of what a well-behaved client sends.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "neurond/v1/program.pb.h"
#include "proto/ring/ring_abi.h"

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

void SavePrograms(const std::filesystem::path& directory) {
  v1::Program program;
  program.set_name("seed");
  program.set_seed_word(-1);
  program.set_offset_word(-1);
  program.set_word_count(1);
  auto* buffer = program.add_buffers();
  buffer->set_dtype(v1::DTYPE_F32);
  buffer->set_elements(64);
  auto* input = program.add_inputs();
  auto* view = input->mutable_view();
  view->set_dtype(v1::DTYPE_F32);
  for (int i = 0; i < 2; ++i) view->add_sizes(4);
  view->add_strides(8);
  view->add_strides(1);
  view->set_offset_word(0);
  for (const char* op :
       {"aten.add.Tensor", "aten.mm.default", "aten.sum.dim_IntList", "aten.permute.default"}) {
    v1::Program one = program;
    auto* node = one.add_nodes();
    node->set_op(op);
    node->add_args()->set_value(0);
    if (std::strstr(op, "add") != nullptr || std::strstr(op, "mm") != nullptr) {
      node->add_args()->set_value(0);
    } else {
      auto* list = node->add_args()->mutable_list();
      list->add_items()->set_int_value(1);
      list->add_items()->set_int_value(0);
    }
    if (std::strstr(op, "add") != nullptr) node->add_args()->set_int_value(1);
    auto* result = node->add_results();
    result->set_dtype(v1::DTYPE_F32);
    for (int i = 0; i < 2; ++i) result->add_sizes(4);
    auto* output = one.add_outputs();
    output->set_value(1);
    output->mutable_create()->add_strides(4);
    output->mutable_create()->add_strides(1);
    auto* write = one.add_outputs();
    write->set_value(1);
    *write->mutable_write()->mutable_view() = *view;
    Save(directory, op, one.SerializeAsString());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path directory(argv[1]);
  SaveRings(directory / "ring_decoder");
  SaveFrames(directory / "frame_parser");
  SavePrograms(directory / "program_codec");
  return 0;
}
