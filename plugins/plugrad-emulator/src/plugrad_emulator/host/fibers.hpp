// Execution contexts with stacks of their own, switched by hand.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <utility>

#if defined(__x86_64__)
#define EMU_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace emu {

struct Fiber {
  char *stack = nullptr;
#ifdef EMU_OWN_SWITCH
  void *top = nullptr;
#else
  ucontext_t context;
#endif
};

Fiber *take_fiber(void (*entry)());  // ready to run `entry`, which must not return
void give_back(Fiber *fiber);        // by the fiber itself, just before it switches away for good
void give_back_all();                // after a fault, when no fiber will run again
void switch_fiber(Fiber *from, Fiber *to);
std::pair<uintptr_t, uintptr_t> fiber_stacks();  // the addresses of all stacks

}  // namespace emu
