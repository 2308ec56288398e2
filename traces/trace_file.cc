#include "traces/trace_file.h"
