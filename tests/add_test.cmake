# [snippet budgets]
# specdec_add_test(NAME name SOURCES file... LABELS label... [LIBRARIES target...] [TIER tier]
#                  [OPTIMIZED])
#
# Adds a GoogleTest program; each of its cases becomes a ctest of its own, so that a skipped case is
# reported as skipped. LABELS: one kind or more, and where the code runs (cpu, cuda or emulated):
#   unit          a function against an oracle                                    10 minutes a case
#   golden        against files that an independent implementation made           20 minutes
#   statistical   a stated false-alarm rate, and a control that must fail         30 minutes
#   bad-input     each kind of wrong input gets its own message                   10 minutes
#   large         writes or maps files of real size; needs free disk space        30 minutes
# The budget is the case's timeout. It ends what hangs, and nothing else: on a quiet machine no case
# takes a twentieth of it. Sanitizers get four times as much.
#   TIER: tests that `make test` leaves out: kernels, proofs, benchmarks or large. The tier is a
# label, too; its programs need not be built where it is not run.
#   OPTIMIZED: the test's own code is optimised as the product is, for tests of kernels. The others
# are compiled in two thirds of the time.
set(SPECDEC_BUDGET_unit 600)
set(SPECDEC_BUDGET_golden 1200)
set(SPECDEC_BUDGET_statistical 1800)
set(SPECDEC_BUDGET_bad-input 600)
set(SPECDEC_BUDGET_large 1800)
set(SPECDEC_PLACES cpu cuda emulated)
# [end snippet budgets]

# The timeout in seconds that the labels ask for; an unknown or missing kind is an error.
function(specdec_time_budget labels result)
  foreach(label IN LISTS labels)
    if(DEFINED SPECDEC_BUDGET_${label})
      set(budget ${SPECDEC_BUDGET_${label}})
    elseif(NOT label IN_LIST SPECDEC_PLACES)
      message(FATAL_ERROR "unknown test label '${label}': see tests/add_test.cmake")
    endif()
  endforeach()
  if(NOT budget)
    message(FATAL_ERROR "the labels '${labels}' name no kind of test: see tests/add_test.cmake")
  endif()
  if(SPECDEC_SANITIZE)
    math(EXPR budget "${budget} * 4")
  endif()
  set(${result} ${budget} PARENT_SCOPE)
endfunction()

# A test program of a tier that is not built is left out, not a failure.
function(specdec_discover_only_if_built target)
  get_property(files DIRECTORY PROPERTY TEST_INCLUDE_FILES)
  list(POP_BACK files labels)
  list(POP_BACK files cases)
  set(guard ${CMAKE_CURRENT_BINARY_DIR}/${target}_if_built.cmake)
  file(GENERATE OUTPUT ${guard} CONTENT
       "if(EXISTS \"$<TARGET_FILE:${target}>\")\n  include(\"${cases}\")\n  include(\"${labels}\")\nendif()\n")
  set_property(DIRECTORY PROPERTY TEST_INCLUDE_FILES ${files} ${guard})
endfunction()

function(specdec_add_test)
  cmake_parse_arguments(TEST "OPTIMIZED" "NAME;TIER" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  specdec_time_budget("${TEST_LABELS}" budget)
  add_executable(${TEST_NAME} ${TEST_SOURCES})
  target_link_libraries(${TEST_NAME} PRIVATE specdec_test_support ${TEST_LIBRARIES})
  specdec_use_precompiled(specdec_test_checkpoints ${TEST_NAME})
  specdec_compile_together(${TEST_NAME})
  if(NOT TEST_OPTIMIZED)
    target_compile_options(${TEST_NAME} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
  set_target_properties(${TEST_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  gtest_discover_tests(${TEST_NAME}
    TEST_PREFIX "${TEST_NAME}."
    TEST_LIST ${TEST_NAME}_CASES
    NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 600
    PROPERTIES TIMEOUT ${budget})
  # gtest_discover_tests passes no lists on, so the labels are set when ctest has found the cases.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${TEST_NAME}_labels.cmake)
  file(WRITE ${labels_file}
       "set_tests_properties(\${${TEST_NAME}_CASES} PROPERTIES LABELS \"${TEST_LABELS};${TEST_TIER}\")\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  if(TEST_TIER)
    specdec_discover_only_if_built(${TEST_NAME})
  else()
    add_dependencies(tests ${TEST_NAME})
  endif()
endfunction()
