// Which rank each op is of, from the text form of a schedule.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace sluice {

inline std::vector<std::string> ranks_of_ops(const std::string& schedule) {
    std::istringstream in(schedule);
    std::vector<std::string> ranks;
    for (std::string line, word, id, rank; std::getline(in, line);) {
        std::istringstream words(line);
        if (words >> word >> id >> rank && word == "op") ranks.push_back(rank.substr(1));
    }
    return ranks;
}

}  // namespace sluice
