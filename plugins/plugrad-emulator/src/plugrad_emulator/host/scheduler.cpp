#include "scheduler.hpp"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <numeric>

#include "diagnostics.hpp"
#include "faults.hpp"
#include "fibers.hpp"
#include "memory.hpp"
#include "races.hpp"
#include "state.hpp"

namespace emu {

Running running;

namespace {

enum class State : uint8_t { unstarted, ready, at_barrier, at_warp, done };

// First in, first out, unless a place further back is asked for.
class Queue {
 public:
  bool empty() const { return head == items.size(); }
  size_t size() const { return items.size() - head; }
  void clear() { items.clear(), head = 0; }
  void push(int item) { items.push_back(item); }
  int pop(size_t place) {
    std::swap(items[head], items[head + place]);
    int item = items[head++];
    if (empty()) clear();
    if (head > 4096) items.erase(items.begin(), items.begin() + head), head = 0;
    return item;
  }

 private:
  std::vector<int> items;
  size_t head = 0;
};

struct WarpCall {
  int operation, size, source;
  unsigned mask;
  unsigned char value[16], result[16];
};
struct Thread {
  State state;
  Fiber *fiber;
  EmuIndex index;
  const void *site;
  WarpCall warp;
};

// A fiber starts threads one after another on its stack.  When one has to wait, its fiber is parked and another goes
// on starting threads: a kernel without barriers never switches.
struct BlockState {
  std::vector<Thread> threads;
  std::vector<int> order;  // in which threads start and are released
  size_t started;
  int alive, arrived;
  unsigned warp_alive[32], warp_waiting[32];  // lanes of each warp that have not ended, and that wait in it
  Queue ready;
  int votes[3], outcome[3];
  Fiber *fiber, host;
} block;

sigjmp_buf way_out;
thread_local bool inside;
struct {
  CUresult code;
  const void *site;
  char text[2048];
} outcome;

unsigned random_state;
unsigned random_number() { return (random_state = random_state * 1664525u + 1013904223u) >> 8; }

void stop(CUresult code, const void *site, const char *text) {
  outcome.code = code;
  outcome.site = site;
  if (text != outcome.text) snprintf(outcome.text, sizeof outcome.text, "%s", text);
}

void go_on_as(int thread) {
  running.thread = thread;
  *running.launch->function->module->info.thread = block.threads[thread].index;
}

void make_ready(int thread) {
  block.threads[thread].state = State::ready;
  block.ready.push(thread);
}

// ------------------------------------------------------------------------------------------------------- barriers

// The compiler may have made two call sites of one line, so only different lines are a divergence.
void check_same_barrier() {
  const Thread *first = nullptr;
  for (const Thread &t : block.threads) {
    if (t.state != State::at_barrier) continue;
    if (!first) first = &t;
    if (t.site == first->site) continue;
    const CUmod_st &module = *running.launch->function->module;
    std::string here = source_line(module, first->site), there = source_line(module, t.site);
    if (here == there) continue;
    int a = (int)(first - block.threads.data()), b = (int)(&t - block.threads.data());
    const char *text = keep(format("divergent barrier: thread %s waits at %s while thread %s waits at %s",
                                   name_of_thread(a).c_str(), here.c_str(), name_of_thread(b).c_str(), there.c_str()));
    abort_kernel(CUDA_ERROR_LAUNCH_FAILED, t.site, text);
  }
}

void release_barrier() {
  check_same_barrier();
  block.arrived = 0;
  std::copy(block.votes, block.votes + 3, block.outcome);
  block.votes[EMU_COUNT] = 0, block.votes[EMU_AND] = 1, block.votes[EMU_OR] = 0;
  ++running.phase;
  for (int i : block.order)
    if (block.threads[i].state == State::at_barrier) make_ready(i);
}

// ----------------------------------------------------------------------------------------------------------- warps

void complete(int first_lane, unsigned lanes) {  // those lanes' calls agree and all have come
  Thread *warp = &block.threads[first_lane];
  unsigned ballot = 0;
  for (int k = 0; k < 32; ++k)
    if (lanes >> k & 1 && warp[k].warp.operation == EMU_BALLOT && *(int *)warp[k].warp.value) ballot |= 1u << k;
  for (int k = 0; k < 32; ++k) {
    if (!(lanes >> k & 1)) continue;
    WarpCall &call = warp[k].warp;
    if (call.operation == EMU_BALLOT) memcpy(call.result, &ballot, sizeof ballot);
    if (call.operation != EMU_SHUFFLE) continue;
    if (lanes >> (call.source & 31) & 1)
      memcpy(call.result, warp[call.source & 31].warp.value, call.size);
    else
      memset(call.result, 0xFF, call.size);  // a lane that takes no part: undefined on a GPU
  }
  ++running.warp_phase[first_lane / 32];
  bool backwards = running.launch->order == Order::reversed;
  for (int k = 0; k < 32; ++k) {
    int lane = backwards ? 31 - k : k;
    if (lanes >> lane & 1) make_ready(first_lane + lane);
  }
}

// Completes the calls of a warp for which every lane they name has come.
void try_warp(int w) {
  Thread *warp = &block.threads[w * 32];
  for (unsigned left = block.warp_waiting[w]; left;) {
    const WarpCall &call = warp[__builtin_ctz(left)].warp;
    left &= left - 1;
    unsigned needed = call.mask & block.warp_alive[w];
    if ((needed & block.warp_waiting[w]) != needed) continue;
    bool agree = true;
    for (unsigned lanes = needed; lanes; lanes &= lanes - 1) {
      const WarpCall &other = warp[__builtin_ctz(lanes)].warp;
      agree = agree && other.mask == call.mask && other.operation == call.operation;
    }
    if (!agree) continue;
    block.warp_waiting[w] &= ~needed;
    complete(w * 32, needed);
    left &= ~needed;
  }
}

// -------------------------------------------------------------------------------------------------------- switching

void fiber_entry();

[[noreturn]] void report_deadlock() {
  int at_barrier = -1, at_warp = -1, n_barrier = 0, n_warp = 0, n = (int)block.threads.size();
  for (int i = 0; i < n; ++i) {
    if (block.threads[i].state == State::at_barrier) at_barrier = i, ++n_barrier;
    if (block.threads[i].state == State::at_warp) at_warp = i, ++n_warp;
  }
  const CUmod_st &module = *running.launch->function->module;
  std::string text = format("deadlock, %d threads have ended", n - n_barrier - n_warp);
  const void *site = nullptr;
  if (n_warp) {
    site = block.threads[at_warp].site;
    text += format("; %d wait in a warp function (%s, mask %08x)", n_warp, source_line(module, site).c_str(), block.threads[at_warp].warp.mask);
  }
  if (n_barrier) {
    site = block.threads[at_barrier].site;
    text += format("; %d wait at __syncthreads (%s)", n_barrier, source_line(module, site).c_str());
  }
  abort_kernel(CUDA_ERROR_LAUNCH_FAILED, site, keep("divergent barrier: " + text));
}

// Leaves the current fiber for a thread that can go on, else for one that has not started.
void switch_away(Fiber *from, bool start_first) {
  bool can_start = block.started < block.order.size();
  if (can_start && (start_first || block.ready.empty())) {
    block.fiber = take_fiber(fiber_entry);
    switch_fiber(from, block.fiber);
    return;
  }
  if (block.ready.empty()) report_deadlock();
  int next = block.ready.pop(running.launch->order == Order::shuffled ? random_number() % block.ready.size() : 0);
  go_on_as(next);
  block.fiber = block.threads[next].fiber;
  if (block.fiber != from) switch_fiber(from, block.fiber);
}

void wait(bool start_first = false) {
  int me = running.thread;
  switch_away(block.threads[me].fiber, start_first);
  go_on_as(me);
}

void end_thread(int thread) {
  settle();
  block.threads[thread].state = State::done;
  --block.alive;
  block.warp_alive[thread / 32] &= ~(1u << (thread & 31));
  if (block.alive && block.arrived == block.alive) release_barrier();
  if (block.warp_waiting[thread / 32]) try_warp(thread / 32);
}

void fiber_entry() {
  while (block.started < block.order.size()) {
    int i = block.order[block.started++];
    block.threads[i].state = State::ready;
    block.threads[i].fiber = block.fiber;
    go_on_as(i);
    running.launch->function->kernel->invoke(const_cast<void **>(running.launch->arguments.data()));
    end_thread(running.thread);
  }
  Fiber *me = block.fiber;
  give_back(me);
  if (block.alive == 0) switch_fiber(me, &block.host);
  switch_away(me, false);
}

// ----------------------------------------------------------------------------------------------- called by kernels

void on_barrier(const void *site) {
  settle();
  Thread &t = block.threads[running.thread];
  t.state = State::at_barrier;
  t.site = site;
  if (++block.arrived == block.alive) release_barrier();
  wait();
}

int on_barrier_reduce(int reduction, int predicate, const void *site) {
  block.votes[EMU_COUNT] += predicate;
  block.votes[EMU_AND] &= predicate;
  block.votes[EMU_OR] |= predicate;
  on_barrier(site);
  return block.outcome[reduction];
}

unsigned on_lane() { return running.thread & 31; }

void on_warp(int operation, unsigned mask, const void *in, void *out, int size, int source, const void *site) {
  settle();
  int me = running.thread;
  Thread &t = block.threads[me];
  if (!(mask >> (me & 31) & 1)) {
    const char *text = keep(format("lane %d calls a warp function with mask %08x, which leaves it out", me & 31, mask));
    abort_kernel(CUDA_ERROR_LAUNCH_FAILED, site, text);
  }
  t.state = State::at_warp;
  t.site = site;
  t.warp.operation = operation, t.warp.size = size, t.warp.source = source, t.warp.mask = mask;
  if (in) memcpy(t.warp.value, in, size);
  block.warp_waiting[me / 32] |= 1u << (me & 31);
  try_warp(me / 32);
  wait();
  if (out) memcpy(out, t.warp.result, size);
}

unsigned on_active_mask() { return block.warp_alive[running.thread / 32]; }

void on_yield() {
  settle();
  make_ready(running.thread);
  wait(true);
}

void on_trap(const void *site) { abort_kernel(CUDA_ERROR_ILLEGAL_INSTRUCTION, site, "__trap() was reached"); }

void on_assertion(const char *expression, const char *file, unsigned line) {
  abort_kernel(CUDA_ERROR_ASSERT, nullptr, keep(format("%s:%u: assertion `%s` failed", file, line, expression)));
}

}  // namespace

const EmuHooks kernel_hooks = {on_barrier,   on_barrier_reduce, on_warp,  on_lane,  on_active_mask, on_access,
                               on_bad_index, on_misaligned,     on_fence, on_yield, on_trap,        on_assertion};

// ---------------------------------------------------------------------------------------------------------- grids

const char *keep(const std::string &text) {
  snprintf(outcome.text, sizeof outcome.text, "%s", text.c_str());
  return outcome.text;
}

void abort_kernel(CUresult code, const void *site, const char *text) {
  stop(code, site, text);
  siglongjmp(way_out, 1);
}

bool in_kernel() { return inside; }

EmuIndex thread_index(int thread) {
  EmuIndex extent = running.launch->block;
  return {thread % extent.x, thread / extent.x % extent.y, thread / extent.x / extent.y};
}
std::string name_of_thread(int thread) {
  EmuIndex i = thread_index(thread);
  return format("(%u,%u,%u)", i.x, i.y, i.z);
}

static void start_block(const Launch &launch, EmuIndex index) {
  const EmuModule &module = launch.function->module->info;
  *module.block = index;
  memset(module.shared_begin, 0xFF, module.shared_end - module.shared_begin);
  memset(module.dynamic_shared, 0xFF, launch.dynamic_shared);
  running.block_phase = ++running.phase;
  int n = (int)block.threads.size();
  for (int i = 0; i < n; ++i) {
    block.threads[i].state = State::unstarted;
    block.order[i] = launch.order == Order::reversed ? n - 1 - i : i;
  }
  if (launch.order == Order::shuffled)
    for (int i = n - 1; i > 0; --i) std::swap(block.order[i], block.order[random_number() % (i + 1)]);
  for (int w = 0; w < 32; ++w) {
    int lanes = std::clamp(n - 32 * w, 0, 32);
    block.warp_alive[w] = lanes == 32 ? ~0u : (1u << lanes) - 1;
    block.warp_waiting[w] = 0;
  }
  block.started = 0;
  block.alive = n;
  block.arrived = 0;
  block.ready.clear();
  block.votes[EMU_COUNT] = 0, block.votes[EMU_AND] = 1, block.votes[EMU_OR] = 0;
}

// The q-th block to run.  Shuffled: an affine walk through all of them.
struct BlockOrder {
  uint64_t n, first = 0, stride = 1;
  bool backwards;
  BlockOrder(const Launch &launch) : n((uint64_t)launch.grid.x * launch.grid.y * launch.grid.z), backwards(launch.order == Order::reversed) {
    if (launch.order != Order::shuffled) return;
    first = random_number() % n;
    do stride = random_number() % n + 1;
    while (std::gcd(stride, n) != 1);
  }
  uint64_t operator[](uint64_t q) const { return backwards ? n - 1 - q : (first + q % n * stride) % n; }
};

static void run_blocks(const Launch &launch) {
  BlockOrder order(launch);
  for (uint64_t q = 0; q < order.n; ++q) {
    uint64_t b = order[q];
    start_block(launch, {(unsigned)(b % launch.grid.x), (unsigned)(b / launch.grid.x % launch.grid.y), (unsigned)(b / launch.grid.x / launch.grid.y)});
    block.fiber = take_fiber(fiber_entry);
    switch_fiber(&block.host, block.fiber);
  }
}

static void diagnose_outcome(const Launch &launch) {
  const CUmod_st &module = *launch.function->module;
  EmuIndex b = *module.info.block;
  std::string line = outcome.site ? source_line(module, outcome.site) : "";
  diagnose(format("kernel '%s', block (%u,%u,%u), thread %s%s%s: %s", launch.function->name.c_str(), b.x, b.y, b.z,
                  name_of_thread(running.thread).c_str(), line.empty() ? "" : ", ", line.c_str(), outcome.text));
}

CUresult run_grid(const Launch &launch) {
  const EmuModule &module = launch.function->module->info;
  running.launch = &launch;
  running.launch_phase = ++running.phase;
  running.thread = 0;
  *module.grid_extent = launch.grid;
  *module.block_extent = launch.block;
  size_t n = (size_t)launch.block.x * launch.block.y * launch.block.z;
  block.threads.resize(n);
  block.order.resize(n);
  for (size_t i = 0; i < n; ++i) block.threads[i].index = thread_index((int)i);
  random_state = launch.seed;
  outcome.code = CUDA_SUCCESS;
  before_grid(launch);
  {
    SignalHandlers handlers;
    inside = true;
    if (!sigsetjmp(way_out, 0)) run_blocks(launch);
    inside = false;
  }
  fflush(stdout);
  if (outcome.code) {
    give_back_all();
    diagnose_outcome(launch);
    return outcome.code;
  }
  return after_grid(launch);
}

}  // namespace emu
