"""Ops that stay whole in traces, since the lowering (runtime/lowering) has them.

One op there is faster, more exact or has a check that its decomposition lacks. An op of core
ATen that torch's core table leaves alone need not be listed. What is listed here and not
lowered would be refused: tests/torch/test_trace_lowering.py compares.
"""

# Overloads of `aten`, sorted.
KEPT = """
_batch_norm_with_update_functional.default _fused_rms_norm.default
_fused_rms_norm_backward.default _log_softmax.default _log_softmax_backward_data.default
_native_batch_norm_legit_functional.default _native_batch_norm_legit_no_training.default
_prelu_kernel.default _reshape_alias.default
_scaled_dot_product_fused_attention_overrideable.default
_scaled_dot_product_fused_attention_overrideable_backward.default _softmax.default
_softmax_backward_data.default _unsafe_index.Tensor _unsafe_index_put.default
_unsafe_view.default addcdiv.default addcmul.default addmv.default addr.default all.default
all.dim all.dims aminmax.default as_strided_copy.default as_strided_scatter.default
baddbmm.default batch_norm_backward.default binary_cross_entropy.default
binary_cross_entropy_backward.default bitwise_and.Scalar_Tensor bitwise_left_shift.Scalar_Tensor
bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_or.Scalar_Tensor
bitwise_right_shift.Scalar_Tensor bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar
bitwise_xor.Scalar_Tensor bucketize.Scalar bucketize.Tensor clamp_max.Tensor clamp_max.default
clamp_min.Tensor clamp_min.default complex.default convolution.default
convolution_backward.default copysign.Scalar copysign.Tensor count_nonzero.default
count_nonzero.dim_IntList cumprod.default diagonal_copy.default diagonal_scatter.default
digamma.default dot.default elu_backward.default embedding.default
embedding_dense_backward.default erfc.default erfinv.default exp2.default expand_copy.default
eye.default eye.m fill.Scalar fill.Tensor float_power.Scalar float_power.Tensor_Scalar
float_power.Tensor_Tensor floor_divide.Scalar floor_divide.default fmax.default fmin.default
frac.default gelu_backward.default glu.default glu_backward.default hardshrink.default
hardsigmoid.default hardsigmoid_backward.default hardswish.default hardswish_backward.default
hardtanh_backward.default heaviside.default huber_loss.default huber_loss_backward.default
hypot.default index_add.default index_copy.default index_fill.int_Scalar index_fill.int_Tensor
isfinite.default isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor isneginf.default
isposinf.default leaky_relu_backward.default lerp.Scalar lerp.Tensor lgamma.default
linalg_vector_norm.default linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor
linspace.default log_sigmoid_backward.default log_sigmoid_forward.default logaddexp.default
logaddexp2.default logit.default logsumexp.default masked_fill.Scalar masked_fill.Tensor
max_pool2d_with_indices.default max_pool2d_with_indices_backward.default mish.default
mish_backward.default mse_loss.default mse_loss_backward.default mv.default nan_to_num.default
nansum.default native_batch_norm_backward.default native_dropout_backward.default
native_group_norm_backward.default native_layer_norm.default native_layer_norm_backward.default
new_full.default new_ones.default new_zeros.default nextafter.default
nll_loss2d_backward.default nll_loss2d_forward.default nll_loss_backward.default
nll_loss_forward.default norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype
norm.ScalarOpt_dtype ones.default ones_like.default permute_copy.default pixel_shuffle.default
pixel_unshuffle.default prelu.default reflection_pad1d.default reflection_pad2d.default
reflection_pad3d.default relu6.default remainder.Scalar_Tensor replication_pad1d.default
replication_pad2d.default replication_pad3d.default rms_norm.default roll.default round.decimals
rsub.Scalar rsub.Tensor select_scatter.default sgn.default sigmoid_backward.default
signbit.default silu.default silu_backward.default sinc.default smooth_l1_loss.default
smooth_l1_loss_backward.default softplus.default softplus_backward.default softshrink.default
split.Tensor squeeze.default squeeze.dim squeeze_copy.dims stack.default std.correction
std_mean.correction sum.default t.default take.default tanh_backward.default threshold.default
threshold_backward.default trace.default transpose.int tril.default triu.default unbind.int
unfold.default unfold_backward.default unfold_copy.default unsqueeze_copy.default
var_mean.correction vdot.default view_copy.default view_copy.dtype where.Scalar
where.ScalarOther where.ScalarSelf xlogy.Scalar_Other xlogy.Scalar_Self xlogy.Tensor
zeros.default zeros_like.default
""".split()
