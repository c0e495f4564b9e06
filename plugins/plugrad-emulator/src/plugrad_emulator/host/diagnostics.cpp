#include "diagnostics.hpp"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <deque>
#include <map>

#include "state.hpp"

namespace emu {

static const size_t KEPT = 1000;
static std::deque<std::string> *messages = new std::deque<std::string>;
static std::string *latest = new std::string;
static bool told;  // whether explain() has given it

std::string format(const char *text, ...) {
  char buffer[2048];
  va_list arguments;
  va_start(arguments, text);
  vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

void diagnose(const std::string &message) {
  *latest = message;
  told = false;
  messages->push_back(message);
  if (messages->size() > KEPT) messages->pop_front();
  if (setting("VERBOSE", 0)) fprintf(stderr, "plugrad-emulator: %s\n", message.c_str());
}

static auto &known = *new std::map<std::pair<std::string, size_t>, std::string>;

void forget_lines(const std::string &image) {
  auto from = known.lower_bound({image, 0}), to = known.upper_bound({image, SIZE_MAX});
  known.erase(from, to);
}

// The innermost frame in the author's text: the emulator's and the toolkit's headers are passed over, and what plugrad
// puts in front of every kernel.
static bool is_ours(const char *line) {
  for (const char *name : {"/plugrad_emulator/device/", "/cuda_fp16.h", "/cuda_bf16.h", "prelude.cuh:"})
    if (strstr(line, name)) return true;
  return line[0] == '?';
}

// Sources are compiled in a folder that is gone by now; what #line named by a full path is left alone.
static const char *without_work_folder(const char *line) {
  static const char mark[] = "/plugrad-emulator-";
  const char *folder = strstr(line, mark), *name = folder ? strchr(folder + sizeof mark - 1, '/') : nullptr;
  return name ? name + 1 : line;
}

std::string source_line(const std::string &image, size_t offset) {
  auto found = known.find({image, offset});
  if (found != known.end()) return found->second;
  std::string command = format("addr2line -i -e '%s' 0x%zx 2>/dev/null", image.c_str(), offset), result, first;
  if (FILE *pipe = popen(command.c_str(), "r")) {
    char line[1024];
    while (fgets(line, sizeof line, pipe)) {
      line[strcspn(line, "\n")] = 0;
      if (char *discriminator = strstr(line, " (discriminator")) *discriminator = 0;
      if (first.empty() && line[0] != '?') first = without_work_folder(line);
      if (is_ours(line)) continue;
      result = without_work_folder(line);
      break;
    }
    while (fgets(line, sizeof line, pipe)) {}
    pclose(pipe);
  }
  return known[{image, offset}] = result.empty() ? first : result;
}

}  // namespace emu

using namespace emu;

// The oldest message not yet taken, copied to `out`; its full length, or -1 if there is none.
EMU_EXPORT int plugrad_emulator_take_message(char *out, int capacity) {
  Guard guard;
  if (messages->empty()) return -1;
  const std::string &message = messages->front();
  snprintf(out, capacity, "%s", message.c_str());
  int length = (int)message.size();
  messages->pop_front();
  return length;
}

EMU_EXPORT void plugrad_emulator_last_message(char *out, int capacity) {
  Guard guard;
  snprintf(out, capacity, "%s", latest->c_str());
}

// The newest message if it can be about what failed just now: the context is faulted, or nobody was told it before.
EMU_EXPORT void plugrad_emulator_explain(char *out, int capacity) {
  Guard guard;
  snprintf(out, capacity, "%s", told && !fault ? "" : latest->c_str());
  told = true;
}

namespace emu {
void forget_last_message() { latest->clear(); }
}  // namespace emu
