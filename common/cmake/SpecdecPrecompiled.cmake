# Precompiles headers that many files include: the standard library, fmt and, for tests, GoogleTest.
# Headers of ours are not among them, since the course's proofs compile single files outside the build
# with other versions of our headers. Only with g++, whose precompiled headers can be shared among
# targets whose definitions differ.
set(SPECDEC_PRECOMPILED <algorithm> <array> <charconv> <cmath> <cstdint> <cstdio> <cstdlib> <cstring>
    <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span>
    <sstream> <stdexcept> <string> <string_view> <unordered_map> <utility> <variant> <vector>
    <fmt/format.h> <fmt/ranges.h>)

# The owner of a precompiled header: specdec_precompile(target header...).
function(specdec_precompile target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Targets that use it; they must have the same compiler options.
function(specdec_use_precompiled owner)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    endforeach()
  endif()
endfunction()
