# SPDX-License-Identifier: MIT
# Writes a C++ source that holds PAGE: cmake -D PAGE=report.html -D SOURCE=report_page.cpp -P embed.cmake
file(READ ${PAGE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${SOURCE} "#include \"profiler/report/report_file.hpp\"\n
namespace tarn::profiler {
namespace {
constexpr unsigned char page[] = {${bytes}};
}
std::string_view report_page() { return {reinterpret_cast<const char*>(page), sizeof page}; }
}  // namespace tarn::profiler\n")
