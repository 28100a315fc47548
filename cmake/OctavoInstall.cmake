# Installs a CMake package of two components. `kvcache`: octavo::kvcache, the KV cache's control plane, which stands alone
# (OCTAVO_ONLY_KVCACHE installs nothing else). The rest: the program, the public headers, the layers' static archives and
# octavo::octavo. The layers are a detail: a consumer links one of these two targets (docs/guides/embedding.md).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(OCTAVO_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/octavo")

add_library(octavo::kvcache ALIAS octavo_kvcache)
set_target_properties(octavo_kvcache PROPERTIES EXPORT_NAME kvcache)
target_compile_features(octavo_kvcache PUBLIC cxx_std_20)
target_include_directories(octavo_kvcache PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
install(TARGETS octavo_base octavo_kvcache EXPORT octavo-kvcache-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/octavo" COMPONENT octavo)
install(EXPORT octavo-kvcache-targets NAMESPACE octavo:: DESTINATION "${OCTAVO_CMAKE_DIR}" COMPONENT octavo)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT octavo)

if(OCTAVO_ONLY_KVCACHE)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/octavo/kvcache"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/octavo" COMPONENT octavo)
  install(FILES "${PROJECT_SOURCE_DIR}/include/octavo/status.h" "${PROJECT_SOURCE_DIR}/include/octavo/strong_id.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/octavo" COMPONENT octavo)
else()
  add_library(octavo_octavo INTERFACE)
  add_library(octavo::octavo ALIAS octavo_octavo)
  set_target_properties(octavo_octavo PROPERTIES EXPORT_NAME octavo)
  target_compile_features(octavo_octavo INTERFACE cxx_std_20)
  target_include_directories(octavo_octavo INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(octavo_octavo INTERFACE octavo_engine)

  set(OCTAVO_LIBRARY_LAYERS tensor formats jinja text structured xgrammar quant kernels kvstore model engine)
  list(TRANSFORM OCTAVO_LIBRARY_LAYERS PREPEND octavo_)
  install(TARGETS octavo_octavo ${OCTAVO_LIBRARY_LAYERS} EXPORT octavo-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/octavo" COMPONENT octavo)
  install(FILES "${OCTAVO_XGRAMMAR_SOURCE}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME LICENSE.xgrammar COMPONENT octavo)
  install(FILES "${OCTAVO_XGRAMMAR_SOURCE}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME NOTICE.xgrammar COMPONENT octavo)
  install(TARGETS octavo RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT octavo)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/octavo" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT octavo)
  install(EXPORT octavo-targets NAMESPACE octavo:: DESTINATION "${OCTAVO_CMAKE_DIR}" COMPONENT octavo)
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/octavo-config.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/octavo-config.cmake" INSTALL_DESTINATION "${OCTAVO_CMAKE_DIR}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/octavo-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/octavo-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/octavo-config-version.cmake"
  DESTINATION "${OCTAVO_CMAKE_DIR}" COMPONENT octavo)
