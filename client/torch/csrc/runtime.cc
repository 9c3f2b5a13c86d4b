#include "client/torch/csrc/python.h"
// Python first: it defines feature macros.

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "client/torch/csrc/python_error.h"
#include "client/torch/csrc/python_state.h"
#include "client/torch/csrc/runtime.h"

namespace neurond::shim {
namespace {

void* EnterWait() {
  if (!Py_IsInitialized() || !PyGILState_Check()) {
    return nullptr;
  }
  return PyEval_SaveThread();
}

void LeaveWait(void* state) {
  if (state != nullptr) {
    StayAtEnd([state] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
  }
}

bool EnvIs(const char* name, const char* value) {
  const char* text = std::getenv(name);
  return text != nullptr && std::string(text) == value;
}

// Visible devices as the environment bounds them; 0: it says nothing.
int EnvDeviceCount() {
  if (const char* count = std::getenv("NEURON_RT_NUM_CORES"); count != nullptr && *count != 0) {
    return std::max(0, std::atoi(count));
  }
  const char* visible = std::getenv("NEURON_RT_VISIBLE_CORES");
  if (visible == nullptr || *visible == 0) {
    return 0;
  }
  int count = 0;
  for (const char* at = visible; *at != 0;) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) {
      return count;
    }
    if (*end == '-') {
      last = std::strtol(end + 1, &end, 10);
    }
    count += static_cast<int>(std::max(0L, last - first + 1));
    at = *end == ',' ? end + 1 : end;
    if (*end != ',' && *end != 0) {
      break;
    }
  }
  return count;
}

}  // namespace

ReleaseGil::ReleaseGil() : state_(EnterWait()) {}
ReleaseGil::~ReleaseGil() { LeaveWait(state_); }

Runtime& Runtime::Get() {
  static Runtime* runtime = new Runtime();
  return *runtime;
}

Runtime::Runtime()
    : native_float64_(EnvIs("NEURON_FLOAT64", "native")),
      launch_blocking_(EnvIs("NEURON_LAUNCH_BLOCKING", "1")) {
  pthread_atfork(nullptr, nullptr, &Runtime::OnFork);
}

void Runtime::OnFork() {
  Runtime& runtime = Get();
  // Only a process that has used a device is spoilt; a child forked before that connects by itself.
  if (runtime.link_.load() != nullptr || runtime.epochs_ > 0) {
    runtime.forked_.store(true);
    runtime.link_.store(nullptr);
  }
}

void Runtime::Configure(std::string daemon_path, std::vector<std::string> daemon_args,
                        std::string client_build) {
  daemon_path_ = std::move(daemon_path);
  daemon_args_ = std::move(daemon_args);
  client_build_ = std::move(client_build);
}

std::string Runtime::Settings() const {
  std::string settings;
  for (const char* name :
       {"NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "NEURON_PROCESS_TAG", "NEURON_FLOAT64"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      settings += std::string(name) + "=" + value + "\n";
    }
  }
  settings += "client_build=" + client_build_ + "\n";
  return settings;
}

const Link& Runtime::Connect() {
  TORCH_CHECK(!forked(),
              "Cannot re-initialize neuron in forked subprocess. To use neuron with "
              "multiprocessing, you must use "
              "the 'spawn' start method");
  ReleaseGil release;
  std::unique_lock<std::mutex> lock(connect_mutex_);
  connected_.wait(lock, [this] { return !connecting_; });
  if (const Link* link = link_.load(); link != nullptr) {
    return *link;
  }
  connecting_ = true;
  lock.unlock();
  client::ConnectOptions options;
  options.daemon_path = daemon_path_;
  options.daemon_args = daemon_args_;
  options.build_id = daemon_path_.empty() ? "" : client::BuildId(daemon_path_);
  options.settings = Settings();
  std::unique_ptr<client::Client> client;
  const client::Status status = client::Client::Connect(
      options, client::WaitHooks{&EnterWait, &LeaveWait, &Interrupted}, &client);
  lock.lock();
  connecting_ = false;
  connected_.notify_all();
  if (status.code == client::Code::kCancelled) {
    ThrowInterruption();
  }
  const bool refused = status.code == client::Code::kInvalidArgument;
  TORCH_CHECK(status.ok(),
              refused ? "neuron: the daemon refuses: " : "neuron: no daemon: ", status.message);
  auto* link = new Link{client.release(), ++epochs_, 0};
  link->device_count = std::min(link->client->device_count(), devices_told_.load());
  link_.store(link, std::memory_order_release);
  return *link;
}

int Runtime::DeviceCountNoConnect() noexcept {
  const Link* live = link();
  const int asked = live != nullptr ? live->device_count : EnvDeviceCount();
  constexpr int most = ring::kDevicesMax;
  const int count = asked > 0 ? std::min(asked, most) : most;
  int known = devices_told_.load();
  while (count < known && !devices_told_.compare_exchange_weak(known, count)) {
  }
  return count;
}

void Runtime::Fail(const Link& link, const client::Status& status, const char* what) {
  if (forked()) {
    Connect();  // throws
  }
  if (status.code == client::Code::kCancelled) {
    ThrowInterruption();
  }
  if (link.client->dead() || status.code == client::Code::kUnavailable) {
    const Link* expected = &link;
    link_.compare_exchange_strong(expected, nullptr);
    FailEpoch(link.epoch);
  }
  if (status.code == client::Code::kResourceExhausted) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron out of memory: ", status.message);
  }
  TORCH_CHECK(false, "neuron: ", what, " failed: ", status.message);
}

void Runtime::FailEpoch(uint32_t epoch) {
  TORCH_CHECK(!forked(),
              "Cannot re-initialize neuron in forked subprocess. To use neuron with "
              "multiprocessing, you must use "
              "the 'spawn' start method");
  TORCH_CHECK(false,
              "neuron: the daemon that held this tensor, stream or event has ended (connection ",
              epoch, " of this process); its contents are lost. New tensors start a new daemon.");
}

}  // namespace neurond::shim
