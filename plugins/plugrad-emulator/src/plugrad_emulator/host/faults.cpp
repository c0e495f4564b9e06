#include "faults.hpp"

#include <string.h>
#include <ucontext.h>

#include "diagnostics.hpp"
#include "fibers.hpp"
#include "memory.hpp"
#include "scheduler.hpp"

namespace emu {

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction old_actions[4];
static thread_local char signal_stack[64 << 10];  // fibers can run out of their own

static const void *fault_site(const void *context) {
#if defined(__x86_64__)
  return (const void *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (const void *)((const ucontext_t *)context)->uc_mcontext.pc;
#else
  return nullptr;
#endif
}

static bool was_write(const void *context) {
#if defined(__x86_64__)
  return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  return false;
#endif
}

static const char *describe(int signal, const siginfo_t *info, bool is_write, CUresult *code) {
  uintptr_t address = (uintptr_t)info->si_addr;
  *code = CUDA_ERROR_LAUNCH_FAILED;
  if (signal == SIGFPE) return "integer division by zero (a GPU goes on with a meaningless number)";
  if (signal == SIGILL) return *code = CUDA_ERROR_ILLEGAL_INSTRUCTION, "illegal instruction (an unreachable place was reached?)";
  auto [begin, end] = fiber_stacks();
  if (address >= begin && address < end) return "the thread's stack is full (PLUGRAD_EMULATOR_STACK_KB makes it larger)";
  *code = CUDA_ERROR_ILLEGAL_ADDRESS;
  if (info->si_code == SI_KERNEL) return "uses a pointer that cannot be an address";
  return keep(format("%s 0x%zx: %s", is_write ? "writes to" : "reads", (size_t)address, describe_address(address, 1).c_str()));
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  if (in_kernel()) {
    CUresult code;
    const char *text = describe(signal, info, was_write(context), &code);
    abort_kernel(code, (const char *)fault_site(context) + 1, text);
  }
  // Another host thread's fault: to whoever handled it before.
  for (int i = 0; i < 4; ++i)
    if (SIGNALS[i] == signal) sigaction(signal, &old_actions[i], nullptr);
  raise(signal);
}

SignalHandlers::SignalHandlers() {
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  sigaltstack(&stack, &old_stack);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &action, &old_actions[i]);
}

SignalHandlers::~SignalHandlers() {
  for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &old_actions[i], nullptr);
  sigaltstack(&old_stack, nullptr);
}

}  // namespace emu
