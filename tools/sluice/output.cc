#include "tools/sluice/output.h"

#include <iostream>

#include "base/error.h"
#include "base/file.h"

namespace sluice {

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
    if (path != "-") return write_file(path, write);
    write(std::cout);
    std::cout.flush();
    if (!std::cout) throw EnvironmentError("stdout: cannot write");
}

}  // namespace sluice
