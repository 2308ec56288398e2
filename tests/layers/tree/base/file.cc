// Allowed: own headers, the C++ and POSIX libraries, fmt.
#include "base/units.h"
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
// Refused: what hides where it points to, what the check does not know, the test framework.
#include "units.h"
#include "../sim/replay.h"
#include "base/../sim/replay.h"
#include <mystery/mystery.h>
#include <gtest/gtest.h>
#include "tests/support/golden_file.h"
#include "tools/sluice/verbs.h"
  #  include <sim/replay.h>
