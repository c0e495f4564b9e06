// Signals while a kernel runs: an access to a guard page is the kernel's fault, not the process's end.
#pragma once
#include <signal.h>

namespace emu {

// Takes the signals over for its lifetime.
class SignalHandlers {
 public:
  SignalHandlers();
  ~SignalHandlers();

 private:
  stack_t old_stack;
};

}  // namespace emu
