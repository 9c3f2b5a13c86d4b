#include "plugins/pjrt/pjrt_api.h"

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/pjrt/library_check.h"

namespace neurond::pjrt {
namespace {

// Every field of PJRT_Api after the version is one pointer; an older library's table ends before
// the newer ones.
bool HasEntry(const PJRT_Api* api, size_t offset) {
  if (api->struct_size < offset + sizeof(void*)) return false;
  return *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(api) + offset) != nullptr;
}

struct Entry {
  const char* name;
  size_t offset;
};
#define NEUROND_ENTRY(name) \
  { #name, offsetof(PJRT_Api, name) }
constexpr Entry kNeeded[] = {
    NEUROND_ENTRY(PJRT_Error_Destroy),
    NEUROND_ENTRY(PJRT_Error_Message),
    NEUROND_ENTRY(PJRT_Error_GetCode),
    NEUROND_ENTRY(PJRT_Plugin_Initialize),
    NEUROND_ENTRY(PJRT_Event_Destroy),
    NEUROND_ENTRY(PJRT_Event_IsReady),
    NEUROND_ENTRY(PJRT_Event_Error),
    NEUROND_ENTRY(PJRT_Event_Await),
    NEUROND_ENTRY(PJRT_Event_OnReady),
    NEUROND_ENTRY(PJRT_Client_Create),
    NEUROND_ENTRY(PJRT_Client_Destroy),
    NEUROND_ENTRY(PJRT_Client_PlatformName),
    NEUROND_ENTRY(PJRT_Client_AddressableDevices),
    NEUROND_ENTRY(PJRT_Client_Compile),
    NEUROND_ENTRY(PJRT_Client_BufferFromHostBuffer),
    NEUROND_ENTRY(PJRT_Executable_Destroy),
    NEUROND_ENTRY(PJRT_Executable_NumOutputs),
    NEUROND_ENTRY(PJRT_LoadedExecutable_Destroy),
    NEUROND_ENTRY(PJRT_LoadedExecutable_GetExecutable),
    NEUROND_ENTRY(PJRT_LoadedExecutable_Execute),
    NEUROND_ENTRY(PJRT_Buffer_Destroy),
    NEUROND_ENTRY(PJRT_Buffer_CopyToDevice),
    NEUROND_ENTRY(PJRT_Buffer_ToHostBuffer),
    NEUROND_ENTRY(PJRT_Buffer_ReadyEvent),
    NEUROND_ENTRY(PJRT_Buffer_UnsafePointer),
    NEUROND_ENTRY(PJRT_Executable_OutputElementTypes),
    NEUROND_ENTRY(PJRT_Executable_OutputDimensions),
};
#undef NEUROND_ENTRY

absl::StatusCode ToStatusCode(PJRT_Error_Code code) {
  // PJRT's codes are Abseil's by definition; anything else is a library newer than both.
  return code > PJRT_Error_Code_OK && code <= PJRT_Error_Code_UNAUTHENTICATED
             ? static_cast<absl::StatusCode>(code)
             : absl::StatusCode::kUnknown;
}

// What an event that is not ready yet carries to its callback.
struct Watched {
  PjrtApi api;
  PJRT_Event* event;
  DoneCallback done;
};

}  // namespace

PjrtApi::PjrtApi(const PJRT_Api* api)
    : api_(api),
      can_serialize_(HasEntry(api, offsetof(PJRT_Api, PJRT_Executable_Serialize)) &&
                     HasEntry(api, offsetof(PJRT_Api, PJRT_Executable_DeserializeAndLoad))),
      can_copy_raw_(HasEntry(api, offsetof(PJRT_Api, PJRT_Buffer_CopyRawToHost))),
      has_memory_stats_(HasEntry(api, offsetof(PJRT_Api, PJRT_Device_MemoryStats))),
      has_compiled_memory_stats_(
          HasEntry(api, offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats))) {}

