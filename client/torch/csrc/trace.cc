#include "client/torch/csrc/trace.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/python_error.h"
#include "client/torch/csrc/python_state.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

PyObject* tracer = nullptr;  // guarded by the GIL

// Raised inside this file when the CPython API reports an error; never leaves it.
struct PythonFailed {};

PyRef Checked(PyObject* object) {
  if (object == nullptr) {
    throw PythonFailed();
  }
  return PyRef(object);
}

PyRef None() {
  Py_INCREF(Py_None);
  return PyRef(Py_None);
}
PyRef Int(int64_t value) { return Checked(PyLong_FromLongLong(value)); }
PyRef Text(std::string_view text) {
  return Checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}
PyRef Bool(bool value) { return Checked(PyBool_FromLong(value ? 1 : 0)); }

template <typename... Items>
PyRef Tuple(Items&&... items) {
  PyRef tuple = Checked(PyTuple_New(sizeof...(items)));
  Py_ssize_t at = 0;
  (PyTuple_SET_ITEM(tuple.get(), at++, items.release()), ...);
  return tuple;
}

void Append(const PyRef& list, PyRef item) {
  if (PyList_Append(list.get(), item.get()) != 0) {
    throw PythonFailed();
  }
}
PyRef List() { return Checked(PyList_New(0)); }
PyRef Ints(c10::IntArrayRef values) {
  PyRef list = List();
  for (const int64_t value : values) {
    Append(list, Int(value));
  }
  return list;
}
void Put(const PyRef& dict, const char* name, PyRef value) {
  if (PyDict_SetItemString(dict.get(), name, value.get()) != 0) {
    throw PythonFailed();
  }
}

PyRef TorchAttribute(const char* name) {
  PyRef module = Checked(PyImport_ImportModule("torch"));
  return Checked(PyObject_GetAttrString(module.get(), name));
}

const char* DtypeName(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return "bool";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::UInt16:
      return "uint16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::UInt32:
      return "uint32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::UInt64:
      return "uint64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::ComplexHalf:
      return "complex32";
    case c10::ScalarType::ComplexFloat:
      return "complex64";
    case c10::ScalarType::ComplexDouble:
      return "complex128";
    case c10::ScalarType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case c10::ScalarType::Float8_e5m2:
      return "float8_e5m2";
    default:
      throw PythonFailed();
  }
}

PyRef Number(const c10::Scalar& value) {
  if (value.isFloatingPoint()) {
    return Checked(PyFloat_FromDouble(value.toDouble()));
  }
  return value.isBoolean() ? Bool(value.toBool()) : Int(value.toLong());
}

PyRef Plain(const c10::IValue& value, ArgKind kind) {
  if (value.isNone() || kind == ArgKind::kGenerator) {
    return None();
  }
  if (value.isInt()) {
    switch (kind) {
      case ArgKind::kDtype:
        return TorchAttribute(DtypeName(static_cast<c10::ScalarType>(value.toInt())));
      case ArgKind::kLayout:
        return TorchAttribute(value.toInt() == 0 ? "strided" : "sparse_coo");
      case ArgKind::kMemoryFormat: {
        static constexpr const char* kNames[] = {"contiguous_format", "preserve_format",
                                                 "channels_last", "channels_last_3d"};
        return TorchAttribute(kNames[static_cast<size_t>(value.toInt()) & 3]);
      }
      default:
        return Int(value.toInt());
    }
  }
  if (value.isBool()) {
    return Bool(value.toBool());
  }
  if (value.isDouble()) {
    return Checked(PyFloat_FromDouble(value.toDouble()));
  }
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return Checked(PyComplex_FromDoubles(number.real(), number.imag()));
  }
  if (value.isString()) {
    return Text(value.toStringRef());
  }
  if (value.isDevice()) {
    PyRef make = TorchAttribute("device");
    const c10::Device device = value.toDevice();
    PyRef name = Text(device.is_privateuseone() ? "neuron" : device.str());
    return Checked(PyObject_CallFunctionObjArgs(make.get(), name.get(), nullptr));
  }
  if (value.isList()) {
    PyRef list = List();
    for (const c10::IValue& item : value.toListRef()) {
      Append(list, Plain(item, kind));
    }
    return list;
  }
  throw PythonFailed();
}

