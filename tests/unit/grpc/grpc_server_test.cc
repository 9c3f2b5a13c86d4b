#include "server/grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "client/cpp/channel.h"
#include "client/cpp/remote_client.h"
#include "tests/unit/grpc/test_daemon.h"

namespace neurond {
namespace {

using client::ExecuteOptions;
using client::RemoteClient;
using ::testing::HasSubstr;

constexpr char kMatmul[] = R"(module @matmul {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
})";

constexpr char kNegate[] =
    "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = stablehlo.negate %a : "
    "tensor<2xf32>\n"
    "return %0 : tensor<2xf32> }";

template <typename T>
v1::Tensor Make(v1::DType dtype, std::vector<int64_t> sizes, const std::vector<T>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_sizes()->Add(sizes.begin(), sizes.end());
  tensor.set_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  return tensor;
}

std::vector<float> Floats(const v1::Tensor& tensor) {
  std::vector<float> values(tensor.data().size() / sizeof(float));
  std::memcpy(values.data(), tensor.data().data(), values.size() * sizeof(float));
  return values;
}

class GrpcServerTest : public testing::Test {
 protected:
  static PluginConfig Config() {
    PluginConfig config;
    config.path = std::getenv("NEURON_PJRT_PLUGIN");
    config.options["cpu_device_count"] = "2";
    return config;
  }
  // One daemon for all tests of the suite: loading the plugin takes a while.
  static void SetUpTestSuite() {
    if (std::getenv("NEURON_PJRT_PLUGIN") == nullptr) return;
    daemon_ = new TestDaemon(Config());
  }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  void SetUp() override {
    if (daemon_ == nullptr) GTEST_SKIP() << "needs NEURON_PJRT_PLUGIN";
    auto client = RemoteClient::Connect(daemon_->unix_address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    device_stub_ = v1::DeviceService::NewStub(client::OpenChannel(daemon_->unix_address()));
  }
  v1::CompileResponse Compiled(const char* module) {
    auto program = client_->CompileModule("test", module);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.value_or(v1::CompileResponse());
  }

  static TestDaemon* daemon_;
  std::unique_ptr<RemoteClient> client_;
  std::unique_ptr<v1::DeviceService::Stub> device_stub_;
};
TestDaemon* GrpcServerTest::daemon_ = nullptr;

const std::vector<float> kA = {1, 2, 3, 4, 5, 6};
const std::vector<float> kB = {1, 0, 0, 1, 1, 1};

TEST_F(GrpcServerTest, CompilesAndExecutesOnTheDeviceThatWasNamed) {
  const v1::CompileResponse program = Compiled(kMatmul);
  EXPECT_EQ(program.executable_key().size(), 32u);
  ASSERT_EQ(program.signature().inputs_size(), 2);
  const auto before = daemon_->state().devices->at(1).counters().executes;
  const auto results =
      client_->Execute(program, {Make(v1::DTYPE_F32, {2, 3}, kA), Make(v1::DTYPE_F32, {3, 2}, kB)},
                       ExecuteOptions{.device = 1, .words = {}, .timeout = {}});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 1u);
  EXPECT_THAT((*results)[0].sizes(), testing::ElementsAre(2, 2));
  EXPECT_THAT(Floats((*results)[0]), testing::ElementsAre(4, 5, 10, 11));
  EXPECT_EQ(daemon_->state().devices->at(1).counters().executes, before + 1);
}

TEST_F(GrpcServerTest, TheSameModuleIsTheSameProgramAndCompiledOnce) {
  const v1::CompileResponse first = Compiled(kMatmul);
  const int64_t compiles = daemon_->state().cache->counters().compiles;
  EXPECT_EQ(Compiled(kMatmul).program_id(), first.program_id());
  EXPECT_EQ(daemon_->state().cache->counters().compiles, compiles);
}

TEST_F(GrpcServerTest, NothingOfASessionIsLeftWhenItsCallHasEnded) {
  const v1::CompileResponse program = Compiled(kMatmul);
  ASSERT_TRUE(
      client_->Execute(program, {Make(v1::DTYPE_F32, {2, 3}, kA), Make(v1::DTYPE_F32, {3, 2}, kB)})
          .ok());
  EXPECT_EQ(daemon_->sessions().size(), 0);
  EXPECT_EQ(daemon_->state().devices->at(0).counters().granted_bytes, 0);
}

