# Debian's SimGrid ships no CMake package file.
find_path(SIMGRID_INCLUDE_DIR simgrid/s4u.hpp REQUIRED)
find_library(SIMGRID_LIBRARY simgrid REQUIRED)
add_library(SimGrid::SimGrid UNKNOWN IMPORTED)
set_target_properties(SimGrid::SimGrid PROPERTIES
  IMPORTED_LOCATION ${SIMGRID_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${SIMGRID_INCLUDE_DIR})
