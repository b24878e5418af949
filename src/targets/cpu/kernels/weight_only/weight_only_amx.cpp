// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_amx.h"

#include "targets/cpu/kernels/weight_only/weight_only_kernel.h"

namespace lathe::cpu {
namespace {

constexpr WeightOnlyTable make_amx_table() {
  WeightOnlyTable table = make_table(kWeightOnlyGemvAvx512Vnni);
  table.packed_gemm = table.minimums_gemm = {};
  table.unpack = {&unpack_signed<2>, &unpack_signed<3>, &unpack_signed<4>, &unpack_signed<8>};
  table.gemm = &multiply_amx;
  table.task_panels = 4;
  table.chunk = 512;
  table.signed_codes = true;
  table.begin = &begin_tiles;
  table.end = &end_tiles;
  return table;
}

}  // namespace

constinit const WeightOnlyTable kWeightOnlyAmx = make_amx_table();

}  // namespace lathe::cpu