// Describes the arguments in the order that TakeApart numbered tensors and scalars in.
class Describer {
 public:
  PyRef Argument(const c10::IValue& value, ArgKind kind) {
    if (value.isTensor()) {
      return Tensor(value.toTensor(), false);
    }
    if (kind == ArgKind::kTensors && value.isList()) {
      PyRef list = List();
      for (const c10::IValue& item : value.toListRef()) {
        Append(list, item.isTensor() ? Tensor(item.toTensor(), true) : None());
      }
      return Tuple(Text("tensors"), std::move(list));
    }
    if (kind == ArgKind::kScalar && IsNumber(value)) {
      return Tuple(Text("cpu"), Int(scalar_++));
    }
    if (kind == ArgKind::kScalars && value.isList()) {
      PyRef list = List();
      const auto items = value.toList();
      for (size_t i = 0; i < items.size(); ++i) {
        if (!IsNumber(items.get(i))) {
          return Tuple(Text("value"), Plain(value, kind));
        }
      }
      for (size_t i = 0; i < items.size(); ++i) {
        Append(list, Int(scalar_++));
      }
      return Tuple(Text("scalars"), std::move(list));
    }
    return Tuple(Text("value"), Plain(value, kind));
  }

 private:
  static bool IsNumber(const c10::IValue& value) {
    return value.isDouble() || value.isInt() || value.isBool();
  }

  PyRef Tensor(const at::Tensor& tensor, bool in_list) {
    if (!tensor.defined()) {
      return in_list ? None() : Tuple(Text("value"), None());
    }
    if (!IsNeuron(tensor)) {
      return Tuple(Text("cpu"), Int(scalar_++));
    }
    return in_list ? Int(tensor_++) : Tuple(Text("tensor"), Int(tensor_++));
  }

  int64_t tensor_ = 0, scalar_ = 0;
};

PyRef OutTuple(const OutSpec& spec) {
  switch (spec.kind) {
    case OutSpec::Kind::kArg:
      return Tuple(Text("arg"), Int(spec.arg));
    case OutSpec::Kind::kNone:
      return Tuple(Text("none"));
    case OutSpec::Kind::kInt:
      return Tuple(Text("int"), Int(spec.number));
    case OutSpec::Kind::kNew:
      break;
  }
  return Tuple(Text("new"), Int(static_cast<int64_t>(ToRing(spec.dtype))), Ints(spec.sizes),
               Ints(spec.strides));
}

PyRef Outputs(const Reference& reference) {
  if (!reference.ran) {
    return None();
  }
  PyRef outputs = List();
  for (const ReturnSpec& spec : reference.returns) {
    if (!spec.is_list) {
      Append(outputs, OutTuple(spec.items[0]));
      continue;
    }
    PyRef list = List();
    for (const OutSpec& item : spec.items) {
      Append(list, OutTuple(item));
    }
    Append(outputs, std::move(list));
  }
  return outputs;
}

PyRef Settings() {
  const auto& context = at::globalContext();
  PyRef settings = Checked(PyDict_New());
  Put(settings, "float64", Text(Runtime::Get().native_float64() ? "native" : "float32"));
  Put(settings, "deterministic", Bool(context.deterministicAlgorithms()));
  static constexpr const char* kPrecisions[] = {"highest", "high", "medium"};
  Put(settings, "precision",
      Text(kPrecisions[static_cast<size_t>(context.float32MatmulPrecision()) % 3]));
  Put(settings, "default_dtype", TorchAttribute(DtypeName(c10::get_default_dtype_as_scalartype())));
  return settings;
}

