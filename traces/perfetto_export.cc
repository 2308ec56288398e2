#include "traces/perfetto_export.h"
