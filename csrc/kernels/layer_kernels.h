// Kernels of norm, rotation, activation and attention. Included once per instruction set.
#pragma once

#include "../kernel_table.h"
#include "attention.h"
#include "kv_store.h"
#include "norm.h"
#include "rope.h"
#include "swiglu.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

void set_layer_kernels(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.swiglu = swiglu;
  table.store_kv = store_kv;
  table.attend = attend;
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
