#include "tools/sluice/parse_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>

#include "base/error.h"

namespace sluice {

bool parse_arguments(const Usage& usage, const std::vector<std::string>& arguments) {
    CLI::App app{usage.summary, "sluice " + usage.verb};
    app.footer("examples:\n" + usage.examples);
    app.add_option(usage.positional, *usage.positional_value)->required()->type_name("FILE");
    for (const Flag& flag : usage.flags) {
        CLI::Option* option = nullptr;
        if (flag.is_set != nullptr) option = app.add_flag(flag.names, *flag.is_set, flag.help);
        if (flag.text != nullptr) option = app.add_option(flag.names, *flag.text, flag.help);
        if (flag.number != nullptr) option = app.add_option(flag.names, *flag.number, flag.help);
        SLUICE_CHECK(option != nullptr, "every flag has a place for its value");
        if (!flag.value.empty()) option->type_name(flag.value);
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    try {
        app.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app.help());
        return false;
    } catch (const CLI::ParseError& e) {
        std::string message = e.what();
        std::replace(message.begin(), message.end(), '\n', ' ');
        throw InputError(fmt::format("sluice {}: {}; see sluice {} --help", usage.verb, message, usage.verb));
    }
    return true;
}

}  // namespace sluice
