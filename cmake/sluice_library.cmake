# One library per folder. Usage:
#   sluice_library(<folder> SOURCES a.cc ... [PROTOS x.proto] [PUBLIC libs] [PRIVATE libs])
# makes sluice_<folder>. Every library links fmt privately; headers are included as "<folder>/name.h".
function(sluice_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;PROTOS;PUBLIC;PRIVATE" ${ARGN})
  set(target sluice_${folder})
  add_library(${target} STATIC ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} fmt::fmt sluice_warnings)
  foreach(proto IN LISTS arg_PROTOS)
    sluice_proto(${target} ${folder} ${proto})
  endforeach()
endfunction()

# Generates <folder>/<name>.pb.{h,cc} in the build tree, in a library of its own without our warnings.
function(sluice_proto target folder proto)
  cmake_path(GET proto STEM stem)
  set(base ${PROJECT_BINARY_DIR}/proto/${folder}/${stem})
  add_custom_command(
    OUTPUT ${base}.pb.cc ${base}.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/proto
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${PROJECT_BINARY_DIR}/proto
            ${folder}/${proto}
    DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${proto}
    VERBATIM)
  add_library(${target}_proto STATIC ${base}.pb.cc ${base}.pb.h)
  target_include_directories(${target}_proto SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/proto)
  target_link_libraries(${target}_proto PUBLIC protobuf::libprotobuf)
  target_link_libraries(${target} PRIVATE ${target}_proto)
endfunction()

# One test binary per folder: sluice_test(<folder> SOURCES a_test.cc ... LIBRARIES libs). Labelled with the folder.
function(sluice_test folder)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(target ${folder}_test)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} GTest::gtest_main fmt::fmt sluice_warnings)
  target_compile_definitions(${target} PRIVATE SLUICE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${folder} TIMEOUT 120)
endfunction()
