#include "streams.hpp"

#include <time.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "state.hpp"

namespace emu {

// An operation runs after those it lists: the one before it in its stream, and others that events or the default
// stream's rules name.  All of these were submitted earlier, so order of submission is a valid order to run in.
struct Operation {
  uint64_t serial;
  std::function<void()> work;
  std::vector<std::shared_ptr<Operation>> after;
  bool done = false, wanted = false;
};
using OperationRef = std::shared_ptr<Operation>;

}  // namespace emu

using namespace emu;

struct CUstream_st {
  bool blocking;
  OperationRef last;
  std::deque<OperationRef> queue;
};
struct CUevent_st {
  bool timed;
  std::shared_ptr<double> milliseconds;  // shared with the operation that sets it, which may outlive the event
  OperationRef recorded;
};

namespace emu {

static const size_t DEPTH = 1024;  // a full queue runs its oldest operation, as a real one makes the caller wait
static auto &streams = *new std::set<CUstream>;
static CUstream_st default_stream{true, nullptr, {}};
static uint64_t serial;
static bool peeking;  // questions let nothing run

static bool pending(const OperationRef &operation) { return operation && !operation->done; }

static void run(const OperationRef &target) {
  if (!pending(target)) return;
  std::vector<OperationRef> wanted{target};
  target->wanted = true;
  for (size_t i = 0; i < wanted.size(); ++i)
    for (const OperationRef &before : std::vector<OperationRef>(wanted[i]->after))
      if (pending(before) && !before->wanted) {
        before->wanted = true;
        wanted.push_back(before);
      }
  std::sort(wanted.begin(), wanted.end(), [](auto &a, auto &b) { return a->serial < b->serial; });
  for (const OperationRef &operation : wanted) {
    if (!fault) operation->work();
    operation->done = true;
    operation->work = nullptr;
    operation->after.clear();
  }
}

static void trim(CUstream stream) {
  while (!stream->queue.empty() && stream->queue.front()->done) stream->queue.pop_front();
}

static CUstream resolve(CUstream stream) {  // 1 and 2: the legacy and the per-thread default stream's handles
  return (uintptr_t)stream <= 2 ? &default_stream : stream;
}

static OperationRef add(CUstream stream, std::function<void()> work, bool alone = false) {
  auto operation = std::make_shared<Operation>();
  operation->serial = ++serial;
  operation->work = std::move(work);
  auto wait_for = [&](CUstream other) {
    if (pending(other->last)) operation->after.push_back(other->last);
  };
  wait_for(stream);
  if (alone) {
    // only in order with its own stream
  } else if (stream == &default_stream) {
    for (CUstream other : streams)
      if (other->blocking) wait_for(other);
  } else if (stream->blocking) {
    wait_for(&default_stream);
  }
  stream->last = operation;
  stream->queue.push_back(operation);
  trim(stream);
  if (stream->queue.size() > DEPTH) {
    run(OperationRef(stream->queue.front()));
    trim(stream);
  }
  return operation;
}

void submit(CUstream stream, std::function<void()> work) { add(resolve(stream), std::move(work)); }
void submit_alone(CUstream stream, std::function<void()> work) { add(resolve(stream), std::move(work), true); }

CUresult finish(CUstream stream) {
  stream = resolve(stream);
  if (stream == &default_stream) add(stream, [] {});  // collects the blocking streams
  run(OperationRef(stream->last));
  trim(stream);
  return fault;
}

CUresult finish_all() {
  for (CUstream stream : std::vector<CUstream>(streams.begin(), streams.end())) finish(stream);
  return finish(&default_stream);
}

static void drop(CUstream stream) {
  for (auto &operation : stream->queue) {
    operation->done = true;
    operation->work = nullptr;
    operation->after.clear();
  }
  stream->queue.clear();
}
void drop_all() {
  for (CUstream stream : streams) drop(stream);
  drop(&default_stream);
}

// A loop that polls must see an end: each question lets the stream do one more operation.
static CUresult advance(CUstream stream) {
  trim(stream);
  if (stream->queue.empty()) return CUDA_SUCCESS;
  if (peeking) return CUDA_ERROR_NOT_READY;
  run(OperationRef(stream->queue.front()));
  trim(stream);
  return fault ? fault : stream->queue.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

}  // namespace emu

// --------------------------------------------------------------------------------------------------- entry points

API cuCtxSynchronize() {
  ENTER;
  return finish_all();
}

API cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER;
  *out = new CUstream_st{!(flags & CU_STREAM_NON_BLOCKING), nullptr, {}};
  streams.insert(*out);
  return CUDA_SUCCESS;
}
API cuStreamCreateWithPriority(CUstream *out, unsigned flags, int) { return cuStreamCreate(out, flags); }
API cuStreamDestroy_v2(CUstream stream) {
  Guard guard;
  if (!streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
  finish(stream);
  streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}
API cuStreamSynchronize(CUstream stream) {
  ENTER;
  return finish(stream);
}
API cuStreamQuery(CUstream stream) {
  ENTER;
  return advance(resolve(stream));
}
API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER;
  if (pending(event->recorded)) {
    OperationRef recorded = event->recorded;
    OperationRef wait = add(resolve(stream), [] {});
    if (!wait->done) wait->after.push_back(recorded);
  }
  return CUDA_SUCCESS;
}
API cuStreamGetFlags(CUstream stream, unsigned *flags) {
  *flags = resolve(stream)->blocking ? 0 : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

API cuEventCreate(CUevent *out, unsigned flags) {
  ENTER;
  *out = new CUevent_st{!(flags & CU_EVENT_DISABLE_TIMING), nullptr, nullptr};
  return CUDA_SUCCESS;
}
API cuEventDestroy_v2(CUevent event) {
  Guard guard;
  delete event;
  return CUDA_SUCCESS;
}
API cuEventRecord(CUevent event, CUstream stream) {
  ENTER;
  auto milliseconds = std::make_shared<double>(0);
  event->milliseconds = milliseconds;
  event->recorded = add(resolve(stream), [milliseconds] { *milliseconds = now(); });
  return CUDA_SUCCESS;
}
API cuEventSynchronize(CUevent event) {
  ENTER;
  run(OperationRef(event->recorded));
  return fault;
}
API cuEventQuery(CUevent event) {
  ENTER;
  if (!pending(event->recorded)) return CUDA_SUCCESS;
  if (peeking) return CUDA_ERROR_NOT_READY;
  run(OperationRef(event->recorded));
  return fault ? fault : CUDA_ERROR_NOT_READY;
}
API cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  ENTER;
  if (!start->recorded || !end->recorded || !start->timed || !end->timed) return CUDA_ERROR_INVALID_HANDLE;
  if (pending(start->recorded) || pending(end->recorded)) return CUDA_ERROR_NOT_READY;
  *milliseconds = (float)(*end->milliseconds - *start->milliseconds);
  return CUDA_SUCCESS;
}
API cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) { return cuEventElapsedTime(milliseconds, start, end); }

// Whether questions about streams and events leave the work where it is; what it was until now.
EMU_EXPORT int plugrad_emulator_peek(int on) {
  Guard guard;
  int before = peeking;
  peeking = on;
  return before;
}
