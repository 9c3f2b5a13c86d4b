// neurond: see server/daemon/daemon.h.
#include "server/daemon/config.h"
#include "server/daemon/daemon.h"

int main(int argc, char** argv) {
  neurond::DaemonConfig config;
  int exit_code = 0;
  if (!neurond::ParseFlags(argc, argv, &config, &exit_code)) return exit_code;
  return neurond::RunDaemon(std::move(config));
}
