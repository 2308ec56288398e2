#include "schedule/happens_before.h"
