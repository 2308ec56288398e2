// A process is named by its ranks: "rank 0", "ranks 2 to 3". Verbs that agree with such a name.
#pragma once

#include <string_view>

namespace sluice {

inline bool names_many(std::string_view name) { return name.starts_with("ranks "); }
inline std::string_view is_or_are(std::string_view name) { return names_many(name) ? "are" : "is"; }
inline std::string_view has_or_have(std::string_view name) { return names_many(name) ? "have" : "has"; }

}  // namespace sluice
