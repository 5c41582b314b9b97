# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=… -DEXPECTED=… -P check_output.cmake: runs the program; each line of the file EXPECTED must be a
# line of its output.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}:\n${output}${errors}")
endif()
file(STRINGS ${EXPECTED} lines)
foreach(line IN LISTS lines)
  string(FIND "\n${output}" "\n${line}\n" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${PROGRAM} printed no line \"${line}\", but:\n${output}")
  endif()
endforeach()
