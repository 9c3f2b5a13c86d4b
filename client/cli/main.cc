// neuronctl: look at a running neurond and steer it.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "client/cli/commands.h"
#include "client/cpp/channel.h"

namespace neurond::cli {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 done; 1 the daemon refused; 2 wrong usage; 3 no daemon answers; 4 not healthy, "
    "or not stopped in time.";

struct Flags {
  Options options;
  bool watch = false;
  int interval_ms = 1000;
  uint64_t session = 0;
};

using Run = std::function<int(Commands&)>;

void AddCommands(CLI::App& app, Flags& flags, Run& run) {
  const auto add = [&](CLI::App& parent, const char* name, const char* help, Run command) {
    CLI::App* sub = parent.add_subcommand(name, help);
    sub->final_callback([&run, command] { run = command; });
    return sub;
  };
  CLI::App* devices = add(app, "devices", "List the devices", [&flags](Commands& c) {
    return flags.watch ? c.WatchDevices(flags.interval_ms) : c.Devices();
  });
  devices->add_flag("--watch,-w", flags.watch, "Print them again whenever they change");
  devices->add_option("--interval-ms", flags.interval_ms, "Least time between two prints")
      ->capture_default_str();
  CLI::App* sessions = app.add_subcommand("sessions", "List the sessions of clients, or close one");
  add(*sessions, "list", "List them (the default)", &Commands::Sessions);
  add(*sessions, "close", "End one session",
      [&flags](Commands& c) { return c.CloseSession(flags.session); })
      ->add_option("id", flags.session, "Its number in the list")
      ->required();
  sessions->parse_complete_callback([&run] { run = &Commands::Sessions; });
  CLI::App* cache = app.add_subcommand("cache", "The executables, in memory and on disk");
  add(*cache, "list", "List those in memory", &Commands::CacheList);
  add(*cache, "clear", "Drop what no session uses, in memory and on disk", &Commands::CacheClear);
  cache->require_subcommand(1);
  add(app, "stats", "All counters", &Commands::Stats);
  add(app, "health", "Whether the daemon serves", &Commands::Health);
  add(app, "info", "Version, build, process and plugin", &Commands::Info);
  add(app, "stop", "Drain the daemon and wait until it has ended", &Commands::Stop);
}

int Main(int argc, char** argv) {
  Flags flags;
  Run run;
  CLI::App app("neuronctl: look at a running neurond and steer it", "neuronctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--address", flags.options.address,
                 "unix:/path or host:port; else NEURON_RT_GRPC_ADDRESS, else this user's daemon");
  app.add_flag("--json", flags.options.json, "One JSON text, for programs");
  app.add_option("--timeout", flags.options.timeout_s, "Seconds to wait for an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  AddCommands(app, flags, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  flags.options.colour =
      isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr && !flags.options.json;
  const absl::StatusOr<std::string> address = client::ResolveGrpcAddress(flags.options.address);
  if (!address.ok()) {
    std::cerr << "neuronctl: " << address.status().message() << "\n";
    return kExitNoDaemon;
  }
  flags.options.address = *address;
  Commands commands(flags.options);
  return run(commands);
}

}  // namespace
}  // namespace neurond::cli

int main(int argc, char** argv) { return neurond::cli::Main(argc, argv); }
