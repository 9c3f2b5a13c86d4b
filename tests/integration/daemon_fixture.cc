#include "tests/integration/daemon_fixture.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "neurond/v1/program.pb.h"

namespace neurond::client {
DaemonTest::DaemonTest() : daemon_(DAEMON_UNDER_TEST) {
  char name[] = "/tmp/neurond-test-XXXXXX";
  directory_ = mkdtemp(name);
  daemon_args_ = {
      "--plugin", PLUGIN_UNDER_TEST,     "--cache-dir", directory_ + "/cache", "--devices",
      "2",        "--idle-exit-seconds", "60"};
}

DaemonTest::~DaemonTest() {
  if (HasFailure()) std::fprintf(stderr, "--- the daemon's log\n%s---\n", Log().c_str());
  for (int pid : pids_) kill(pid, SIGKILL);
  for (int pid : pids_) Eventually(5000, [pid] { return !IsAlive(pid); });
  std::filesystem::remove_all(directory_);
}

ConnectOptions DaemonTest::Options() const {
  ConnectOptions options;
  options.address = socket();
  options.daemon_path = daemon_;
  options.daemon_args = daemon_args_;
  options.build_id = BuildId(daemon_);
  options.start_timeout_ms = 60'000;
  return options;
}

std::unique_ptr<Client> DaemonTest::Connect() { return Connect(Options()); }

std::unique_ptr<Client> DaemonTest::Connect(const ConnectOptions& options) {
  std::unique_ptr<Client> client;
  const Status status = Client::Connect(options, {}, &client);
  EXPECT_TRUE(status.ok()) << status.message;
  if (client != nullptr) pids_.insert(client->daemon_pid());
  return client;
}

std::string DaemonTest::Log() const {
  std::ostringstream text;
  text << std::ifstream(directory_ + "/neurond.log").rdbuf();
  return text.str();
}

std::string DaemonTest::OtherBuild() const {
  const std::filesystem::path from(daemon_), to = std::filesystem::path(directory_) / "other";
  std::filesystem::create_directory(to);
  std::filesystem::copy(from, to / "neurond");
  std::filesystem::create_symlink(from.parent_path() / "neurond-compiler", to / "neurond-compiler");
  const std::string hex = BuildId(daemon_);
  std::string id;
  for (size_t i = 0; i < hex.size(); i += 2) {
    id += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  std::fstream file(to / "neurond", std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes(std::filesystem::file_size(to / "neurond"), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const size_t at = bytes.find(id);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(id[0] ^ 0x5a));
  return (to / "neurond").string();
}

void DaemonTest::Stop(int pid) {
  kill(pid, SIGTERM);
  EXPECT_TRUE(Eventually(20'000, [pid] { return !IsAlive(pid); }));
}

nlohmann::json DaemonTest::Stats(Client& client) {
  std::string json;
  const Status status = client.Stats(&json);
  EXPECT_TRUE(status.ok()) << status.message;
  return nlohmann::json::parse(json, nullptr, false);
}

bool DaemonTest::IsAlive(int pid) {
  // A zombie whose parent does not wait is as dead as any.
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string word, state;
  stat >> word >> word >> state;
  return !state.empty() && state != "Z" && state != "X";
}

bool DaemonTest::Eventually(int ms, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string AddProgram(int64_t elements) {
  v1::Program program;
  program.set_name("aten.add.Tensor");
  program.set_seed_word(-1);
  program.set_offset_word(-1);
  program.set_precision("highest");
  for (int i = 0; i < 2; ++i) {
    auto* buffer = program.add_buffers();
    buffer->set_dtype(v1::DTYPE_F32);
    buffer->set_elements(elements);
    auto* input = program.add_inputs();
    input->set_buffer(i);
    auto* view = input->mutable_view();
    view->set_dtype(v1::DTYPE_F32);
    view->add_sizes(elements);
    view->add_strides(1);
    view->set_offset_word(-1);
  }
  auto* node = program.add_nodes();
  node->set_op("aten.add.Tensor");
  node->add_args()->set_value(0);
  node->add_args()->set_value(1);
  node->add_args()->set_int_value(1);
  auto* result = node->add_results();
  result->set_dtype(v1::DTYPE_F32);
  result->add_sizes(elements);
  auto* output = program.add_outputs();
  output->set_value(2);
  output->mutable_create()->add_strides(1);
  return program.SerializeAsString();
}

uint64_t Define(Client& client, const std::string& bytes) {
  uint64_t program = 0;
  const Status status = client.Define("", "", bytes, &program);
  EXPECT_TRUE(status.ok()) << status.message;
  return program;
}

uint64_t MakeBuffer(Client& client, const std::vector<float>& values) {
  const uint64_t buffer = client.NewBufferId();
  Status status = client.Alloc(buffer, ring::DType::kF32, values.size(), 0);
  EXPECT_TRUE(status.ok()) << status.message;
  status = client.Write(0, buffer, 0, values.data(), values.size() * sizeof(float), 0, nullptr);
  EXPECT_TRUE(status.ok()) << status.message;
  return buffer;
}

std::vector<float> ReadBuffer(Client& client, uint64_t buffer, size_t elements) {
  std::vector<float> values(elements, -1);
  const Status status = client.Read(0, buffer, 0, values.data(), elements * sizeof(float), 0);
  EXPECT_TRUE(status.ok()) << status.message;
  return values;
}

}  // namespace neurond::client
