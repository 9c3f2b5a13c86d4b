// DeviceQueue: the queue of one fake device, worked off in order by a thread of its own.
//
// Lifetime: the thread starts with the first job. Stop() and Join() let the queued jobs run,
// without their delays; since a job may wait for another queue's, stop all before joining any. The
// destructor does both. Thread-safety: all methods, from any thread. Jobs run without a lock.

#ifndef NEUROND_PLUGINS_FAKE_DEVICE_QUEUE_H_
#define NEUROND_PLUGINS_FAKE_DEVICE_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace neurond::fake {

class DeviceQueue {
 public:
  DeviceQueue() = default;
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // Runs `job` after all before it, `delay_ms` after their end.
  void Push(int delay_ms, std::function<void()> job);
  // Nothing queued and nothing running.
  bool Idle() const;
  // Ends the delay under way and skips those to come; the thread ends once nothing is queued.
  void Stop();
  // Waits for the thread. After Stop().
  void Join();

 private:
  struct Job {
    int delay_ms;
    std::function<void()> run;
  };
  void Work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_DEVICE_QUEUE_H_
