#include "plugins/fake/device_queue.h"

#include <chrono>
#include <utility>

namespace neurond::fake {

DeviceQueue::~DeviceQueue() {
  Stop();
  Join();
}

void DeviceQueue::Join() {
  if (thread_.joinable()) thread_.join();
}

void DeviceQueue::Push(int delay_ms, std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back({delay_ms, std::move(job)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  changed_.notify_all();
}

bool DeviceQueue::Idle() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.empty() && !busy_;
}

void DeviceQueue::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void DeviceQueue::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !jobs_.empty() || stopped_; });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    if (job.delay_ms > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(job.delay_ms), [this] { return stopped_; });
    }
    lock.unlock();
    job.run();
    job.run = nullptr;  // what it held dies before the queue is idle
    lock.lock();
    busy_ = false;
  }
}

}  // namespace neurond::fake
