"""Functional twins: what an in-place or `out=` op computes, and which argument gets it.

Most twins follow from the schema (`add_.Tensor` and `add.out` are `add.Tensor`); the rest are
written here, also for ops that write without saying so (`native_batch_norm`). A twin calls
functional ops only and tells `write(target, value)` what becomes of each written argument; the
value is cast and broadcast to the target afterwards.
"""

import functools

import torch

from .errors import Refused
from .optimizers import foreach
from .twin_table import BY_HAND, as_like, full, twin

aten = torch.ops.aten
prims = torch.ops.prims

_FACTORY_ARGS = ("dtype", "layout", "device", "pin_memory")
# out= variants that compute in the out argument's dtype when none is given.
_OUT_DTYPE = {
    "sum",
    "prod",
    "mean",
    "nansum",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "linalg_vector_norm",
    "softmax",
}


def run(func, args, kwargs, write, mode=None):
    """Calls the functional form of `func`; returns what `func` returns, written arguments as
    themselves.
    """
    name = func._schema.name.removeprefix("aten::")
    overload = f"{name}.{func._schema.overload_name}"

    def call():
        hand = BY_HAND.get(overload) or BY_HAND.get(name)
        if hand is not None:
            return hand(write, *args, **kwargs)
        if name.startswith("_foreach_"):
            return foreach(name, func, args, kwargs, write)
        if not func._schema.is_mutable:
            return func(*args, **kwargs)
        return _by_schema(func, args, kwargs, write)

    if mode is None:
        return call()
    with mode:
        return call()


# ---- by schema ----------------------------------------------------------------------------------


def _is_write(arg) -> bool:
    return arg.alias_info is not None and arg.alias_info.is_write


def _signature(schema, skip=()):
    return [(a.name, str(a.type)) for a in schema.arguments if not a.is_out and a.name not in skip]


@functools.cache
def functional_twin(func):
    """(twin, is a factory) of a mutable overload; Refused if torch has none."""
    schema = func._schema
    name = schema.name.split("::")[1]
    is_out = any(a.is_out for a in schema.arguments)
    base = name if is_out else name[:-1] if name.endswith("_") else name + "_functional"
    packet = getattr(getattr(torch.ops, func.namespace), base, None)
    if packet is None:
        raise Refused(f"{func}: no functional form")
    wanted = _signature(schema)
    overloads = sorted(packet.overloads(), key=lambda o: o != schema.overload_name)
    for skip in ((), _FACTORY_ARGS):
        for overload in overloads:
            twin = getattr(packet, overload)
            if not twin._schema.is_mutable and _signature(twin._schema, skip) == wanted:
                return twin, bool(skip) and any(a.name in skip for a in twin._schema.arguments)
    raise Refused(f"{func}: no functional form")


def _bound(func, args, kwargs) -> dict:
    values = {a.name: v for a, v in zip(func._schema.arguments, args)}
    values.update(kwargs)
    return values


def _by_schema(func, args, kwargs, write):
    twin, factory = functional_twin(func)
    values = _bound(func, args, kwargs)
    targets = [values.get(a.name) for a in func._schema.arguments if _is_write(a)]
    call_args, call_kwargs = [], {}
    for spec in twin._schema.arguments:
        if spec.name in values and not (factory and spec.name in _FACTORY_ARGS):
            value = values[spec.name]
        elif spec.name in ("dtype", "device") and factory:
            value = getattr(targets[0], spec.name)
        else:
            continue
        if spec.kwarg_only:
            call_kwargs[spec.name] = value
        else:
            call_args.append(value)
    if "out" in values and func._schema.name.removeprefix("aten::") in _OUT_DTYPE:
        if call_kwargs.get("dtype") is None and any(
            a.name == "dtype" for a in twin._schema.arguments
        ):
            call_kwargs["dtype"] = targets[0].dtype
    out = twin(*call_args, **call_kwargs)
    results = list(out) if isinstance(out, (list, tuple)) else [out]
    fresh = [r for r in func._schema.returns if r.alias_info is None]
    for target, value in zip(targets, results[len(fresh) :]):
        if target is None:
            continue
        for t, v in zip(target, value) if isinstance(target, (list, tuple)) else [(target, value)]:
            write(t, v)
    return _returns(func, values, results[: len(fresh)])


def _returns(func, values, fresh):
    fresh = iter(fresh)
    out = []
    for spec in func._schema.returns:
        if spec.alias_info is None:
            out.append(next(fresh))
            continue
        names = [a.name for a in func._schema.arguments if _is_write(a)]
        same = [n for n in names if _alias_set(func, n) & set(spec.alias_info.before_set)]
        out.append(values.get(same[0]) if same else None)
    if not out:
        return ()
    return out[0] if len(out) == 1 else tuple(out)


def _alias_set(func, name):
    spec = next(a for a in func._schema.arguments if a.name == name)
    return set(spec.alias_info.before_set)


# ---- by hand ------------------------------------------------------------------------------------


