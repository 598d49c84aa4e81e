# [snippet budgets]
# specdec_add_test(NAME name SOURCES file... LABELS label... [LIBRARIES target...])
#
# Adds a GoogleTest program; each of its cases becomes a ctest of its own, so that a skipped case is
# reported as skipped. LABELS: one kind, and where the code runs (cpu, cuda or emulated):
#   unit          a function against an oracle                                       60 s a case
#   golden        against files that an independent implementation made             120 s
#   statistical   a stated false-alarm rate, and a control that must fail            300 s
#   bad-input     each kind of wrong input gets its own message                       60 s
#   large         writes or maps files of real size; needs free disk space           300 s
# The budget is the case's timeout; sanitizers get eight times as much.
set(SPECDEC_BUDGET_unit 60)
set(SPECDEC_BUDGET_golden 120)
set(SPECDEC_BUDGET_statistical 300)
set(SPECDEC_BUDGET_bad-input 60)
set(SPECDEC_BUDGET_large 300)
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
    math(EXPR budget "${budget} * 8")
  endif()
  set(${result} ${budget} PARENT_SCOPE)
endfunction()

function(specdec_add_test)
  cmake_parse_arguments(TEST "" "NAME" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  specdec_time_budget("${TEST_LABELS}" budget)
  add_executable(${TEST_NAME} ${TEST_SOURCES})
  target_link_libraries(${TEST_NAME} PRIVATE specdec_test_support ${TEST_LIBRARIES})
  set_target_properties(${TEST_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  gtest_discover_tests(${TEST_NAME}
    TEST_PREFIX "${TEST_NAME}."
    TEST_LIST ${TEST_NAME}_CASES
    NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${budget})
  # gtest_discover_tests passes no lists on, so the labels are set when ctest has found the cases.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${TEST_NAME}_labels.cmake)
  file(WRITE ${labels_file}
       "set_tests_properties(\${${TEST_NAME}_CASES} PROPERTIES LABELS \"${TEST_LABELS}\")\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()
