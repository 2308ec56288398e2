#pragma once
#include <cuda_runtime.h>
#include <cblas.h>
