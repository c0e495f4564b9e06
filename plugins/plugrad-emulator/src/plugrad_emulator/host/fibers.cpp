#include "fibers.hpp"

#include <sys/mman.h>

#include <new>
#include <vector>

#include "state.hpp"

namespace emu {

static const size_t PAGE = 4096, MOST = 2048;  // a block has at most 1024 threads
static auto &all = *new std::vector<Fiber *>;
static auto &unused = *new std::vector<Fiber *>;

static size_t stack_size() {
  static size_t size = (size_t)setting("STACK_KB", 128) << 10;
  return size;
}
static uintptr_t stacks() {
  static void *range = mmap(nullptr, MOST * (stack_size() + PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  return (uintptr_t)range;
}
std::pair<uintptr_t, uintptr_t> fiber_stacks() { return {stacks(), stacks() + MOST * (stack_size() + PAGE)}; }

#ifdef EMU_OWN_SWITCH
// Saves what the calling convention says a callee must keep, and the stack with it.
extern "C" void emu_switch_stacks(void **save, void *to);
asm(R"(
.text
.globl emu_switch_stacks
.hidden emu_switch_stacks
.type emu_switch_stacks, @function
emu_switch_stacks:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
.size emu_switch_stacks, . - emu_switch_stacks
)");

static void prepare(Fiber *fiber, void (*entry)()) {
  void **top = (void **)(fiber->stack + stack_size());
  *--top = nullptr;  // the return address of `entry`, which never returns
  *--top = (void *)entry;
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber->top = top;
}
void switch_fiber(Fiber *from, Fiber *to) { emu_switch_stacks(&from->top, to->top); }
#else
static void prepare(Fiber *fiber, void (*entry)()) {
  getcontext(&fiber->context);
  fiber->context.uc_stack = {fiber->stack, 0, stack_size()};
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, entry, 0);
}
void switch_fiber(Fiber *from, Fiber *to) { swapcontext(&from->context, &to->context); }
#endif

Fiber *take_fiber(void (*entry)()) {
  if (unused.empty()) {
    Fiber *made = new Fiber;
    made->stack = (char *)stacks() + all.size() * (stack_size() + PAGE) + PAGE;
    mprotect(made->stack, stack_size(), PROT_READ | PROT_WRITE);
    all.push_back(made);
    unused.push_back(made);
  }
  Fiber *fiber = unused.back();
  unused.pop_back();
  prepare(fiber, entry);
  return fiber;
}

void give_back(Fiber *fiber) { unused.push_back(fiber); }
void give_back_all() { unused = all; }

}  // namespace emu
