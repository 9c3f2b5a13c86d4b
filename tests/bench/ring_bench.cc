// ring_bench SOCKET NEUROND [daemon arguments]: what the ring costs, against a real daemon.
//
// Prints one JSON object: p50 and p99 in us of an Alloc's round trip (push, consumed, waited for),
// of the same after an idle gap, of a one-way push in a burst, and GB/s of 64 MiB up and down
// beside memcpy of the same.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client/ring/client.h"

namespace {

using neurond::client::Client;
using Clock = std::chrono::steady_clock;

double Us(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

void Must(const neurond::client::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message.c_str());
  std::exit(1);
}

void Print(const char* name, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  std::printf("\"%s_us\": {\"p50\": %.2f, \"p99\": %.2f}, ", name, us[us.size() / 2],
              us[us.size() * 99 / 100]);
}

std::vector<double> Repeat(int count, const std::function<void()>& what, int gap_us = 0) {
  std::vector<double> us;
  for (int i = 0; i < count; ++i) {
    if (gap_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(gap_us));
    const auto start = Clock::now();
    what();
    us.push_back(Us(Clock::now() - start));
  }
  return us;
}

void Latency(Client& client) {
  uint64_t event = 0;
  const auto round_trip = [&] {
    uint64_t seq;
    Must(client.RecordEvent(0, ++event, &seq));
    Must(client.WaitCompleted(0, seq));
  };
  Repeat(1000, round_trip);
  Print("roundtrip", Repeat(20000, round_trip));
  Print("roundtrip_after_500us", Repeat(1000, round_trip, 500));
  std::vector<double> per_push;
  for (int burst = 0; burst < 200; ++burst) {
    const auto start = Clock::now();
    for (int i = 0; i < 1000; ++i) Must(client.RecordEvent(0, ++event, nullptr));
    per_push.push_back(Us(Clock::now() - start) / 1000);
    Must(client.WaitCompleted(0, client.last_seq(0)));
  }
  Print("push", per_push);
}

double BestGbPerS(size_t bytes, const std::function<void()>& what) {
  const std::vector<double> us = Repeat(9, what);
  return static_cast<double>(bytes) / *std::min_element(us.begin(), us.end()) / 1e3;
}

void Bandwidth(Client& client) {
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const uint64_t buffer = client.NewBufferId();
  Must(client.Alloc(buffer, neurond::ring::DType::kU8, kBytes, 0));
  const double copy = BestGbPerS(kBytes, [&] { std::memcpy(to.data(), from.data(), kBytes); });
  const double up = BestGbPerS(kBytes, [&] {
    uint64_t seq;
    Must(client.Write(0, buffer, 0, from.data(), kBytes, 0, &seq));
    Must(client.WaitCompleted(0, seq));
  });
  const double down =
      BestGbPerS(kBytes, [&] { Must(client.Read(0, buffer, 0, to.data(), kBytes, 0)); });
  std::printf("\"memcpy_gb_s\": %.2f, \"upload_gb_s\": %.2f, \"download_gb_s\": %.2f", copy, up,
              down);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  neurond::client::ConnectOptions options;
  options.address = argv[1];
  options.daemon_path = argv[2];
  options.daemon_args.assign(argv + 3, argv + argc);
  std::unique_ptr<Client> client;
  Must(Client::Connect(options, {}, &client));
  std::printf("{");
  Latency(*client);
  Bandwidth(*client);
  std::printf("}\n");
  return 0;
}
