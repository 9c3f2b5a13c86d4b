// The extension module: what torch_neuronx's Python calls. Raw CPython API, so that one binary
// needs no pybind and no libtorch_python.

#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <functional>

#include "client/torch/csrc/autograd_exit.h"
#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/errors.h"
#include "client/torch/csrc/generator.h"
#include "client/torch/csrc/graph.h"
#include "client/torch/csrc/memory.h"
#include "client/torch/csrc/miss.h"
#include "client/torch/csrc/op_info.h"
#include "client/torch/csrc/origin.h"
#include "client/torch/csrc/python.h"
#include "client/torch/csrc/python_error.h"
#include "client/torch/csrc/python_state.h"
#include "client/torch/csrc/register.h"
#include "client/torch/csrc/stream.h"
#include "client/torch/csrc/trace.h"

namespace neurond::shim {
namespace {

struct PythonError {};  // the error indicator is set

// The Python exception that torch's own bindings would raise for a C++ one.
void SetError(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  const char* text = ours != nullptr ? ours->what_without_backtrace() : error.what();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    PyRef torch(PyImport_ImportModule("torch"));
    PyRef type(torch ? PyObject_GetAttrString(torch.get(), "OutOfMemoryError") : nullptr);
    PyErr_SetString(type ? type.get() : PyExc_MemoryError, text);
  } else if (dynamic_cast<const c10::IndexError*>(&error) != nullptr) {
    PyErr_SetString(PyExc_IndexError, text);
  } else if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
    PyErr_SetString(PyExc_ValueError, text);
  } else if (dynamic_cast<const c10::TypeError*>(&error) != nullptr) {
    PyErr_SetString(PyExc_TypeError, text);
  } else if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr) {
    PyErr_SetString(PyExc_NotImplementedError, text);
  } else {
    PyErr_SetString(PyExc_RuntimeError, text);
  }
}

template <typename Body>
PyObject* Guarded(Body body) {
  try {
    return body();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    if (!RestorePythonError(error)) {
      SetError(error);
    }
    return nullptr;
  }
}

PyObject* NoneRef() { return Py_NewRef(Py_None); }

void Arguments(PyObject* args, const char* format, ...) {
  va_list list;
  va_start(list, format);
  const int ok = PyArg_VaParse(args, format, list);
  va_end(list);
  if (ok == 0) {
    throw PythonError();
  }
}

int DeviceArgument(PyObject* args) {
  int device = -1;
  Arguments(args, "i", &device);
  if (device < 0) {
    device = CurrentDevice();
  }
  CheckDeviceIndex(device);
  return device;
}

PyObject* Configure(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    const char *path = nullptr, *build = nullptr;
    PyObject* list = nullptr;
    Arguments(args, "sOs", &path, &list, &build);
    std::vector<std::string> daemon_args;
    PyRef items(PySequence_Fast(list, "daemon arguments"));
    if (!items) {
      throw PythonError();
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      daemon_args.push_back(PyText(PySequence_Fast_GET_ITEM(items.get(), i)));
    }
    Runtime::Get().Configure(path, std::move(daemon_args), build);
    return NoneRef();
  });
}

PyObject* Register(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    const char *torch = nullptr, *package = nullptr;
    Arguments(args, "ss", &torch, &package);
    static bool done = false;
    if (!done) {
      done = true;
      SetOwnFolders({torch, package});
      RegisterAllocator();
      RegisterHostAllocator();
      RegisterGuardAndHooks();
      RegisterFactories();
      RegisterCopies();
      RegisterExplicitOps();
      RegisterRnnCells();
      RegisterGraphOp();
      RegisterAutocast();
      RegisterBoxedOps();
    }
    return NoneRef();
  });
}

PyObject* SetTracerPy(PyObject* /*self*/, PyObject* function) {
  SetTracer(function);
  return NoneRef();
}

PyObject* RegisterGraphPy(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    const char* hash = nullptr;
    PyObject* list = nullptr;
    Arguments(args, "sO", &hash, &list);
    PyRef items(PySequence_Fast(list, "mutated arguments"));
    if (!items) {
      throw PythonError();
    }
    std::vector<int64_t> mutated;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      mutated.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i)));
    }
    return PyLong_FromLongLong(RegisterGraph(hash, std::move(mutated)));
  });
}

PyObject* DeviceCount(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] { return PyLong_FromLong(Runtime::Get().Connected().device_count); });
}

PyObject* IsConnected(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(Runtime::Get().link() != nullptr ? 1 : 0);
}

PyObject* IsForked(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(Runtime::Get().forked() ? 1 : 0);
}

PyObject* CurrentDevicePy(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromLong(CurrentDevice());
}

PyObject* SetDevice(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1;
    Arguments(args, "i", &device);
    if (device >= 0) {
      if (device != CurrentDevice()) {
        CheckDeviceIndex(device);
      }
      SetCurrentDevice(device);
    }
    return NoneRef();
  });
}

PyObject* Synchronize(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1;
    Arguments(args, "i", &device);
    SynchronizeDevice(device < 0 ? CurrentDevice() : device);
    return NoneRef();
  });
}

