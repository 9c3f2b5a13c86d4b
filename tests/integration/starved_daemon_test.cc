// A daemon to which the system gives no more descriptors or threads: it goes on serving whom it
// serves, and says why others must wait or are refused.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "client/ring/fd.h"
#include "tests/integration/daemon_fixture.h"

namespace neurond::client {
namespace {

class StarvedDaemonTest : public DaemonTest {
 protected:
  static void Limit(int pid, __rlimit_resource resource, rlim_t most) {
    rlimit limit;
    ASSERT_EQ(prlimit(pid, resource, nullptr, &limit), 0);
    limit.rlim_cur = most;
    ASSERT_EQ(prlimit(pid, resource, &limit, nullptr), 0);
  }
  static void Lift(int pid, __rlimit_resource resource) {
    rlimit limit;
    ASSERT_EQ(prlimit(pid, resource, nullptr, &limit), 0);
    Limit(pid, resource, limit.rlim_max);
  }
  static rlim_t AddressSpace(int pid) {
    rlim_t pages = 0;
    std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> pages;
    return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  }
  // A connection that says nothing.
  Fd Knock() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket().data(), socket().size());
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  int Lines(const std::string& part) const {
    const std::string log = Log();
    int count = 0;
    for (size_t at = 0; (at = log.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

TEST_F(StarvedDaemonTest, WithoutDescriptorsClientsWaitAndItIsSaidOnce) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int pid = client->daemon_pid();
  // Only new ones are limited. Below every number that the daemon may yet close and so have free;
  // a session must be able to poll its four.
  Limit(pid, RLIMIT_NOFILE, 4);
  std::vector<Fd> knocks;
  for (int i = 0; i < 40; ++i) knocks.push_back(Knock());
  EXPECT_TRUE(Eventually(10'000, [&] { return Lines("cannot accept clients") > 0; })) << Log();
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(Stats(*client).empty());
  EXPECT_EQ(Lines("cannot accept clients"), 1);
  EXPECT_LT(Lines("\n"), 100) << Log();
  knocks.clear();
  Lift(pid, RLIMIT_NOFILE);
  EXPECT_NE(Connect(), nullptr);
}

TEST_F(StarvedDaemonTest, WithoutThreadsClientsAreRefusedInWords) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int pid = client->daemon_pid();
  // Less than a thread's stack.
  Limit(pid, RLIMIT_AS, AddressSpace(pid) + (4 << 20));
  std::unique_ptr<Client> refused;
  const Status status = Client::Connect(Options(), {}, &refused);
  EXPECT_EQ(status.code, Code::kResourceExhausted) << status.message;
  EXPECT_NE(status.message.find("thread"), std::string::npos) << status.message;
  Lift(pid, RLIMIT_AS);
  EXPECT_FALSE(Stats(*client).empty());
  auto next = Connect();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->daemon_pid(), pid);
}

}  // namespace
}  // namespace neurond::client