PyRef Request(const OpInfo& info, const Call& call, const std::vector<int32_t>& statics,
              uint64_t graph, const torch::jit::Stack& stack, const Reference& reference) {
  PyRef request = Checked(PyDict_New());
  Put(request, "op", Text(info.is_graph ? "neuron::graph" : info.name));
  if (info.is_graph) {
    Put(request, "graph", Int(static_cast<int64_t>(graph)));
  }
  PyRef buffers = List();
  for (const Buffer* buffer : call.slots) {
    Append(buffers, Tuple(Int(static_cast<int64_t>(buffer->dtype)),
                          Int(static_cast<int64_t>(buffer->elements))));
  }
  Put(request, "buffers", std::move(buffers));
  PyRef tensors = List();
  for (const TensorArg& arg : call.tensors) {
    const at::Tensor& tensor = *arg.tensor;
    Append(tensors, Tuple(Int(arg.slot), Int(static_cast<int64_t>(ToRing(tensor.scalar_type()))),
                          Ints(tensor.sizes()), Ints(tensor.strides()), Bool(arg.whole),
                          Bool(tensor.is_conj()), Bool(tensor.is_neg()), Bool(false)));
  }
  Put(request, "tensors", std::move(tensors));
  PyRef args = List();
  Describer describer;
  const size_t first = stack.size() - info.args.size();
  for (size_t i = info.is_graph ? 1 : 0; i < info.args.size(); ++i) {
    Append(args, describer.Argument(stack[first + i], info.args[i]));
  }
  Put(request, "args", std::move(args));
  PyRef scalars = List();
  for (size_t i = 0; i < call.scalars.size(); ++i) {
    const HostScalar& scalar = call.scalars[i];
    const bool fixed =
        std::find(statics.begin(), statics.end(), static_cast<int32_t>(i)) != statics.end();
    Append(scalars, Tuple(Int(static_cast<int64_t>(ToRing(scalar.dtype))), Bool(scalar.wrapped),
                          Number(scalar.Value()), Bool(fixed)));
  }
  Put(request, "scalars", std::move(scalars));
  Put(request, "outputs", Outputs(reference));
  Put(request, "settings", Settings());
  return request;
}

// Borrowed reference; throws when the answer lacks it.
PyObject* Field(PyObject* dict, const char* name) {
  PyObject* value = PyDict_GetItemString(dict, name);
  if (value == nullptr) {
    PyErr_Format(PyExc_KeyError, "the tracer's answer has no '%s'", name);
    throw PythonFailed();
  }
  return value;
}

int64_t AsInt(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    throw PythonFailed();
  }
  return value;
}

std::vector<int64_t> AsInts(PyObject* object) {
  PyRef items = Checked(PySequence_Fast(object, "expected a sequence of ints"));
  std::vector<int64_t> values;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    values.push_back(AsInt(PySequence_Fast_GET_ITEM(items.get(), i)));
  }
  return values;
}

OutSpec AsOut(PyObject* tuple, const Call& call) {
  OutSpec spec;
  const char* kind = PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0
                         ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0))
                         : nullptr;
  if (kind == nullptr) {
    PyErr_SetString(PyExc_TypeError, "an output of the tracer is not a tuple");
    throw PythonFailed();
  }
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  if (std::string_view(kind) == "arg" && size == 2) {
    spec.kind = OutSpec::Kind::kArg;
    spec.arg = static_cast<int32_t>(AsInt(PyTuple_GET_ITEM(tuple, 1)));
    if (spec.arg < 0 || static_cast<size_t>(spec.arg) >= call.tensors.size()) {
      PyErr_SetString(PyExc_IndexError,
                      "an output of the tracer names an argument that does not exist");
      throw PythonFailed();
    }
  } else if (std::string_view(kind) == "new" && size == 4) {
    spec.kind = OutSpec::Kind::kNew;
    spec.dtype = ToTorch(static_cast<ring::DType>(AsInt(PyTuple_GET_ITEM(tuple, 1)) & 0xff));
    spec.sizes = AsInts(PyTuple_GET_ITEM(tuple, 2));
    spec.strides = AsInts(PyTuple_GET_ITEM(tuple, 3));
  } else if (std::string_view(kind) == "int" && size == 2) {
    spec.kind = OutSpec::Kind::kInt;
    spec.number = AsInt(PyTuple_GET_ITEM(tuple, 1));
  }
  return spec;
}

