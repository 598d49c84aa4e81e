# Finds libmicrohttpd, for which Debian ships no CMake package: defines MicroHttpd::MicroHttpd.
find_path(MICROHTTPD_INCLUDE_DIR microhttpd.h)
find_library(MICROHTTPD_LIBRARY microhttpd)
if(MICROHTTPD_INCLUDE_DIR)  # 0x00097500 is 0.9.75
  file(STRINGS ${MICROHTTPD_INCLUDE_DIR}/microhttpd.h MICROHTTPD_VERSION_LINE
       REGEX "^#define MHD_VERSION 0x")
  string(REGEX REPLACE ".*0x(..)(..)(..)..*" "\\1.\\2.\\3" MICROHTTPD_VERSION
         "${MICROHTTPD_VERSION_LINE}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MicroHttpd
  REQUIRED_VARS MICROHTTPD_LIBRARY MICROHTTPD_INCLUDE_DIR VERSION_VAR MICROHTTPD_VERSION
  REASON_FAILURE_MESSAGE "microhttpd.h: on Debian and Ubuntu, install libmicrohttpd-dev")
if(MicroHttpd_FOUND AND NOT TARGET MicroHttpd::MicroHttpd)
  add_library(MicroHttpd::MicroHttpd UNKNOWN IMPORTED)
  set_target_properties(MicroHttpd::MicroHttpd PROPERTIES
    IMPORTED_LOCATION ${MICROHTTPD_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${MICROHTTPD_INCLUDE_DIR})
endif()
mark_as_advanced(MICROHTTPD_INCLUDE_DIR MICROHTTPD_LIBRARY)
