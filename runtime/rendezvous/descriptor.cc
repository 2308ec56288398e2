#include "runtime/rendezvous/descriptor.h"

#include <unistd.h>

namespace sluice {

Descriptor::~Descriptor() {
    if (fd_ >= 0) close(fd_);
}

}  // namespace sluice
