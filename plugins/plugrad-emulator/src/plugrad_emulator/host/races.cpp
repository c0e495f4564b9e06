// Time is counted in phases: a barrier starts a new one for the block, an operation of a warp a new one for the warp.
// Two accesses by different threads in the same phase are unordered.  Bytes are grouped in fours; a group keeps its
// last writer and, in shared memory, two readers.  Forgetting others can hide a race but not invent one.
//
// Not reported: atomics among themselves; writes of the value that is already there; global memory once a kernel used
// a fence, and everything once it used a lock (compare-and-swap, exchange), for these order more than is followed here.
#include "races.hpp"

#include <string.h>

#include <vector>

#include "diagnostics.hpp"
#include "memory.hpp"
#include "scheduler.hpp"
#include "state.hpp"

namespace emu {

static bool enabled = setting("RACES", 1);
bool in_doubt;

namespace {

struct Party {
  uint64_t phase;
  const void *site;
  uint16_t thread, warp_phase;
  uint8_t bytes, atomic;
};
struct SharedRecord {
  Party writer, readers[2];
};

auto &static_records = *new std::vector<SharedRecord>;
auto &dynamic_records = *new std::vector<SharedRecord>(EMU_MAX_DYNAMIC_SHARED / 4);
bool global_on, shared_on;

// A write that meets another thread's write is a race unless it changes nothing, which shows only afterwards.
struct {
  uintptr_t address;
  size_t size;
  unsigned char before[16];
  const void *site;
  const char *text;
} doubt;

uint16_t my_warp_phase() { return running.warp_phase[running.thread / 32]; }

bool same_warp_later(uint16_t thread, uint16_t warp_phase) {
  return thread / 32 == running.thread / 32 && warp_phase != my_warp_phase();
}

// Calls f(group, mask of its bytes) for each group of four that [offset, offset + size) touches.
template <class F>
void for_groups(size_t offset, size_t size, F f) {
  for (size_t group = offset / 4; group * 4 < offset + size; ++group) {
    size_t from = offset > group * 4 ? offset - group * 4 : 0, to = offset + size < group * 4 + 4 ? offset + size - group * 4 : 4;
    f(group, (uint8_t)((1u << to) - (1u << from)));
  }
}

const char *verb(int access) { return access == EMU_READ ? "reads" : access == EMU_WRITE ? "writes" : "atomically changes"; }

std::string where(const void *site) {
  std::string line = source_line(*running.launch->function->module, site);
  return line.empty() ? "" : " (" + line + ")";
}

[[noreturn]] void report(const void *site, const char *text) {
  in_doubt = false;
  abort_kernel(CUDA_ERROR_LAUNCH_FAILED, site, text);
}

// `both_write`: the values decide.
void suspect(bool both_write, uintptr_t address, size_t size, const void *site, std::string (*describe)(const void *), const void *data) {
  if (both_write && size <= sizeof doubt.before) {
    in_doubt = true;
    doubt.address = address;
    doubt.size = size;
    doubt.site = site;
    memcpy(doubt.before, (void *)address, size);
    static std::string text;
    text = describe(data);
    doubt.text = text.c_str();
  } else {
    const char *text = keep(describe(data));
    report(site, text);
  }
}

struct SharedRace {
  const Party *other;
  size_t offset;
  int access;
  bool other_wrote;
};

std::string describe_shared(const void *data) {
  const SharedRace &r = *(const SharedRace *)data;
  return format("race in shared memory: %s bytes that thread %s %s%s, with no __syncthreads() between", verb(r.access),
                name_of_thread(r.other->thread).c_str(), r.other_wrote ? "wrote" : "read", where(r.other->site).c_str());
}

struct GlobalRace {
  int access;
  bool other_block;
  int thread;
};

std::string describe_global(const void *data) {
  const GlobalRace &r = *(const GlobalRace *)data;
  std::string other = r.other_block ? "a thread of another block" : "thread " + name_of_thread(r.thread) + " of this block";
  return format("race in device memory: %s bytes that %s wrote in this launch, with nothing that orders the two%s", verb(r.access),
                other.c_str(), r.access == EMU_READ ? "" : " (an atomic operation would)");
}

bool meets(const Party &other, uint8_t bytes) {
  return other.phase == running.phase && other.bytes & bytes && other.thread != running.thread &&
         !same_warp_later(other.thread, other.warp_phase);
}

void remember(Party &party, uint8_t bytes, bool atomic, const void *site) {
  bool again = party.phase == running.phase && party.thread == running.thread;
  party = {running.phase, site, (uint16_t)running.thread, my_warp_phase(), (uint8_t)(again ? party.bytes | bytes : bytes), atomic};
}

}  // namespace

void start_race_checks(size_t static_shared) {
  size_t groups = static_shared / 4 + 1;
  if (static_records.size() < groups) static_records.resize(groups);
  global_on = enabled && arena().records;
  shared_on = enabled;
  in_doubt = false;
  memset(running.warp_phase, 0, sizeof running.warp_phase);
}

void on_fence(int locks) {
  global_on = false;
  if (locks) shared_on = false;
}

void judge() {
  in_doubt = false;
  if (memcmp(doubt.before, (void *)doubt.address, doubt.size)) report(doubt.site, doubt.text);
}

void check_shared_race(size_t offset, bool dynamic, size_t size, int access, const void *site) {
  if (!shared_on) return;
  auto &records = dynamic ? dynamic_records : static_records;
  const EmuModule &module = running.launch->function->module->info;
  uintptr_t address = (uintptr_t)(dynamic ? module.dynamic_shared : module.shared_begin) + offset;
  bool atomic = access == EMU_ATOMIC;
  for_groups(offset, size, [&](size_t group, uint8_t bytes) {
    SharedRecord &r = records[group];
    if (meets(r.writer, bytes) && !(atomic && r.writer.atomic)) {
      SharedRace race{&r.writer, offset, access, true};
      suspect(access == EMU_WRITE, address, size, site, describe_shared, &race);
    }
    if (access == EMU_READ) {
      Party &slot = r.readers[r.readers[0].phase == running.phase && r.readers[0].thread != running.thread];
      remember(slot, bytes, false, site);
      return;
    }
    for (const Party &reader : r.readers)
      if (meets(reader, bytes)) {
        SharedRace race{&reader, offset, access, false};
        suspect(access == EMU_WRITE, address, size, site, describe_shared, &race);
      }
    remember(r.writer, bytes, atomic, site);
  });
}

void check_global_race(uintptr_t address, size_t size, int access, const void *site) {
  if (!global_on) return;
  bool atomic = access == EMU_ATOMIC;
  for_groups(address - arena().begin, size, [&](size_t group, uint8_t bytes) {
    WriteRecord &r = arena().records[group];
    if (r.phase >= running.launch_phase && r.bytes & bytes && !(atomic && r.atomic)) {
      bool other_block = r.phase < running.block_phase;
      bool unordered = other_block || (r.phase == running.phase && r.thread != running.thread && !same_warp_later(r.thread, r.warp_phase));
      if (unordered) {
        GlobalRace race{access, other_block, r.thread};
        suspect(access == EMU_WRITE, address, size, site, describe_global, &race);
      }
    }
    if (access == EMU_READ) return;
    bool again = r.phase == running.phase && r.thread == running.thread;
    r = {running.phase, (uint16_t)running.thread, my_warp_phase(), (uint8_t)(again ? r.bytes | bytes : bytes), atomic};
  });
}

}  // namespace emu

EMU_EXPORT int plugrad_emulator_check_races(int on) {
  emu::Guard guard;
  int before = emu::enabled;
  emu::enabled = on;
  return before;
}
