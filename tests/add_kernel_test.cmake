# specdec_add_emulated_test(NAME name SOURCES file... [LIBRARIES target...] [TSAN_FILTER pattern]
#                           [KERNELS])
#
# A test of code that the emulation runs, in four ways:
#   name_emulated           each case a ctest of its own, threads in forward order
# and, in the tier `kernels` (`make test-kernels`),
#   name_emulated.reverse   all cases in one ctest, the other orders
#   name_emulated.random
#   name_emulated_asan      under AddressSanitizer and UndefinedBehaviorSanitizer
#   name_emulated_tsan      under ThreadSanitizer, by clang++; TSAN_FILTER says which cases, as
#                           --gtest_filter does (a block takes milliseconds there); with
#                           SPECDEC_FULL=1 all of them
# In a build that is sanitized as a whole, there is just the first. KERNELS: with kernels/cuda.
function(specdec_add_emulated_test)
  if(NOT SPECDEC_EMULATION)
    return()
  endif()
  cmake_parse_arguments(TEST "KERNELS" "NAME;TSAN_FILTER" "SOURCES;LIBRARIES" ${ARGN})
  specdec_time_budget(unit budget)
  math(EXPR budget "${budget} * 6")
  set(name ${TEST_NAME}_emulated)
  specdec_add_test(NAME ${name} OPTIMIZED SOURCES ${TEST_SOURCES} LABELS unit emulated
                   LIBRARIES specdec_emulation ${TEST_LIBRARIES})
  target_compile_definitions(${name} PRIVATE SPECDEC_EMULATED)
  if(SPECDEC_SANITIZE)
    return()
  endif()
  add_dependencies(kernel_tests ${name})
  foreach(order reverse random)
    add_test(NAME ${name}.${order} COMMAND ${name})
    set_tests_properties(${name}.${order} PROPERTIES LABELS "unit;emulated;kernels" TIMEOUT ${budget}
                         ENVIRONMENT SPECDEC_THREAD_ORDER=${order})
  endforeach()
  foreach(sanitizer asan tsan)
    set(test ${name}_${sanitizer})
    if(sanitizer STREQUAL tsan AND NOT SPECDEC_CLANG_TSAN)
      add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "NOT CHECKED: no clang++ with ThreadSanitizer")
      set_tests_properties(${test} PROPERTIES LABELS "unit;emulated;kernels"
                           SKIP_REGULAR_EXPRESSION "NOT CHECKED")
      continue()
    endif()
    add_executable(${test} ${TEST_SOURCES})
    add_dependencies(kernel_tests ${test})
    target_compile_definitions(${test} PRIVATE SPECDEC_EMULATED)
    target_link_libraries(${test} PRIVATE specdec_emulation_${sanitizer})
    if(TEST_KERNELS)
      target_link_libraries(${test} PRIVATE specdec_emulated_${sanitizer})
    endif()
    target_link_libraries(${test} PRIVATE specdec_test_support ${TEST_LIBRARIES})
    set_target_properties(${test} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
    add_test(NAME ${test} COMMAND ${PROJECT_SOURCE_DIR}/tests/run_sample $<TARGET_FILE:${test}>)
    set_tests_properties(${test} PROPERTIES LABELS "unit;emulated;kernels" TIMEOUT ${budget})
  endforeach()
  if(SPECDEC_CLANG_TSAN)
    specdec_compile_with_clang(${name}_tsan)
    if(TEST_TSAN_FILTER)
      set_tests_properties(${name}_tsan PROPERTIES TIMEOUT 14400
                           ENVIRONMENT "SPECDEC_SAMPLE=${TEST_TSAN_FILTER}")
    endif()
  endif()
endfunction()

# specdec_add_kernel_test(name source... [LIBRARIES target...] [TSAN_FILTER pattern])
#
# A test of the kernels, built from the same sources for the emulation and, with nvcc, for the GPU
# (name_gpu, skipped where there is none).
function(specdec_add_kernel_test name)
  cmake_parse_arguments(TEST "" "TSAN_FILTER" "LIBRARIES" ${ARGN})
  specdec_add_emulated_test(NAME ${name} KERNELS SOURCES ${TEST_UNPARSED_ARGUMENTS}
                            LIBRARIES ${TEST_LIBRARIES} TSAN_FILTER "${TEST_TSAN_FILTER}")
  if(SPECDEC_HAVE_CUDA)
    specdec_add_test(NAME ${name}_gpu OPTIMIZED SOURCES ${TEST_UNPARSED_ARGUMENTS} LABELS unit cuda
                     LIBRARIES CUDA::cudart_static ${TEST_LIBRARIES})
    add_dependencies(gpu_tests ${name}_gpu)
  endif()
endfunction()
