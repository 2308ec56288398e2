#include "schedule/verify.h"
