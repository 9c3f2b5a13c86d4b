#include "server/daemon/session_registry.h"

namespace neurond {

uint64_t SessionRegistry::NewId() {
  std::lock_guard lock(mutex_);
  return next_id_++;
}

bool SessionRegistry::Add(uint64_t id, LiveSession* session) {
  int count;
  {
    std::lock_guard lock(mutex_);
    if (frozen_) return false;
    sessions_.emplace(id, session);
    count = static_cast<int>(sessions_.size());
  }
  if (on_change_) on_change_(count);
  return true;
}

void SessionRegistry::Remove(uint64_t id) {
  int count;
  {
    std::lock_guard lock(mutex_);
    if (sessions_.erase(id) == 0) return;
    count = static_cast<int>(sessions_.size());
  }
  if (on_change_) on_change_(count);
}

std::vector<SessionCounters> SessionRegistry::List() const {
  std::lock_guard lock(mutex_);
  std::vector<SessionCounters> list;
  list.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) list.push_back(session->Counters());
  return list;
}

int SessionRegistry::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(sessions_.size());
}

bool SessionRegistry::Close(uint64_t id, const std::string& reason) {
  std::lock_guard lock(mutex_);
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return false;
  it->second->Close(reason);
  return true;
}

void SessionRegistry::CloseAll(const std::string& reason) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) session->Close(reason);
}

bool SessionRegistry::FreezeIfEmpty() {
  std::lock_guard lock(mutex_);
  if (!sessions_.empty()) return false;
  frozen_ = true;
  return true;
}

void SessionRegistry::Freeze() {
  std::lock_guard lock(mutex_);
  frozen_ = true;
}

void SessionRegistry::Unfreeze() {
  std::lock_guard lock(mutex_);
  frozen_ = false;
}

}  // namespace neurond
