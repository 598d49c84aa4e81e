#pragma once
#include <span>

#include "kernels/cpu/thread_team.h"
#include "kernels/ops.h"

namespace specdec::cpu {

// The operations of the same names in Backend. The caller has checked the shapes.

void rms_norm(ThreadTeam& team, ConstDeviceRows x,                         // [T, E]
              const float* weight,                                         // [E]
              float eps, DeviceRows out);                                  // [T, E]
void add(ThreadTeam& team, DeviceRows x, ConstDeviceRows y);               // [T, E] both
void silu_mul(ThreadTeam& team, ConstDeviceRows gate, ConstDeviceRows up,  // [T, F]
              DeviceRows out);                                             // [T, F]
void rope(ThreadTeam& team, DeviceRows x,                                  // [T, heads * D]
          ConstDeviceRows cosines, ConstDeviceRows sines);                 // [T, D / 2]
void argmax(ThreadTeam& team, ConstDeviceRows x,                           // [T, V]
            std::span<std::int32_t> ids);                                  // [T]

}  // namespace specdec::cpu
