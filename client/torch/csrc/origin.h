// Origin: which line of the user's program submitted a Command.
//
// An origin is a number that names a code object (interned, a reference held for ever, so that its
// address is never reused) and an instruction in it: nothing is stored per submission. The first
// frame outside torch is looked for in this thread's own frames, without the GIL: they cannot
// change while the thread is inside this call. Only a code object seen for the first time takes the
// GIL. In backward there is no frame; the autograd node's sequence number leads to the origin of
// its forward op.
//
// Thread-safety: all functions, from any thread; no lock is held while the GIL is taken.

#ifndef NEUROND_CLIENT_TORCH_CSRC_ORIGIN_H_
#define NEUROND_CLIENT_TORCH_CSRC_ORIGIN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace neurond::shim {

// Frames of files below these folders ("/x/torch/") are never a user's line. Set once, before the
// first submission.
void SetOwnFolders(std::vector<std::string> folders);

// 0: unknown.
uint64_t CurrentOrigin();
// For ops that submit nothing (views): their backward may.
void NoteForwardLine();

// "  File "x.py", line 3, in f\n    y = x[i]"; empty if unknown. Takes the GIL.
std::string OriginText(uint64_t origin);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_ORIGIN_H_
