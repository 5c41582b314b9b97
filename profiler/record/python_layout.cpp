// SPDX-License-Identifier: MIT
#include "profiler/record/python_layout.hpp"

#include <cstring>

#include "profiler/record/exported_symbol.hpp"

namespace tarn::profiler {

namespace {

// Indices into the table that 3.13 publishes in _PyRuntime: 64-bit numbers after an eight-letter mark, which is
// index 0.
enum published : unsigned {
  published_version = 1,
  published_free_threaded = 2,
  published_thread_state = 19,  // its size; the members follow
  published_frame = 28,
  published_code = 34,
  published_object = 44,
  published_bytes = 64,
  published_text = 67
};

void lay_out_311(python_layout& out) {
  out.thread_id = 152;
  out.thread_frame = 56;
  out.thread_root = 336;
  out.part_frame = 8;
  out.part_previous = 16;
  out.frame_code = 32;
  out.frame_previous = 48;
  out.frame_instruction = 56;
  out.frame_owner = 69;
  out.code_first_line = 72;
  out.code_bytes = 184;
  out.ascii_begin = 48;
  out.text_begin = 72;
}

void lay_out_312(python_layout& out) {
  out.thread_id = 136;
  out.thread_frame = 56;
  out.thread_root = 272;
  out.part_frame = 0;
  out.part_previous = 8;
  out.frame_code = 0;
  out.frame_previous = 8;
  out.frame_instruction = 56;
  out.frame_owner = 70;
  out.code_first_line = 68;
  out.code_bytes = 192;
  out.ascii_begin = 40;
  out.text_begin = 56;
}

bool lay_out_313(std::uintptr_t runtime, python_layout& out) {
  if (runtime == 0 || std::memcmp(reinterpret_cast<const void*>(runtime), "xdebugpy", 8) != 0) return false;
  const auto* told = reinterpret_cast<const std::uint64_t*>(runtime);
  const auto offset = [told](unsigned index) { return static_cast<std::uint32_t>(told[index]); };
  if (told[published_version] >> 16 != out.version) return false;
  out.thread_frame = offset(published_thread_state + 4);
  out.thread_id = offset(published_thread_state + 5);
  out.frame_previous = offset(published_frame + 1);
  out.frame_code = offset(published_frame + 2);
  out.frame_instruction = offset(published_frame + 3);
  out.frame_owner = offset(published_frame + 5);
  out.code_file = offset(published_code + 1);
  out.code_name = offset(published_code + 3);
  out.code_lines = offset(published_code + 4);
  out.code_first_line = offset(published_code + 5);
  out.code_bytes = offset(published_code + 9);
  out.object_type = offset(published_object + 1);
  out.bytes_size = offset(published_bytes + 1);
  out.bytes_begin = offset(published_bytes + 2);
  out.text_state = offset(published_text + 1);
  out.text_length = offset(published_text + 2);
  out.ascii_begin = offset(published_text + 3);
  out.text_begin = out.ascii_begin + 16;
  return true;
}

}  // namespace

bool find_python_layout(const unwind::loaded_module& module, python_layout& out) {
  if (module.map == nullptr) return false;
  const auto find = [&module](const char* name) { return exported_symbol(*module.map, name); };
  const std::uintptr_t version = find("Py_Version");
  if (version == 0) return false;
  out = {};
  out.version = *reinterpret_cast<const std::uint32_t*>(version) >> 16;
  out.code_file = 112;
  out.code_name = 128;
  out.code_lines = 136;
  if (out.version == 0x030b) {
    lay_out_311(out);
  } else if (out.version == 0x030c) {
    lay_out_312(out);
  } else if (out.version != 0x030d || !lay_out_313(find("_PyRuntime"), out)) {
    return false;
  }
  std::uintptr_t attached = find("PyThreadState_GetUnchecked");
  if (attached == 0) attached = find("_PyThreadState_UncheckedGet");
  const std::uintptr_t own = find("PyGILState_GetThisThreadState");
  out.code_type = find("PyCode_Type");
  out.attached_state = reinterpret_cast<std::uintptr_t (*)()>(attached);
  out.own_state = reinterpret_cast<std::uintptr_t (*)()>(own);
  return attached != 0 && own != 0 && out.code_type != 0;
}

}  // namespace tarn::profiler
