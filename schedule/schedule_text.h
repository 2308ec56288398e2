// The text form: one line per host, rank, group, buffer and op, then `end`; written to be read, diffed and typed by hand.
// docs/schedule.md has the grammar.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace sluice {

// Round-trips: parse_schedule(to_text(s), "") == s for every s whose ids are dense, however invalid otherwise, if no
// line of it is longer than 1 MiB.
std::string to_text(const Schedule& schedule);

// One op as its line in the text form, for messages; every access spells its blocks:
// "op 41 r3 collective all_gather g2 512 MiB | after 40 | read b7[0..3]".
std::string to_text(const Op& op);

// `origin` names the source in messages. Throws InputError "origin:line:col: what, got, expected, suggestion".
// Checks the grammar, that ids are dense and that the file is whole, nothing else: call verify(). Takes memory in proportion to the text.
Schedule parse_schedule(std::string_view text, std::string_view origin);

}  // namespace sluice
