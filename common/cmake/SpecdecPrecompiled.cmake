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

# Compiles up to eight sources of a target as one, in a third of the time, since what they share is
# parsed and instantiated once. So their names must differ, in nameless namespaces, too. For what is
# around the lessons: a file of a stage, of common or of the kernels is compiled by itself, so that
# an edit costs no more than that file.
function(specdec_compile_together)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()
