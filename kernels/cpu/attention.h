#pragma once
#include "kernels/cpu/thread_team.h"
#include "kernels/ops.h"

namespace specdec::cpu {

// Backend::attention. q, out: [T, H * D].
void attention(ThreadTeam& team, ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out);

}  // namespace specdec::cpu
