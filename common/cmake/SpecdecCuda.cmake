# Decides whether the CUDA backend is built and sets SPECDEC_HAVE_CUDA. Only then is the language
# enabled: a build without CUDA configures as if CUDA did not exist. AUTO also requires a GPU, since
# nothing else could run the code; ON compiles it anyway. SPECDEC_WHY_NO_CUDA is the reason that
# programs without CUDA print; it has no semicolon.
set(SPECDEC_HAVE_CUDA OFF)
if(NOT SPECDEC_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SPECDEC_CUDA is '${SPECDEC_CUDA}'; it takes AUTO, ON or OFF")
endif()
if(SPECDEC_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off")
  set(SPECDEC_WHY_NO_CUDA "it was configured with SPECDEC_CUDA=OFF")
  return()
endif()

execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET)
if(SPECDEC_CUDA STREQUAL "AUTO" AND NOT gpus MATCHES "GPU 0")
  message(STATUS "CUDA: NOT CHECKED, no GPU found (the preset cuda compiles for one)")
  set(SPECDEC_WHY_NO_CUDA
      "no GPU was found when it was configured, and SPECDEC_CUDA=ON was not given")
  return()
endif()

# Asynchronous copies and tensor cores of bf16 begin there.
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                OUTPUT_VARIABLE capabilities ERROR_QUIET)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" capability "${capabilities}")
if(capability AND capability VERSION_LESS 8.0)
  if(SPECDEC_CUDA STREQUAL "ON" AND NOT SPECDEC_CUDA_ALL AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "this GPU has compute capability ${capability}, and the kernels need 8.0: "
                        "configure with -DSPECDEC_CUDA_ALL=ON to build for other GPUs, or with "
                        "-DSPECDEC_CUDA=OFF")
  elseif(SPECDEC_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA: NOT CHECKED, this GPU has compute capability ${capability}, and the "
                   "kernels need 8.0")
    set(SPECDEC_WHY_NO_CUDA "the GPU that was found has compute capability ${capability}, and the \
kernels need 8.0")
    return()
  endif()
endif()

find_program(SPECDEC_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
mark_as_advanced(SPECDEC_NVCC)

# The architecture of this machine's GPU. On a machine without one, the oldest architecture that has
# what the kernels need, as machine code and as PTX, which a driver translates for every later GPU when
# it first loads it. With SPECDEC_CUDA_ALL, the architectures of common GPUs that this nvcc knows, which
# takes six times as long: A100; RTX 30; RTX 40 and L40; H100 and H200; B200; RTX 50. The newest one also
# as PTX, for later GPUs.
if(SPECDEC_NVCC AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(gpus MATCHES "GPU 0" AND NOT SPECDEC_CUDA_ALL)
    set(CMAKE_CUDA_ARCHITECTURES native)
  elseif(NOT SPECDEC_CUDA_ALL)
    set(CMAKE_CUDA_ARCHITECTURES 80)
  else()
    execute_process(COMMAND ${SPECDEC_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    set(CMAKE_CUDA_ARCHITECTURES)
    foreach(architecture 80 86 89 90 100 120)
      if(known MATCHES "sm_${architecture}[\r\n]")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
        set(newest ${architecture}-virtual)
      endif()
    endforeach()
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest})
  endif()
endif()
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
  set(SPECDEC_WHY_NO_CUDA "no working nvcc was found when it was configured")
endif()
