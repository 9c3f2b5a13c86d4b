#include <chrono>
#include <thread>

#include "client/ring/address.h"
#include "client/ring/client_impl.h"
#include "client/ring/limits.h"
#include "client/ring/starter.h"
#include "proto/ring/build_id.h"

namespace neurond::client {
namespace {

using Clock = std::chrono::steady_clock;

int MsLeft(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 1 ? static_cast<int>(left.count()) : 1;
}

// The daemon is of another build. Ok once it has ended; else `mismatch` with the reason why it does
// not.
Status RetireOther(Starter& starter, Clock::time_point deadline, WaitScope& wait,
                   const Status& mismatch) {
  Fd socket;
  if (Status status = starter.Connect(deadline, wait, &socket); !status.ok()) return status;
  Connection connection(std::move(socket));
  const Status retired = connection.Retire(MsLeft(deadline), wait);
  if (retired.ok() || retired.code == Code::kUnavailable) return {};
  if (retired.code == Code::kCancelled) return retired;
  return {mismatch.code, mismatch.message + "; " + retired.message};
}

}  // namespace

Status Client::Connect(const ConnectOptions& options, WaitHooks hooks,
                       std::unique_ptr<Client>* client) {
  WaitScope wait(hooks);
  wait.Enter();
  std::string path;
  if (Status status = ResolveAddress(options.address, &path); !status.ok()) return status;
  const auto deadline = Clock::now() + std::chrono::milliseconds(options.start_timeout_ms);
  Starter starter(options, path);
  for (;;) {
    Fd socket;
    if (Status status = starter.Connect(deadline, wait, &socket); !status.ok()) return status;
    auto connection = std::make_unique<Connection>(std::move(socket));
    Greeting greeting;
    Status status = connection->Hello(options, MsLeft(deadline), wait, &greeting);
    if (status.ok()) {
      auto made = std::make_unique<ClientImpl>(hooks, std::move(connection), std::move(greeting));
      if (Status mapped = made->MapAreas(); !mapped.ok()) return mapped;
      *client = std::move(made);
      return {};
    }
    if (status.code == Code::kFailedPrecondition && starter.starts() == 0) {
      status = RetireOther(starter, deadline, wait, status);
    }
    // kUnavailable: it ended (idle, or it could not start) before it answered. Look again, start
    // anew if need be.
    if (!status.ok() && status.code != Code::kUnavailable) {
      if (status.code == Code::kDeadlineExceeded) status.message += ": " + path;
      return status;
    }
    if (Clock::now() > deadline) {
      return {Code::kUnavailable, "no daemon on " + path + " answered within " +
                                      std::to_string(options.start_timeout_ms) +
                                      " ms; the end of its log:\n" + starter.LogTail()};
    }
    if (Status given_up = wait.Interrupted(false); !given_up.ok()) return given_up;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string BuildId(const std::string& path) { return ring::ElfBuildId(path); }

ClientImpl::ClientImpl(WaitHooks hooks, std::unique_ptr<Connection> connection, Greeting greeting)
    : hooks_(hooks),
      connection_(std::move(connection)),
      greeting_(std::move(greeting)),
      areas_(std::make_unique<Areas>()),
      staging_(ring::kStagingBytes) {}

Status ClientImpl::MapAreas() {
  Status status =
      areas_->Map(greeting_.ring.get(), greeting_.staging.get(), greeting_.progress.get());
  if (!status.ok()) return status;
  greeting_.ring.Reset(-1);
  greeting_.staging.Reset(-1);
  greeting_.progress.Reset(-1);
  writer_ =
      std::make_unique<RingWriter>(areas_->ring(), areas_->ring_data(), greeting_.event.get());
  return {};
}

ClientImpl::~ClientImpl() {
  if (!fork_guard_.InChild()) {
    if (writer_ != nullptr) connection_->SendBye();
    return;
  }
  // A forked child: nothing here is ours to end. The copies stay until the child does.
  (void)connection_.release();
  (void)areas_.release();
  (void)greeting_.event.Release();
}

}  // namespace neurond::client
