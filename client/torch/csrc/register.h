// What each file of the shim registers with torch; called once, in this order, when the extension
// module is loaded. Explicit calls, not static initialisers: the order is visible and a failure is
// an exception of `import`.

#ifndef NEUROND_CLIENT_TORCH_CSRC_REGISTER_H_
#define NEUROND_CLIENT_TORCH_CSRC_REGISTER_H_

namespace neurond::shim {

void RegisterGuardAndHooks();
void RegisterAllocator();
void RegisterHostAllocator();
void RegisterFactories();
void RegisterCopies();
void RegisterExplicitOps();
void RegisterRnnCells();
void RegisterGraphOp();
void RegisterAutocast();
void RegisterBoxedOps();  // last: takes every op that has no kernel yet

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_REGISTER_H_
