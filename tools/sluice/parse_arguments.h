// Private to the command: one way to declare a verb's arguments.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct Flag {
    std::string names;  // "-o,--output"
    std::string value;  // what it takes, "FILE"; empty: a switch
    std::string help;
    std::string* text = nullptr;  // one of the three
    bool* is_set = nullptr;
    std::size_t* number = nullptr;
};

struct Usage {
    std::string verb;
    std::string summary;
    std::string positional;  // name of the one positional argument, "SCENARIO"; empty: none
    std::string* positional_value = nullptr;
    std::vector<Flag> flags;
    std::string examples;
    std::string optional_positional{};  // name of another argument that may follow, "OTHER"; empty: none
    std::string* optional_value = nullptr;
    std::string more_positionals{};  // name of one or more arguments that follow, "MEASURED"; empty: none
    std::vector<std::string>* more_values = nullptr;
    bool more_required = true;
};

// False when --help was asked for and printed. Throws InputError on anything else that is not as declared.
bool parse_arguments(const Usage&, const std::vector<std::string>& arguments);

}  // namespace sluice
