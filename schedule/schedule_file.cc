#include "schedule/schedule_file.h"

#include <ostream>

#include "base/file.h"
#include "schedule/schedule_format.h"
#include "schedule/schedule_text.h"

namespace sluice {
namespace {

// Far above a schedule of tens of millions of ops; keeps a wrong path (a disk image, a device) from filling memory.
constexpr Bytes kMaxFile = 16_GiB;

}  // namespace

Schedule read_schedule(const std::filesystem::path& path) {
    const std::string content = read_file(path, kMaxFile);
    if (content.starts_with(kScheduleMagic)) return parse_binary_schedule(content, path.string());
    return parse_schedule(content, path.string());
}

void write_schedule(const std::filesystem::path& path, const Schedule& schedule) {
    const std::string content = path.extension() == ".txt" ? to_text(schedule) : to_binary(schedule);
    write_file(path,
               [&](std::ostream& out) { out.write(content.data(), static_cast<std::streamsize>(content.size())); });
}

}  // namespace sluice