std::vector<ReturnSpec> AsReturns(PyObject* list, const Call& call, bool one_list) {
  PyRef items = Checked(PySequence_Fast(list, "outputs of the tracer"));
  std::vector<ReturnSpec> returns;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    ReturnSpec spec;
    if (PyList_Check(item)) {
      spec.is_list = true;
      for (Py_ssize_t j = 0; j < PyList_GET_SIZE(item); ++j) {
        spec.items.push_back(AsOut(PyList_GET_ITEM(item, j), call));
      }
    } else {
      spec.items.push_back(AsOut(item, call));
    }
    returns.push_back(std::move(spec));
  }
  if (one_list && !(returns.size() == 1 && returns[0].is_list)) {
    // A graph returns one list; its outputs may be given flat.
    ReturnSpec all;
    all.is_list = true;
    for (ReturnSpec& spec : returns) {
      all.items.insert(all.items.end(), spec.items.begin(), spec.items.end());
    }
    returns.assign(1, std::move(all));
  }
  return returns;
}

TraceAnswer Parse(const OpInfo& info, const Call& call, PyObject* dict) {
  TraceAnswer answer;
  const std::string status = PyText(Field(dict, "status"));
  if (status != "ok") {
    answer.status =
        status == "dynamic" ? TraceAnswer::Status::kDynamic : TraceAnswer::Status::kRefused;
    PyObject* reason = PyDict_GetItemString(dict, "reason");
    answer.reason = reason == nullptr ? status : PyText(reason);
    PyObject* passing = PyDict_GetItemString(dict, "passing");
    answer.lasting = passing == nullptr || PyObject_IsTrue(passing) == 0;
    return answer;
  }
  answer.status = TraceAnswer::Status::kOk;
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(Field(dict, "program"), &bytes, &size) != 0) {
    throw PythonFailed();
  }
  answer.program.assign(bytes, static_cast<size_t>(size));
  answer.returns = AsReturns(Field(dict, "outputs"), call, info.is_graph);
  for (const int64_t index : AsInts(Field(dict, "static"))) {
    answer.statics.push_back(static_cast<int32_t>(index));
  }
  answer.offsets = static_cast<uint64_t>(AsInt(Field(dict, "offsets")));
  return answer;
}

void TakePythonError(TraceAnswer* raised) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyRef hold_type(type), hold_value(value), hold_trace(trace);
  if (type == nullptr) {
    raised->reason = "an argument that cannot be described";
    return;
  }
  PyRef name(PyObject_GetAttrString(type, "__name__"));
  raised->error_type = PyText(name.get());
  raised->reason = PyText(value);
}

}  // namespace

void SetTracer(PyObject* function) {
  Py_XINCREF(function);
  std::swap(tracer, function);
  Py_XDECREF(function);
}

TraceAnswer Trace(const OpInfo& info, const Call& call, const std::vector<int32_t>& statics,
                  uint64_t graph, const torch::jit::Stack& stack, const Reference& reference) {
  GilGuard gil;
  TraceAnswer raised;
  raised.status = TraceAnswer::Status::kRaised;
  if (!gil.held() || tracer == nullptr) {
    raised.reason = "no tracer";
    return raised;
  }
  try {
    PyRef request = Request(info, call, statics, graph, stack, reference);
    PyRef answer = Checked(
        StayAtEnd([&] { return PyObject_CallFunctionObjArgs(tracer, request.get(), nullptr); }));
    return Parse(info, call, answer.get());
  } catch (const PythonFailed&) {
    // Ctrl-C and exit() are not about the op.
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0) {
      ThrowPythonError();
    }
    TakePythonError(&raised);
  }
  return raised;
}

}  // namespace neurond::shim
