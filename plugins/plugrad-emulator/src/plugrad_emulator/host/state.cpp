#include "state.hpp"

#include <pthread.h>
#include <stdlib.h>

#include <new>
#include <string>

namespace emu {

static std::recursive_mutex *mutex = new std::recursive_mutex;  // never destroyed: calls come during interpreter exit

std::recursive_mutex &lock() { return *mutex; }

long setting(const char *name, long otherwise) {
  const char *text = getenv((std::string("PLUGRAD_EMULATOR_") + name).c_str());
  return text && *text ? strtol(text, nullptr, 0) : otherwise;
}

CUresult fault = CUDA_SUCCESS;
thread_local int current_contexts = 0;

// fork() waits for the call in progress, and the child gets a lock of its own: it must not inherit a held one.
static struct ForkHandlers {
  ForkHandlers() {
    pthread_atfork([] { lock().lock(); }, [] { lock().unlock(); }, [] { new (mutex) std::recursive_mutex; });
  }
} fork_handlers;

}  // namespace emu
