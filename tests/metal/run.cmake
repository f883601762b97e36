# What MoltenVK does with the shaders before Metal sees them: translates them, with bindings one by one and in argument buffers.
# SPIRV_CROSS, MODULES (with commas between).
string(REPLACE "," ";" modules "${MODULES}")
foreach(module IN LISTS modules)
    foreach(argument_buffers "" --msl-argument-buffers)
        execute_process(COMMAND ${SPIRV_CROSS} --msl --msl-version 20300 ${argument_buffers} ${module}
            OUTPUT_VARIABLE translated ERROR_VARIABLE error RESULT_VARIABLE status)
        if(NOT status EQUAL 0 OR NOT translated MATCHES "kernel void main0")
            message(FATAL_ERROR "${module}: no Metal comes of it ${argument_buffers}: ${error}")
        endif()
    endforeach()
endforeach()