void Put(const PyRef& dict, const std::string& name, int64_t value) {
  PyRef number(PyLong_FromLongLong(value));
  if (!number || PyDict_SetItemString(dict.get(), name.c_str(), number.get()) != 0) {
    throw PythonError();
  }
}

void PutStat(const PyRef& dict, const std::string& name, const MemoryStat& stat) {
  Put(dict, name + ".current", stat.current.load());
  Put(dict, name + ".peak", stat.peak.load());
  Put(dict, name + ".allocated", stat.allocated.load());
  Put(dict, name + ".freed", stat.freed.load());
}

PyObject* MemoryStats(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    const DeviceMemory& memory = Ledger::Get().device(DeviceArgument(args));
    PyRef dict(PyDict_New());
    PutStat(dict, "allocated_bytes", memory.bytes);
    PutStat(dict, "active_bytes", memory.bytes);
    PutStat(dict, "requested_bytes", memory.bytes);
    PutStat(dict, "reserved_bytes", memory.reserved);
    PutStat(dict, "allocation", memory.count);
    PutStat(dict, "active", memory.count);
    Put(dict, "num_ooms", memory.ooms.load());
    Put(dict, "num_alloc_retries", memory.retries.load());
    return dict.release();
  });
}

PyObject* ResetMemoryStats(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1, peak = 0;
    Arguments(args, "ip", &device, &peak);
    device = device < 0 ? CurrentDevice() : device;
    CheckDeviceIndex(device);
    DeviceMemory& memory = Ledger::Get().device(device);
    for (MemoryStat* stat : {&memory.bytes, &memory.count, &memory.reserved}) {
      peak != 0 ? stat->ResetPeak() : stat->ResetAccumulated();
    }
    return NoneRef();
  });
}

PyObject* EmptyCache(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    if (const Link* link = Runtime::Get().link(); link != nullptr) {
      for (int device = 0; device < link->device_count; ++device) {
        Ledger::Get().EmptyCache(*link, device);
      }
    }
    return NoneRef();
  });
}

PyObject* MemGetInfo(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    const int device = DeviceArgument(args);
    const auto [free_bytes, total] = Ledger::Get().Info(Runtime::Get().Connected(), device);
    return Py_BuildValue("(LL)", static_cast<long long>(free_bytes), static_cast<long long>(total));
  });
}

PyObject* Devices(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    const Link& link = Runtime::Get().Connected();
    std::vector<client::DeviceInfo> devices;
    Runtime::Get().Check(link, link.client->Devices(&devices), "listing devices");
    PyRef list(PyList_New(0));
    for (const client::DeviceInfo& device : devices) {
      PyRef item(Py_BuildValue("(ssLL)", device.name.c_str(), device.platform.c_str(),
                               static_cast<long long>(device.total_bytes),
                               static_cast<long long>(device.free_bytes)));
      if (!item || PyList_Append(list.get(), item.get()) != 0) {
        throw PythonError();
      }
    }
    return list.release();
  });
}

PyObject* OpCounts(bool fallbacks) {
  return Guarded([&] {
    PyRef dict(PyDict_New());
    for (const OpInfo* info : OpInfo::All()) {
      const uint64_t count = fallbacks ? info->fallbacks.load() : info->executed.load();
      if (count > 0) {
        Put(dict, info->name, static_cast<int64_t>(count));
      }
    }
    return dict.release();
  });
}
PyObject* ExecutedOps(PyObject* /*self*/, PyObject* /*args*/) { return OpCounts(false); }
PyObject* FallbackOps(PyObject* /*self*/, PyObject* /*args*/) { return OpCounts(true); }

PyObject* ClearOpCounts(PyObject* /*self*/, PyObject* /*args*/) {
  for (const OpInfo* info : OpInfo::All()) {
    info->executed.store(0);
    info->fallbacks.store(0);
  }
  return NoneRef();
}

PyObject* Counters(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    const MissCounters& counters = Misses();
    PyRef dict(PyDict_New());
    Put(dict, "misses", static_cast<int64_t>(counters.misses.load()));
    Put(dict, "lookups_known", static_cast<int64_t>(counters.lookups_known.load()));
    Put(dict, "reference_runs", static_cast<int64_t>(counters.reference_runs.load()));
    Put(dict, "traces", static_cast<int64_t>(counters.traces.load()));
    Put(dict, "refused", static_cast<int64_t>(counters.refused.load()));
    return dict.release();
  });
}

PyObject* DaemonStats(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    const Link& link = Runtime::Get().Connected();
    std::string json;
    Runtime::Get().Check(link, link.client->Stats(&json), "statistics");
    return PyUnicode_FromStringAndSize(json.data(), static_cast<Py_ssize_t>(json.size()));
  });
}

PyObject* SessionInfo(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    const Link& link = Runtime::Get().Connected();
    return Py_BuildValue(
        "{s:K,s:i,s:s}", "session", static_cast<unsigned long long>(link.client->session()), "pid",
        link.client->daemon_pid(), "build", link.client->daemon_build_id().c_str());
  });
}

