# Finds the 8-bit PCRE2 library, for which Debian ships no CMake package: defines PCRE2::pcre2-8.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(PCRE2_INCLUDE_DIR)
  file(STRINGS ${PCRE2_INCLUDE_DIR}/pcre2.h PCRE2_VERSION_LINES
       REGEX "^#define PCRE2_(MAJOR|MINOR)")
  string(REGEX REPLACE ".*PCRE2_MAJOR +([0-9]+).*PCRE2_MINOR +([0-9]+).*" "\\1.\\2"
         PCRE2_VERSION "${PCRE2_VERSION_LINES}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PCRE2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR
                                  VERSION_VAR PCRE2_VERSION)
if(PCRE2_FOUND AND NOT TARGET PCRE2::pcre2-8)
  add_library(PCRE2::pcre2-8 UNKNOWN IMPORTED)
  set_target_properties(PCRE2::pcre2-8 PROPERTIES
    IMPORTED_LOCATION ${PCRE2_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR})
endif()
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)
