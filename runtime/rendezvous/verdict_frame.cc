#include "runtime/rendezvous/verdict_frame.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "runtime/rendezvous/frame.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestLine = kLargestNotice - 64;

}  // namespace

std::vector<std::byte> encode(const JobVerdict& verdict) {
    WireWriter writer;
    writer.u8(static_cast<std::uint8_t>(verdict.kind));
    writer.text(std::string_view(verdict.line).substr(0, kLongestLine));
    return writer.take();
}

JobVerdict decode_verdict(std::span<const std::byte> payload) {
    WireReader reader(payload);
    const std::uint8_t kind = reader.u8();
    if (kind > static_cast<std::uint8_t>(FailureKind::kInternal))
        throw InputError("a verdict has a kind that there is not");
    JobVerdict verdict{static_cast<FailureKind>(kind), reader.text(kLongestLine)};
    reader.expect_end();
    return verdict;
}

void throw_verdict(const JobVerdict& verdict) {
    switch (verdict.kind) {
        case FailureKind::kInput:
            throw InputError(verdict.line);
        case FailureKind::kEnvironment:
            throw EnvironmentError(verdict.line);
        case FailureKind::kInternal:
            break;
    }
    throw InternalError(verdict.line);
}

}  // namespace sluice