@twin("fill_.Scalar")
def _(write, self, value):
    write(self, full(self, value))
    return self


@twin("fill_.Tensor")
def _(write, self, value):
    write(self, as_like(value, self) if isinstance(value, torch.Tensor) else full(self, value))
    return self


@twin("zero_")
def _(write, self):
    write(self, full(self, 0))
    return self


@twin("copy_")
def _(write, self, src, non_blocking=False):
    write(self, as_like(src, self))
    return self


@twin("_copy_from", "_copy_from_and_resize")
def _(write, self, dst, non_blocking=False):
    write(dst, as_like(self, dst))
    return dst


@twin("arange.out")
def _(write, end, *, out):
    write(out, aten.arange.start_step(0, end, 1, dtype=out.dtype, device=out.device))
    return out


@twin("arange.start_out", "range.out")
def _(write, start, end, step=1, *, out):
    values = aten.arange.start_step(start, end, step, dtype=out.dtype, device=out.device)
    if values.shape != out.shape:  # range includes its end
        values = aten.arange.start_step(start, end + step, step, dtype=out.dtype, device=out.device)
    write(out, values)
    return out


@twin("eye.out")
def _(write, n, *, out):
    write(out, aten.eye.default(n, dtype=out.dtype, device=out.device))
    return out


@twin("eye.m_out")
def _(write, n, m, *, out):
    write(out, aten.eye.m(n, m, dtype=out.dtype, device=out.device))
    return out


@twin("randperm.out", "randperm.generator_out")
def _(write, n, generator=None, *, out):
    write(out, aten.randperm.default(n, dtype=out.dtype, device=out.device))
    return out


@twin("bernoulli_.float")
def _(write, self, p=0.5, *, generator=None):
    write(self, aten.bernoulli.p(self, p))
    return self


@twin("normal_")
def _(write, self, mean=0.0, std=1.0, *, generator=None):
    write(self, aten.normal_functional.default(self, mean, std))
    return self


@twin("__ilshift__")
def _(write, self, other):
    write(self, torch.bitwise_left_shift(self, other))
    return self


@twin("__irshift__")
def _(write, self, other):
    write(self, torch.bitwise_right_shift(self, other))
    return self


@twin("_index_put_impl_")
def _(write, self, indices, values, accumulate=False, unsafe=False):
    write(self, aten.index_put.default(self, indices, values, accumulate))
    return self


def _running(write, op, self, values, indices, dim):
    best, at = op(self, dim)
    write(values, best)
    write(indices, at)
    return ()


@twin("_cummax_helper")
def _(write, *args):
    return _running(write, aten.cummax.default, *args)


@twin("_cummin_helper")
def _(write, *args):
    return _running(write, aten.cummin.default, *args)


@twin("embedding_renorm_")
def _(write, self, indices, max_norm, norm_type):
    flat = aten.reshape.default(indices, [-1])
    rows = aten.index_select.default(self, 0, flat)
    norms = aten.linalg_vector_norm.default(rows, norm_type, [1], True)
    scale = aten.where.self(
        aten.gt.Scalar(norms, max_norm),
        aten.mul.Tensor(aten.reciprocal.default(aten.add.Tensor(norms, 1e-7)), max_norm),
        aten.full.default(list(norms.shape), 1, dtype=norms.dtype, device=norms.device),
    )
    write(self, aten.index_put.default(self, [flat], aten.mul.Tensor(rows, scale)))
    return self


def _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps):
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    out, mean, invstd, new_mean, new_var = aten._native_batch_norm_legit_functional.default(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    write(running_mean, new_mean)
    write(running_var, new_var)
    return out, mean, invstd


def _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps):
    out, _, _ = aten._native_batch_norm_legit_no_training.default(
        x, weight, bias, running_mean, running_var, momentum, eps
    )
    empty = aten.full.default([0], 0, dtype=running_mean.dtype, device=x.device)
    return out, empty, empty


@twin("native_batch_norm", "_native_batch_norm_legit")
def _(write, x, weight, bias, running_mean, running_var, training, momentum, eps):
    if training:
        return _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps)
    return _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps)


@twin("_native_batch_norm_legit.no_stats")
def _(write, x, weight, bias, training, momentum, eps):
    return aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)


@twin("_batch_norm_with_update")
def _(write, x, weight, bias, running_mean, running_var, momentum, eps):
    out = _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps)
    return (*out, aten.full.default([0], 0, dtype=torch.uint8, device=x.device))


@twin("_batch_norm_no_update")
def _(write, x, weight, bias, running_mean, running_var, momentum, eps):
    out = _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps)
    return (*out, aten.full.default([0], 0, dtype=torch.uint8, device=x.device))


@twin("rrelu_with_noise", "rrelu_with_noise_")
def _(write, self, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    out, new_noise = aten.rrelu_with_noise_functional.default(self, noise, lower, upper, training)
    if training:
        write(noise, new_noise)
    return out
