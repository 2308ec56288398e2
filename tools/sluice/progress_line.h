// One line on stderr that says what is going on, rewritten in place; silent unless stderr is a terminal.
#pragma once

#include <string_view>

namespace sluice {

class ProgressLine {
public:
    ProgressLine();
    ~ProgressLine();  // clears the line
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    void show(std::string_view what);                   // "lower: fold"
    void show(std::string_view what, double fraction);  // "replay  42%", with the time left once it can be told

    bool active() const { return active_; }

private:
    void print(std::string_view line);
    bool active_;
    double began_ = -1;  // seconds, of the fraction being shown
};

}  // namespace sluice