// For the exit handler: waits for autograd's threads and for what was submitted, then takes
// everything never reported.
PyObject* TakeUnreported(PyObject* /*self*/, PyObject* /*args*/) {
  return Guarded([] {
    PyRef list(PyList_New(0));
    const Link* link = Runtime::Get().link();
    if (link != nullptr) {
      SettleAutograd(*link);
      SettleAtExit(*link);
    }
    for (int i = 0;
         link != nullptr && !link->client->dead() && i < 64 && link->client->unreported() > 0;
         ++i) {
      bool found = false;
      client::DeviceError error;
      if (!link->client->TakeError(-1, -1, UINT64_MAX, 0, &found, &error).ok() || !found) {
        break;
      }
      const std::string text = Describe(error);
      PyRef item(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
      if (!item || PyList_Append(list.get(), item.get()) != 0) {
        throw PythonError();
      }
    }
    return list.release();
  });
}

PyObject* ManualSeed(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1;
    unsigned long long seed = 0;
    Arguments(args, "iK", &device, &seed);
    at::Generator generator = DefaultGenerator(device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
    return NoneRef();
  });
}

// (seed, offset) of a device's default generator.
PyObject* GetGenerator(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1;
    Arguments(args, "i", &device);
    at::Generator generator = DefaultGenerator(device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(generator.current_seed()),
                         static_cast<unsigned long long>(generator.get_offset()));
  });
}

PyObject* SetGenerator(PyObject* /*self*/, PyObject* args) {
  return Guarded([&] {
    int device = -1;
    unsigned long long seed = 0, offset = 0;
    Arguments(args, "iKK", &device, &seed, &offset);
    at::Generator generator = DefaultGenerator(device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
    generator.set_offset(offset);
    return NoneRef();
  });
}

PyMethodDef kMethods[] = {
    {"configure", Configure, METH_VARARGS, "configure(daemon_path, daemon_args, client_build)"},
    {"register", Register, METH_VARARGS,
     "register(torch_folder, package_folder): registers the device with torch; once. Lines below "
     "these folders are never named as the user's."},
    {"set_tracer", SetTracerPy, METH_O, "set_tracer(fn): see client/torch/README.md"},
    {"register_graph", RegisterGraphPy, METH_VARARGS,
     "register_graph(content_hash, mutated) -> int"},
    {"device_count", DeviceCount, METH_NOARGS, "Devices this process sees; connects."},
    {"is_connected", IsConnected, METH_NOARGS, "Whether the daemon is in use; never connects."},
    {"is_forked", IsForked, METH_NOARGS,
     "Whether this is a forked child of a process that used the device."},
    {"current_device", CurrentDevicePy, METH_NOARGS, nullptr},
    {"set_device", SetDevice, METH_VARARGS, nullptr},
    {"synchronize", Synchronize, METH_VARARGS, "synchronize(device or -1)"},
    {"memory_stats", MemoryStats, METH_VARARGS, "memory_stats(device or -1) -> flat dict"},
    {"reset_memory_stats", ResetMemoryStats, METH_VARARGS,
     "reset_memory_stats(device or -1, peak)"},
    {"empty_cache", EmptyCache, METH_NOARGS, nullptr},
    {"mem_get_info", MemGetInfo, METH_VARARGS, "mem_get_info(device or -1) -> (free, total)"},
    {"devices", Devices, METH_NOARGS, "[(name, platform, total_bytes, free_bytes), ...]"},
    {"executed_ops", ExecutedOps, METH_NOARGS, "{op: count}"},
    {"fallback_ops", FallbackOps, METH_NOARGS, "{op: count}"},
    {"clear_op_counts", ClearOpCounts, METH_NOARGS, nullptr},
    {"counters", Counters, METH_NOARGS, "Counters of the miss path."},
    {"daemon_stats", DaemonStats, METH_NOARGS, "The daemon's counters as JSON text."},
    {"session_info", SessionInfo, METH_NOARGS, nullptr},
    {"take_unreported", TakeUnreported, METH_NOARGS,
     "At exit: waits for the work's end; texts of the failures nobody has seen."},
    {"manual_seed", ManualSeed, METH_VARARGS, "manual_seed(device, seed)"},
    {"get_generator", GetGenerator, METH_VARARGS, "get_generator(device) -> (seed, offset)"},
    {"set_generator", SetGenerator, METH_VARARGS, "set_generator(device, seed, offset)"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       NEURON_MODULE_NAME,
                       nullptr,
                       -1,
                       kMethods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace neurond::shim

#define NEURON_JOIN2(a, b) a##b
#define NEURON_JOIN(a, b) NEURON_JOIN2(a, b)
PyMODINIT_FUNC NEURON_JOIN(PyInit_, NEURON_MODULE_SYMBOL)() {
  PyObject* module = PyModule_Create(&neurond::shim::kModule);
  if (module != nullptr) {
    PyModule_AddStringConstant(module, "TORCH_VERSION", NEURON_TORCH_VERSION);
  }
  return module;
}
