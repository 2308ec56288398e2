// The verbs of the command. Each takes its own arguments and returns the exit code: 0 yes, 1 the check said no. Bad
// usage or input and failures of the machine throw; main() turns them into 2 and 3.
#pragma once

#include <string>
#include <vector>

namespace sluice {

using Arguments = std::vector<std::string>;  // without program and verb

int lower_verb(const Arguments&);
int slice_verb(const Arguments&);
int check_verb(const Arguments&);
int show_verb(const Arguments&);
int plan_verb(const Arguments&);
int explain_verb(const Arguments&);
int simulate_verb(const Arguments&);
int run_verb(const Arguments&);
int compare_verb(const Arguments&);
int judge_verb(const Arguments&);
int fit_verb(const Arguments&);
int export_verb(const Arguments&);
int profile_verb(const Arguments&);

}  // namespace sluice