TEST_F(GrpcServerTest, BadInputsAreNamed) {
  const v1::CompileResponse program = Compiled(kMatmul);
  const v1::Tensor a = Make(v1::DTYPE_F32, {2, 3}, kA), b = Make(v1::DTYPE_F32, {3, 2}, kB);
  const auto message = [&](const std::vector<v1::Tensor>& inputs, int device = 0) {
    const auto results = client_->Execute(
        program, inputs, ExecuteOptions{.device = device, .words = {}, .timeout = {}});
    return std::string(results.status().message());
  };
  EXPECT_THAT(message({a}), HasSubstr("inputs: expected 2, saw 1"));
  EXPECT_THAT(message({a, a}), HasSubstr("input 1: expected float32[3,2], saw float32[2,3]"));
  EXPECT_THAT(message({a, Make(v1::DTYPE_I32, {3, 2}, std::vector<int>(6))}),
              HasSubstr("input 1: expected float32[3,2], saw int32[3,2]"));
  EXPECT_THAT(message({a, Make(v1::DTYPE_F32, {3, 2}, std::vector<float>(5))}),
              HasSubstr("input 1: expected 24 bytes for float32[3,2], saw 20"));
  EXPECT_THAT(message({a, b}, 2), HasSubstr("no device 2: the daemon has 2"));
  EXPECT_THAT(message({a, b}, -1), HasSubstr("no device -1"));
  v1::CompileResponse unknown = program;
  unknown.set_program_id(4711);
  EXPECT_EQ(client_->Execute(unknown, {a, b}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GrpcServerTest, ABoolIsZeroOrOne) {
  const v1::CompileResponse program = Compiled(
      "func.func @main(%a: tensor<2xi1>) -> tensor<2xi1> { %0 = stablehlo.not %a : tensor<2xi1>\n"
      "return %0 : tensor<2xi1> }");
  const auto good = client_->Execute(program, {Make<char>(v1::DTYPE_BOOL, {2}, {0, 1})});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ((*good)[0].data(), std::string("\1\0", 2));
  const auto bad = client_->Execute(program, {Make<char>(v1::DTYPE_BOOL, {2}, {0, 2})});
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("expected 0 or 1"));
}

TEST_F(GrpcServerTest, TensorsWithoutElementsAndScalars) {
  const v1::CompileResponse program = Compiled(
      "func.func @main(%a: tensor<0x3xf32>, %b: tensor<f32>) -> (tensor<0x3xf32>, tensor<f32>) {\n"
      "%0 = stablehlo.add %b, %b : tensor<f32>\n return %a, %0 : tensor<0x3xf32>, tensor<f32> }");
  const auto results = client_->Execute(
      program, {Make<float>(v1::DTYPE_F32, {0, 3}, {}), Make<float>(v1::DTYPE_F32, {}, {21})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].data(), "");
  EXPECT_THAT((*results)[0].sizes(), testing::ElementsAre(0, 3));
  EXPECT_THAT(Floats((*results)[1]), testing::ElementsAre(42));
}

TEST_F(GrpcServerTest, AModuleThatDoesNotCompileSaysWhy) {
  const auto program = client_->CompileModule(
      "broken",
      "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %b : tensor<2xf32> }");
  EXPECT_FALSE(program.ok());
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("broken: "));
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("undeclared SSA value"));
}

TEST_F(GrpcServerTest, LargeTensorsTravelInChunks) {
  const v1::CompileResponse program = Compiled(
      "func.func @main(%a: tensor<2000x1000xf32>) -> tensor<2000x1000xf32> {\n"
      "%0 = stablehlo.add %a, %a : tensor<2000x1000xf32>\n return %0 : tensor<2000x1000xf32> }");
  std::vector<float> values(2'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto results = client_->Execute(program, {Make(v1::DTYPE_F32, {2000, 1000}, values)});
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<float> doubled = Floats((*results)[0]);
  ASSERT_EQ(doubled.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(doubled[i], 2 * values[i]) << i;
}

TEST_F(GrpcServerTest, MoreThanTheDeviceHasIsResourceExhausted) {
  // The test daemon's devices have 64 MiB.
  const v1::CompileResponse program = Compiled(
      "func.func @main() -> tensor<20000000xf32> {\n"
      "%0 = stablehlo.constant dense<1.0> : tensor<20000000xf32>\n"
      "return %0 : tensor<20000000xf32> }");
  const auto results = client_->Execute(program, {});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kResourceExhausted) << results.status();
}

TEST_F(GrpcServerTest, AnInputThatIsCutShortInAStreamIsNamed) {
  const v1::CompileResponse program = Compiled(kMatmul);
  const auto stub = v1::ProgramService::NewStub(client::OpenChannel(daemon_->unix_address()));
  grpc::ClientContext context;
  const auto stream = stub->ExecuteStream(&context);
  v1::ExecuteStreamRequest request;
  request.mutable_start()->set_program_id(program.program_id());
  *request.mutable_start()->mutable_inputs() = program.signature().inputs();
  ASSERT_TRUE(stream->Write(request));
  request.mutable_chunk()->set_data("1234");
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  v1::ExecuteStreamResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("input 0: expected 24 bytes, saw 4"));
}

