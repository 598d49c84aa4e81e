# Compiles single targets with clang++, whatever compiles the rest. Sets SPECDEC_CLANG_TSAN: whether
# clang++ and its ThreadSanitizer are available.
find_program(SPECDEC_CLANG NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15
                                 clang++-14)
mark_as_advanced(SPECDEC_CLANG)
set(SPECDEC_CLANG_TSAN OFF)
if(SPECDEC_CLANG)
  set(probe ${PROJECT_BINARY_DIR}/CMakeFiles/clang_probe)
  file(WRITE ${probe}.cpp "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n")
  execute_process(COMMAND ${SPECDEC_CLANG} -fsanitize=thread ${probe}.cpp -o ${probe}
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(SPECDEC_CLANG_TSAN ON)
  endif()
endif()

# A compiler launcher gets the whole command line; this one replaces the compiler with clang++.
function(specdec_compile_with_clang target)
  set_target_properties(${target} PROPERTIES
    CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/common/cmake/in_place_of;${SPECDEC_CLANG}"
    CXX_LINKER_LAUNCHER "${PROJECT_SOURCE_DIR}/common/cmake/in_place_of;${SPECDEC_CLANG}")
endfunction()
