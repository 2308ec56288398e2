#include "schedule/schedule_text.h"