TEST_F(GrpcServerTest, ConcurrentClientsGetTheirOwnResults) {
  const v1::CompileResponse program = Compiled(kMatmul);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      auto client = RemoteClient::Connect(daemon_->unix_address());
      for (int i = 0; i < 20; ++i) {
        const float scale = static_cast<float>(t * 100 + i);
        const auto results =
            (*client)->Execute(program, {Make(v1::DTYPE_F32, {2, 3}, std::vector<float>(6, scale)),
                                         Make(v1::DTYPE_F32, {3, 2}, std::vector<float>(6, 1))});
        right += results.ok() && Floats((*results)[0]) == std::vector<float>(4, 3 * scale);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
}

// gRPC itself removes whatever socket lies under its name when it ends.
TEST_F(GrpcServerTest, AnotherDaemonsSocketOutlivesTheServer) {
  char name[] = "/tmp/neurond-grpc-XXXXXX";
  const std::string path = std::string(mkdtemp(name)) + "/grpc.sock";
  GrpcServerOptions options;
  options.unix_path = path;
  auto first = StartGrpcServer(daemon_->state(), options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(StartGrpcServer(daemon_->state(), options).ok()) << "the first one's";
  EXPECT_TRUE(RemoteClient::Connect("unix:" + path).ok());
  ASSERT_EQ(unlink(path.c_str()), 0);
  auto second = StartGrpcServer(daemon_->state(), options);
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(RemoteClient::Connect("unix:" + path).ok());
  second->reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(rmdir(name), 0) << "something was left behind";
}

TEST_F(GrpcServerTest, ListsDevicesInfoAndCounters) {
  const auto devices = client_->Devices();
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[1].index(), 1);
  EXPECT_EQ((*devices)[1].memory_bytes(), int64_t{64} << 20);
  grpc::ClientContext info_context, counters_context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(device_stub_->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.build_id(), "b01d");
  EXPECT_EQ(info.pid(), getpid());
  EXPECT_NEAR(static_cast<double>(info.start_time().seconds()), static_cast<double>(time(nullptr)),
              300);
  v1::GetCountersResponse counters;
  ASSERT_TRUE(device_stub_->GetCounters(&counters_context, {}, &counters).ok());
  EXPECT_EQ(counters.workers().started(), 3);
  EXPECT_EQ(counters.executables().compiles(), daemon_->state().cache->counters().compiles);
}

TEST_F(GrpcServerTest, ExecutablesAreListedByPagesInKeyOrder) {
  Compiled(kMatmul);
  Compiled(kNegate);
  std::vector<std::string> keys;
  v1::ListExecutablesRequest request;
  request.set_page_size(1);
  v1::ListExecutablesResponse page;
  do {
    grpc::ClientContext context;
    ASSERT_TRUE(device_stub_->ListExecutables(&context, request, &page).ok());
    ASSERT_EQ(page.executables_size(), 1);
    keys.push_back(page.executables(0).key());
    request.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty());
  EXPECT_EQ(keys.size(), daemon_->state().cache->List().size());
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST_F(GrpcServerTest, OverTcpNothingCanBeChanged) {
  const auto stub = v1::DeviceService::NewStub(client::OpenChannel(daemon_->tcp_address()));
  grpc::ClientContext list, clear, stop;
  v1::ListDevicesResponse devices;
  EXPECT_TRUE(stub->ListDevices(&list, {}, &devices).ok());
  v1::ClearExecutablesResponse cleared;
  EXPECT_EQ(stub->ClearExecutables(&clear, {}, &cleared).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  v1::ShutdownResponse stopped;
  EXPECT_EQ(stub->Shutdown(&stop, {}, &stopped).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(daemon_->stops(), 0);
}

TEST_F(GrpcServerTest, TheSocketIsForItsOwnerOnly) {
  struct stat info;
  ASSERT_EQ(stat(daemon_->unix_address().substr(5).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(GrpcServerTest, ASecondServerOnTheSamePortIsRefused) {
  GrpcServerOptions options;
  options.tcp_address = daemon_->tcp_address();
  const auto second = StartGrpcServer(daemon_->state(), options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(daemon_->tcp_address()));
}

}  // namespace
}  // namespace neurond
