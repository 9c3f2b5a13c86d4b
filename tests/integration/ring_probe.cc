// ring_probe SOCKET NEUROND [daemon arguments]: connects as a user's process would, starting the
// daemon if none runs, and prints the daemon's pid. For tests that need a process of their own.
#include <cstdio>

#include "client/ring/client.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  neurond::client::ConnectOptions options;
  options.address = argv[1];
  options.daemon_path = argv[2];
  options.daemon_args.assign(argv + 3, argv + argc);
  options.build_id = neurond::client::BuildId(options.daemon_path);
  options.start_timeout_ms = 60'000;
  std::unique_ptr<neurond::client::Client> client;
  const neurond::client::Status status = neurond::client::Client::Connect(options, {}, &client);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message.c_str());
    return 1;
  }
  std::printf("%d\n", client->daemon_pid());
  return 0;
}