absl::StatusOr<PjrtApi> PjrtApi::Open(const std::string& path) {
  if (absl::Status status = CheckLibrary(path); !status.ok()) return status;
  // RTLD_LOCAL: two plugins, each with its own copy of the same libraries, must not see each
  // other's symbols.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot load PJRT plugin ", path, ": ", reason ? reason : "unknown error"));
  }
  auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(handle, "GetPjrtApi"));
  if (get_api == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, " is not a PJRT plugin: it does not export GetPjrtApi"));
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr || api->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": GetPjrtApi returned no usable table"));
  }
  PjrtApi result(api);
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has PJRT API version ",
                                                      result.version(), ", expected major version ",
                                                      PJRT_API_MAJOR));
  }
  for (const Entry& entry : kNeeded) {
    if (!HasEntry(api, entry.offset)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " (PJRT API ", result.version(), ") lacks ", entry.name, ", which is needed"));
    }
  }
  NEUROND_PJRT_ARGS(PJRT_Plugin_Initialize_Args, initialize);
  if (absl::Status status = result.Take(api->PJRT_Plugin_Initialize(&initialize)); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(path, ": PJRT_Plugin_Initialize failed: ", status.message()));
  }
  return result;
}

std::string PjrtApi::version() const {
  return absl::StrCat(api_->pjrt_api_version.major_version, ".",
                      api_->pjrt_api_version.minor_version);
}

Error PjrtApi::TakeError(PJRT_Error* error) const {
  if (error == nullptr) return {};
  Error result;
  result.code = absl::StatusCode::kUnknown;
  NEUROND_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  if (PJRT_Error* nested = api_->PJRT_Error_GetCode(&code); nested != nullptr) {
    NEUROND_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = nested;
    api_->PJRT_Error_Destroy(&destroy);
  } else {
    result.code = ToStatusCode(code.code);
  }
  if (result.code == absl::StatusCode::kResourceExhausted) result.kind = ErrorKind::kOutOfMemory;
  NEUROND_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  if (message.message != nullptr) result.message.assign(message.message, message.message_size);
  NEUROND_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  api_->PJRT_Error_Destroy(&destroy);
  return result;
}

absl::Status PjrtApi::Take(PJRT_Error* error) const {
  if (error == nullptr) return absl::OkStatus();
  return TakeError(error).ToStatus();
}

void PjrtApi::Destroy(PJRT_Event* event) const {
  NEUROND_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
  args.event = event;
  TakeError(api_->PJRT_Event_Destroy(&args));
}

Error PjrtApi::Await(PJRT_Event* event) const {
  NEUROND_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = event;
  return TakeError(api_->PJRT_Event_Await(&args));
}

bool PjrtApi::ConsumeIfOk(PJRT_Event* event) const {
  if (event == nullptr) return true;
  NEUROND_PJRT_ARGS(PJRT_Event_IsReady_Args, ready);
  ready.event = event;
  if (PJRT_Error* error = api_->PJRT_Event_IsReady(&ready); error != nullptr) {
    TakeError(error);
    return false;
  }
  if (!ready.is_ready) return false;
  NEUROND_PJRT_ARGS(PJRT_Event_Error_Args, outcome);
  outcome.event = event;
  if (PJRT_Error* error = api_->PJRT_Event_Error(&outcome); error != nullptr) {
    TakeError(error);  // Watch asks again: each PJRT_Error* is independent
    return false;
  }
  Destroy(event);
  return true;
}

void PjrtApi::Watch(PJRT_Event* event, DoneCallback done) const {
  if (ConsumeIfOk(event)) {
    done(Error{});
    return;
  }
  auto watched = std::make_unique<Watched>(Watched{*this, event, std::move(done)});
  NEUROND_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event;
  args.user_arg = watched.get();
  args.callback = [](PJRT_Error* error, void* user_arg) {
    std::unique_ptr<Watched> owned(static_cast<Watched*>(user_arg));
    Error outcome = owned->api.TakeError(error);
    owned->api.Destroy(owned->event);
    owned->done(std::move(outcome));
  };
  Watched* raw = watched.release();  // the callback may run, and free it, before OnReady returns
  if (PJRT_Error* refused = api_->PJRT_Event_OnReady(&args); refused != nullptr) {
    // A library that cannot call back: block rather than lose the completion.
    std::unique_ptr<Watched> owned(raw);
    TakeError(refused);
    Error outcome = Await(event);
    Destroy(event);
    owned->done(std::move(outcome));
  }
}

}  // namespace neurond::pjrt
