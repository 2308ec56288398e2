#include "tools/sluice/parse_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/nearest_name.h"

namespace sluice {

namespace {

constexpr std::size_t kMostDigits = 9;

// CLI11 would take "-5" for a huge number.
std::string refuse_count(const std::string& text) {
    const bool digits = text.find_first_not_of("0123456789") == std::string::npos && text.size() <= kMostDigits;
    if (digits && text.find_first_not_of('0') != std::string::npos) return "";
    return fmt::format("got '{}', expected a whole number from 1 to 999999999", text);
}

std::string nearest_flag(const Usage& usage, const std::string& got) {
    std::vector<std::string_view> names{"--help"};
    for (const Flag& flag : usage.flags) names.push_back(std::string_view(flag.names).substr(flag.names.rfind("--")));
    return nearest_name(got, names);
}

void refuse_extras(const Usage& usage, const std::vector<std::string>& extras) {
    if (extras.empty()) return;
    const std::string nearest = nearest_flag(usage, extras.front());
    throw InputError(fmt::format("sluice {}: unexpected '{}'; {}", usage.verb, extras.front(),
                                 nearest.empty() ? fmt::format("see sluice {} --help", usage.verb)
                                                 : fmt::format("did you mean '{}'?", nearest)));
}

}  // namespace

bool parse_arguments(const Usage& usage, const std::vector<std::string>& arguments) {
    CLI::App app{usage.summary, "sluice " + usage.verb};
    app.allow_extras();  // refused below, with a suggestion
    app.footer("examples:\n" + usage.examples);
    if (!usage.positional.empty())
        app.add_option(usage.positional, *usage.positional_value)->required()->type_name("FILE");
    if (!usage.optional_positional.empty())
        app.add_option(usage.optional_positional, *usage.optional_value)->type_name("FILE");
    if (!usage.more_positionals.empty())
        app.add_option(usage.more_positionals, *usage.more_values)->required(usage.more_required)->type_name("FILE");
    for (const Flag& flag : usage.flags) {
        CLI::Option* option = nullptr;
        if (flag.is_set != nullptr) option = app.add_flag(flag.names, *flag.is_set, flag.help);
        if (flag.text != nullptr) option = app.add_option(flag.names, *flag.text, flag.help);
        if (flag.number != nullptr) option = app.add_option(flag.names, *flag.number, flag.help)->check(refuse_count);
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
    refuse_extras(usage, app.remaining());
    return true;
}

}  // namespace sluice
