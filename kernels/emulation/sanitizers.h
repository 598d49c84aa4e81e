#pragma once

// Code only for builds with AddressSanitizer (IF_ASAN) or ThreadSanitizer (IF_TSAN). The emulation
// itself is compiled without -fsanitize=thread, because its switches between threads must not look
// like synchronisation. SPECDEC_EMULATION_TSAN means that the kernels are compiled with it.
#ifndef __has_feature
#define __has_feature(feature) 0  // g++ 12
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define IF_ASAN(...) __VA_ARGS__
#else
#define IF_ASAN(...)
#endif
#ifdef SPECDEC_EMULATION_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_java_init(unsigned long start, unsigned long bytes);
extern "C" void __tsan_java_alloc(unsigned long start, unsigned long bytes);
#define IF_TSAN(...) __VA_ARGS__
#else
#define IF_TSAN(...)
#endif

// ThreadSanitizer sees memcpy and free even in the emulation. What is done meanwhile is no access
// of a kernel.
IF_TSAN(extern "C" {
  void __tsan_read_range(void* address, unsigned long bytes);
  void __tsan_write_range(void* address, unsigned long bytes);
  void AnnotateIgnoreReadsBegin(const char* file, int line);
  void AnnotateIgnoreReadsEnd(const char* file, int line);
  void AnnotateIgnoreWritesBegin(const char* file, int line);
  void AnnotateIgnoreWritesEnd(const char* file, int line);
})
namespace specdec::emulation {
struct OutsideTheKernel {
  IF_TSAN(
      OutsideTheKernel() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
      } ~OutsideTheKernel() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
      })
};
}  // namespace specdec::emulation
