# cmake -DCHECK=command -DTREE=folder -DEXPECTED=file -P: the check of TREE must exit with 1 and print EXPECTED, whole.
execute_process(COMMAND ${CHECK} ${TREE} OUTPUT_VARIABLE got RESULT_VARIABLE code)
file(READ ${EXPECTED} expected)
if(NOT code EQUAL 1)
  message(FATAL_ERROR "exit code ${code}, expected 1; got\n${got}")
endif()
if(NOT got STREQUAL expected)
  message(FATAL_ERROR "differs from ${EXPECTED}; got\n${got}")
endif()
