# The page of vkattn bench --html, as a browser understands it. VKATTN, BROWSER, WORK.
set(page ${WORK}/report.html)
execute_process(COMMAND ${VKATTN} bench --heads 2 --head-dim 16 --kv-len 16,32 --variants mha,mqa --d-model 32 --len 16
    --repeat 1 --html ${page} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BROWSER} --headless --no-sandbox --disable-gpu --dump-dom file://${page}
    TIMEOUT 120 OUTPUT_VARIABLE seen ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(text "<h1>vkattn on " "Device and kernels" ">Roofline</text>" "Attention against the key length" "<td>mqa</td>"
        "<p>vkattn [0-9.]+</p>")
    if(NOT seen MATCHES "${text}")
        message(FATAL_ERROR "${page}: the browser sees no '${text}'")
    endif()
endforeach()
if(seen MATCHES "(src|href)=|NaN|inf[ <]")
    message(FATAL_ERROR "${page}: '${CMAKE_MATCH_0}', expected a page that needs nothing else, and numbers")
endif()
