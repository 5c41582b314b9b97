// SPDX-License-Identifier: MIT
// A program to attach to. It reads commands from its standard input, one per line, and answers each with one line:
//   burst THREADS COUNT   each thread allocates and frees COUNT blocks of 100 bytes in burst_make()
//   keep COUNT; drop      allocates COUNT blocks of 200 bytes in keep_make(); drop frees all of them
//   busy THREADS; calm    starts threads that allocate blocks and verify their content; calm ends them and answers with
//                         the number of damaged blocks
//   slots                 answers with a hash of the RELRO words (among them the import slots) of all modules except
//                         the recorder
//   load PATH; call COUNT opens a library; call makes it allocate COUNT blocks
//   fork COUNT            forks a child that allocates COUNT blocks in burst_make(); answers with its exit status, 3
//   exec                  executes this program again
//   become USER           gives up root's rights, as servers do: becomes that user and group
//   sleep                 sleeps 0.3 s in nanosleep; answers "whole", or "interrupted" if the call failed or was short
#include <dlfcn.h>
#include <grp.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace {

void* volatile escape = nullptr;
std::vector<void*> kept;
std::vector<std::thread> busy_threads;
std::atomic<bool> is_busy{false};
std::atomic<long> wrong{0};
void (*call_library)(long) = nullptr;

}  // namespace

extern "C" [[gnu::noinline]] void burst_make(long count) {
  for (long index = 0; index < count; ++index) {
    void* block = std::malloc(100);
    escape = block;
    std::free(block);
  }
}

extern "C" [[gnu::noinline]] void keep_make(long count) {
  for (long index = 0; index < count; ++index) kept.push_back(std::malloc(200));
}

namespace {

void be_busy(unsigned seed) {
  std::vector<unsigned char*> blocks(64, nullptr);
  std::vector<std::size_t> sizes(64, 0);
  while (is_busy.load()) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t at = seed >> 26;
    const std::size_t size = 1 + (seed >> 8 & 1023);
    if (blocks[at] != nullptr && (blocks[at][0] != (at & 255) || blocks[at][sizes[at] - 1] != (at & 255)))
      ++wrong;
    std::free(blocks[at]);
    blocks[at] = static_cast<unsigned char*>(std::malloc(size));
    sizes[at] = size;
    std::memset(blocks[at], static_cast<int>(at & 255), size);
    if (at == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (unsigned char* one : blocks) std::free(one);
}

int add_words(dl_phdr_info* info, std::size_t, void* context) {
  auto& sum = *static_cast<std::uint64_t*>(context);
  if (std::strstr(info->dlpi_name, "tarn_record") != nullptr) return 0;
  for (unsigned index = 0; index < info->dlpi_phnum; ++index) {
    const ElfW(Phdr)& part = info->dlpi_phdr[index];
    if (part.p_type != PT_GNU_RELRO) continue;
    const auto* words = reinterpret_cast<const std::uint64_t*>(info->dlpi_addr + part.p_vaddr);
    for (std::size_t word = 0; word < part.p_memsz / 8; ++word) sum = (sum ^ words[word]) * 1099511628211U;
  }
  return 0;
}

std::string slots() {
  std::uint64_t sum = 14695981039346656037U;
  dl_iterate_phdr(add_words, &sum);
  return std::to_string(sum);
}

std::string sleep_uninterrupted() {
  const auto begin = std::chrono::steady_clock::now();
  timespec time = {0, 300000000};
  const int result = nanosleep(&time, nullptr);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result == 0 && took >= 0.3 && took < 2 ? "whole" : "interrupted";
}

bool become(uid_t user) {
  return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

void burst(int threads, long count) {
  std::vector<std::thread> all;
  for (int index = 0; index < threads; ++index) all.emplace_back(burst_make, count);
  for (std::thread& one : all) one.join();
}

std::string answer_to(const std::string& line, char** arguments) {
  char word[16] = {};
  long first = 0;
  long second = 0;
  std::sscanf(line.c_str(), "%15s %ld %ld", word, &first, &second);
  const std::string verb = word;
  if (verb == "burst") first == 1 ? burst_make(second) : burst(static_cast<int>(first), second);
  if (verb == "keep") keep_make(first);
  if (verb == "drop") {
    for (void* one : kept) std::free(one);
    kept.clear();
  }
  if (verb == "busy") {
    is_busy = true;
    for (long index = 0; index < first; ++index) busy_threads.emplace_back(be_busy, index + 1);
  }
  if (verb == "calm") {
    is_busy = false;
    for (std::thread& one : busy_threads) one.join();
    busy_threads.clear();
    return std::to_string(wrong.load());
  }
  if (verb == "slots") return slots();
  if (verb == "load") {
    void* library = dlopen(line.substr(5).c_str(), RTLD_NOW);
    call_library =
        library != nullptr ? reinterpret_cast<void (*)(long)>(dlsym(library, "call_library")) : nullptr;
    return call_library != nullptr ? "loaded" : dlerror();
  }
  if (verb == "call") call_library(first);
  if (verb == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      burst_make(first);
      _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return std::to_string(WEXITSTATUS(status));
  }
  if (verb == "become" && !become(static_cast<uid_t>(first))) return "refused";
  if (verb == "exec") execv("/proc/self/exe", arguments);
  if (verb == "sleep") return sleep_uninterrupted();
  return "done";
}

}  // namespace

int main(int, char** arguments) {
  kept.reserve(100000);
  std::printf("ready\n");
  std::fflush(stdout);
  char line[512];
  // Read byte by byte, without libc's buffer: exec would discard commands that are in a buffer already.
  for (;;) {
    std::size_t length = 0;
    while (length < sizeof line - 1 && read(0, line + length, 1) == 1 && line[length] != '\n') ++length;
    if (length == 0) return 0;
    line[length] = 0;
    const std::string answer = answer_to(line, arguments);
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
}
