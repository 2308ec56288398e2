// The binary form refuses with InputError or yields a schedule that round-trips through both forms and that verify()
// and grid_view() can look at, whatever it holds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "schedule/grid_view.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::Schedule schedule;
    try {
        schedule = sluice::parse_binary_schedule({reinterpret_cast<const char*>(data), size}, "fuzz");
    } catch (const sluice::InputError&) {
        return 0;
    }
    if (sluice::parse_schedule(sluice::to_text(schedule), "text") != schedule) std::abort();
    if (sluice::parse_binary_schedule(sluice::to_binary(schedule), "binary") != schedule) std::abort();
    sluice::grid_view(schedule, sluice::verify(schedule));
    return 0;
}
