# Finds Random123's headers, for which Debian ships no CMake package: defines Random123::Random123.
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Random123 REQUIRED_VARS RANDOM123_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Random123/philox.h: on Debian and Ubuntu, install librandom123-dev")
if(Random123_FOUND AND NOT TARGET Random123::Random123)
  add_library(Random123::Random123 INTERFACE IMPORTED)
  set_target_properties(Random123::Random123 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${RANDOM123_INCLUDE_DIR})
endif()
mark_as_advanced(RANDOM123_INCLUDE_DIR)
