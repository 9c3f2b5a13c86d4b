// WorkQueue: a few threads that run posted tasks in order of posting.
//
// For what may block on the disk or in a plugin and must not block a Session. Tasks that wait for
// other tasks of the same queue would deadlock; none do.
//
// Thread-safety: Post from any thread, also from a task.
// Lifetime: the destructor runs every task posted so far, then joins. A Post during or after that
// runs nothing.

#ifndef NEUROND_RUNTIME_BASE_WORK_QUEUE_H_
#define NEUROND_RUNTIME_BASE_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace neurond {

class WorkQueue {
 public:
  explicit WorkQueue(int threads);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Post(std::function<void()> task);
  // Waits until every task posted before has run.
  void Drain();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_WORK_QUEUE_H_
