#pragma once
#include <cuda_bf16.h>
#include <google/protobuf/message.h>
