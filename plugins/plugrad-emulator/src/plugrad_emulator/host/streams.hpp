// Work queued on streams.  Nothing runs before something waits for it, so that a missing synchronisation shows.
#pragma once
#include <functional>

#include "api.hpp"

namespace emu {

// Queues work on a stream (null: the legacy default stream, which waits for and holds up blocking streams).
void submit(CUstream stream, std::function<void()> work);
// The same without the default stream's rules: no stream waits for another on its account, as for an allocation.
void submit_alone(CUstream stream, std::function<void()> work);
// Runs what the stream's (or event's, or every stream's) work needs, in the order it was submitted.
CUresult finish(CUstream stream);
CUresult finish_all();
void drop_all();

}  // namespace emu
