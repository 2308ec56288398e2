# Debian's libopenblas-serial-dev (tools/setup): it starts no threads and locks its buffers, so ranks may call it from
# threads of their own. A build with threads works too: the runtime sets it to one thread.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas REQUIRED)
find_library(OPENBLAS_LIBRARY openblas REQUIRED)
add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
  IMPORTED_LOCATION ${OPENBLAS_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE_DIR})
