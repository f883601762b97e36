"""vkattn for Conan 2, from the release's tarball beside this file: its shaders are compiled, so that no GLSL compiler is needed."""
import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir, unzip


class VkattnConan(ConanFile):
    name = "vkattn"
    version = "0.1.0"
    description = "Attention as Vulkan compute shaders"
    license = "MIT"
    topics = ("vulkan", "attention", "gpu", "inference")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]

    def export_sources(self):
        tarball = f"vkattn-{self.version}.tar.xz"
        if not os.path.exists(os.path.join(self.recipe_folder, tarball)):
            raise ConanException(f"{tarball} is not beside the recipe, expected the release's, which the target source_package makes")
        copy(self, tarball, self.recipe_folder, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def requirements(self):
        self.requires("vulkan-headers/[>=1.3.239]", transitive_headers=True)  # the oldest that is tested

    def layout(self):
        cmake_layout(self, src_folder="source")

    def source(self):
        unzip(self, os.path.join(self.export_sources_folder, f"vkattn-{self.version}.tar.xz"), strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TOOLS", "TESTS", "SAMPLES"):
            toolchain.cache_variables[f"VKATTN_BUILD_{part}"] = False
        toolchain.cache_variables["Vulkan_INCLUDE_DIR"] = self.dependencies["vulkan-headers"].cpp_info.includedirs[0]
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in ("cmake", "pkgconfig"):  # Conan makes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        self.cpp_info.libs = ["vkattn"]
        self.cpp_info.set_property("cmake_file_name", "vkattn")
        self.cpp_info.set_property("cmake_target_name", "vkattn::vkattn")
        self.cpp_info.set_property("pkg_config_name", "vkattn")
        if not self.options.shared:
            self.cpp_info.defines = ["VKATTN_STATIC"]
            if self.settings.os in ("Linux", "FreeBSD"):
                self.cpp_info.system_libs = ["pthread", "dl", "m"]
