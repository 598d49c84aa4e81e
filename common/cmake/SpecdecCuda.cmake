# Decides whether the CUDA backend is built and sets SPECDEC_HAVE_CUDA. The language is enabled
# only where that is so: a build without CUDA configures as if it did not exist. AUTO asks for a GPU,
# too, since nothing else could run the code; ON compiles it anyway.
set(SPECDEC_HAVE_CUDA OFF)
if(NOT SPECDEC_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SPECDEC_CUDA is '${SPECDEC_CUDA}'; it takes AUTO, ON or OFF")
endif()
if(SPECDEC_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off")
  return()
endif()

execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET)
if(SPECDEC_CUDA STREQUAL "AUTO" AND NOT gpus MATCHES "GPU 0")
  message(STATUS "CUDA: NOT CHECKED, no GPU found (the preset cuda compiles for one)")
  return()
endif()

# One architecture: that of the GPU that is here, if any; otherwise code for A100, which drivers
# translate for newer ones.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80)
  if(gpus MATCHES "GPU 0")
    set(CMAKE_CUDA_ARCHITECTURES native)
  endif()
endif()
find_program(SPECDEC_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
mark_as_advanced(SPECDEC_NVCC)
if(SPECDEC_NVCC)
  set(CMAKE_CUDA_COMPILER ${SPECDEC_NVCC})
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(SPECDEC_NVCC AND CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(SPECDEC_HAVE_CUDA ON)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} (${SPECDEC_NVCC})")
elseif(SPECDEC_CUDA STREQUAL "ON")
  message(FATAL_ERROR "SPECDEC_CUDA is ON and no working nvcc was found: install the CUDA "
                      "Toolkit, put nvcc on PATH, or configure with -DSPECDEC_CUDA=OFF")
else()
  message(STATUS "CUDA: NOT CHECKED, no nvcc found; the CPU part builds alone")
endif()
