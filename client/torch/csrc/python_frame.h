// This thread's Python frames, read without the GIL. The only file that knows the interpreter's
// internal layouts.
//
// Thread-safety: reads the calling thread's own frames only.

#ifndef NEUROND_CLIENT_TORCH_CSRC_PYTHON_FRAME_H_
#define NEUROND_CLIENT_TORCH_CSRC_PYTHON_FRAME_H_

#include <cstdint>

namespace neurond::shim {

// An opaque frame; nullptr ends the chain.
struct PythonFrame;

PythonFrame* InnermostFrame();
PythonFrame* OuterFrame(PythonFrame* frame);
// The frame's code object (borrowed; nullptr for a frame without one) and the byte offset of its
// current instruction.
void* FrameCode(PythonFrame* frame, uint32_t* instruction);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_PYTHON_FRAME_H_
