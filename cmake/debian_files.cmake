# Run by cpack before it builds a package: what Debian wants in one beyond what is installed.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
    return()
endif()
set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(documentation ${usr}/share/doc/${CPACK_PACKAGE_NAME})
configure_file(${CPACK_RESOURCE_FILE_LICENSE} ${documentation}/copyright COPYONLY)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where that is set
file(WRITE ${documentation}/changelog "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}, as CHANGELOG.md of the source tells it.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(GLOB pages ${usr}/share/man/man*/*)
execute_process(COMMAND gzip -9n ${documentation}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
# whatever the umask
set(readable OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(CHMOD_RECURSE ${documentation} FILE_PERMISSIONS ${readable})
file(CHMOD_RECURSE ${usr} DIRECTORY_PERMISSIONS ${readable} OWNER_EXECUTE GROUP_EXECUTE WORLD_EXECUTE)
