// The op families: each function adds its ops to the table. One file per family.

#ifndef NEUROND_RUNTIME_LOWERING_FAMILIES_H_
#define NEUROND_RUNTIME_LOWERING_FAMILIES_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

void RegisterUnary(OpTable& table);
void RegisterBinary(OpTable& table);
void RegisterCompare(OpTable& table);
void RegisterShape(OpTable& table);
void RegisterPadding(OpTable& table);
void RegisterReinterpret(OpTable& table);
void RegisterEmbedding(OpTable& table);
void RegisterCreate(OpTable& table);
void RegisterReduce(OpTable& table);
void RegisterActivation(OpTable& table);
void RegisterSoftmax(OpTable& table);
void RegisterNorm(OpTable& table);
void RegisterBatchNorm(OpTable& table);
void RegisterLoss(OpTable& table);
void RegisterSymbolic(OpTable& table);
void RegisterRandom(OpTable& table);
void RegisterAttention(OpTable& table);
void RegisterConv(OpTable& table);
void RegisterPool(OpTable& table);
void RegisterIndex(OpTable& table);
void RegisterMask(OpTable& table);
void RegisterScan(OpTable& table);
void RegisterSort(OpTable& table);
void RegisterMatmul(OpTable& table);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_FAMILIES_H_
