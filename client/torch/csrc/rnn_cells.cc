// The fused LSTM and GRU cells that torch selects for this device type, as ordinary ops.

#include <ATen/ATen.h>
#include <torch/library.h>

#include "client/torch/csrc/register.h"

namespace neurond::shim {
namespace {

// Without a write in place, which a compiled graph could not hold.
at::Tensor OneMinus(const at::Tensor& x) { return at::rsub(x, 1); }

// The workspace keeps the activated gates.
std::tuple<at::Tensor, at::Tensor, at::Tensor> LstmCell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  at::Tensor gates = input_gates + hidden_gates;
  if (input_bias.has_value() && input_bias->defined()) {
    gates = gates + *input_bias;
  }
  if (hidden_bias.has_value() && hidden_bias->defined()) {
    gates = gates + *hidden_bias;
  }
  const auto parts = at::chunk(gates, 4, 1);
  const at::Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]);
  const at::Tensor candidate = at::tanh(parts[2]), out = at::sigmoid(parts[3]);
  const at::Tensor next_cell = forget * cell + in * candidate;
  return {out * at::tanh(next_cell), next_cell, at::cat({in, forget, candidate, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> LstmCellBackward(
    const std::optional<at::Tensor>& grad_hidden, const std::optional<at::Tensor>& grad_cell,
    const at::Tensor& cell, const at::Tensor& next_cell, const at::Tensor& workspace,
    bool has_bias) {
  if (!(grad_hidden.has_value() && grad_hidden->defined()) &&
      !(grad_cell.has_value() && grad_cell->defined())) {
    return {};
  }
  const auto parts = at::chunk(workspace, 4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &candidate = parts[2], &out = parts[3];
  const at::Tensor squashed = at::tanh(next_cell);
  at::Tensor through =
      grad_cell.has_value() && grad_cell->defined() ? *grad_cell : at::zeros_like(next_cell);
  at::Tensor grad_out = at::zeros_like(out);
  if (grad_hidden.has_value() && grad_hidden->defined()) {
    through = through + *grad_hidden * out * OneMinus(squashed * squashed);
    grad_out = *grad_hidden * squashed * out * OneMinus(out);
  }
  const at::Tensor gates =
      at::cat({through * candidate * in * OneMinus(in), through * cell * forget * OneMinus(forget),
               through * in * OneMinus(candidate * candidate), grad_out},
              1);
  return {gates, through * forget, has_bias ? gates.sum(0) : at::Tensor()};
}

// Workspace: reset, update and new gates, the old hidden state, and the hidden part of the new
// gate, as CUDA keeps them.
std::tuple<at::Tensor, at::Tensor> GruCell(const at::Tensor& input_gates,
                                           const at::Tensor& hidden_gates, const at::Tensor& hidden,
                                           const std::optional<at::Tensor>& input_bias,
                                           const std::optional<at::Tensor>& hidden_bias) {
  const bool biased = input_bias.has_value() && input_bias->defined();
  const auto from_input = at::chunk(biased ? input_gates + *input_bias : input_gates, 3, 1);
  const auto from_hidden = at::chunk(biased ? hidden_gates + *hidden_bias : hidden_gates, 3, 1);
  const at::Tensor reset = at::sigmoid(from_input[0] + from_hidden[0]);
  const at::Tensor update = at::sigmoid(from_input[1] + from_hidden[1]);
  const at::Tensor fresh = at::tanh(from_input[2] + reset * from_hidden[2]);
  return {fresh + update * (hidden - fresh),
          at::cat({reset, update, fresh, hidden, from_hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> GruCellBackward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  const auto parts = at::chunk(workspace, 5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hidden = parts[3],
                   &inner = parts[4];
  const at::Tensor grad_update = grad * (hidden - fresh) * update * OneMinus(update);
  const at::Tensor grad_fresh = grad * OneMinus(update) * OneMinus(fresh * fresh);
  const at::Tensor grad_reset = grad_fresh * inner * reset * OneMinus(reset);
  const at::Tensor to_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const at::Tensor to_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {to_input, to_hidden, grad * update, has_bias ? to_input.sum(0) : at::Tensor(),
          has_bias ? to_hidden.sum(0) : at::Tensor()};
}

}  // namespace

void RegisterRnnCells() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("_thnn_fused_lstm_cell", TORCH_FN(LstmCell));
  library->impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(LstmCellBackward));
  library->impl("_thnn_fused_gru_cell", TORCH_FN(GruCell));
  library->impl("_thnn_fused_gru_cell_backward", TORCH_FN(GruCellBackward));
}

}  // namespace neurond::shim
