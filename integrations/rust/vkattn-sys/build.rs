//! Finds or builds the library, tells how to link it, and makes bindings of its headers.
//!
//! The first of these that there is:
//! * `VKATTN_PREFIX`: a folder where vkattn is installed
//! * `VKATTN_SOURCE`: its source, built by CMake: a checkout or a release, as a folder or as `vkattn-*.tar.xz`
//! * a release beside `Cargo.toml`, as the packed crate has it
//! * what pkg-config finds
//! * the checkout that this crate lies in

use std::path::{Path, PathBuf};
use std::{env, fs};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(message) = find_and_bind() {
        eprintln!("vkattn-sys: {message}");
        std::process::exit(1);
    }
}

fn find_and_bind() -> Result<(), String> {
    let include = match (variable("VKATTN_PREFIX"), source()?) {
        (Some(prefix), _) => link_prefix(Path::new(&prefix))?,
        (None, Some(source)) => build(&source)?,
        (None, None) => match pkg_config::Config::new().atleast_version(VERSION).probe("vkattn") {
            Ok(found) => found.include_paths,
            Err(error) => match checkout() {
                Some(source) => build(&source)?,
                None => {
                    return Err(format!(
                        "no library, expected VKATTN_PREFIX, VKATTN_SOURCE, or vkattn {VERSION} by pkg-config: {error}"
                    ))
                }
            },
        },
    };
    bind(&include)
}

fn variable(name: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed={name}");
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"))
}

fn crate_dir() -> PathBuf {
    PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
}

/// The source that is asked for, or that lies beside Cargo.toml.
fn source() -> Result<Option<PathBuf>, String> {
    let packed = crate_dir().join(format!("vkattn-{VERSION}.tar.xz"));
    match variable("VKATTN_SOURCE") {
        Some(given) if given.ends_with(".tar.xz") => unpack(Path::new(&given)).map(Some),
        Some(given) => Ok(Some(PathBuf::from(given))),
        None if packed.exists() => unpack(&packed).map(Some),
        None => Ok(None),
    }
}

fn checkout() -> Option<PathBuf> {
    let root = crate_dir().join("../../..");
    root.join("include/vkattn/vkattn.h").exists().then_some(root)
}

/// Unpacks a release, and returns its folder.
fn unpack(tarball: &Path) -> Result<PathBuf, String> {
    println!("cargo:rerun-if-changed={}", tarball.display());
    let tarball = fs::canonicalize(tarball)
        .map_err(|error| format!("VKATTN_SOURCE is {}, expected a release: {error}", tarball.display()))?;
    let folder = out_dir().join("source");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let cmake = env::var("CMAKE").unwrap_or_else(|_| "cmake".into());
    let status = std::process::Command::new(&cmake)
        .args(["-E", "tar", "xf"])
        .arg(&tarball)
        .current_dir(&folder)
        .status()
        .map_err(|error| format!("{cmake}, which builds vkattn, does not start: {error}"))?;
    let unpacked = fs::read_dir(&folder).ok().and_then(|mut entries| entries.next()?.ok());
    match unpacked {
        Some(entry) if status.success() => Ok(entry.path()),
        _ => Err(format!("{} cannot be unpacked, expected a release of vkattn", tarball.display())),
    }
}

/// Builds the library from its source; returns where its headers are.
fn build(source: &Path) -> Result<Vec<PathBuf>, String> {
    if !source.join("include/vkattn/vkattn.h").exists() {
        return Err(format!("VKATTN_SOURCE is {}, expected the source of vkattn", source.display()));
    }
    for folder in ["include", "runtime", "shaders", "cmake", "CMakeLists.txt"] {
        println!("cargo:rerun-if-changed={}", source.join(folder).display());
    }
    let mut config = cmake::Config::new(source);
    config
        .profile("Release")
        .no_default_flags(true)
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .define("BUILD_SHARED_LIBS", "OFF");
    for part in ["TOOLS", "TESTS", "SAMPLES", "JIT"] {
        config.define(format!("VKATTN_BUILD_{part}"), "OFF");
    }
    link_prefix(&config.build())
}

/// Links what is installed in a folder; returns where its headers are.
fn link_prefix(prefix: &Path) -> Result<Vec<PathBuf>, String> {
    let include = prefix.join("include");
    if !include.join("vkattn/vkattn.h").exists() {
        return Err(format!("VKATTN_PREFIX is {}, expected include/vkattn/vkattn.h there", prefix.display()));
    }
    let target = env::var("TARGET").unwrap_or_default();
    let (archive, shared) = if target.contains("msvc") {
        ("vkattn.lib", "vkattn.dll")
    } else {
        ("libvkattn.a", if target.contains("apple") { "libvkattn.dylib" } else { "libvkattn.so" })
    };
    let multiarch = format!("lib/{}", target.replace("-unknown", ""));
    for lib in [prefix.join("lib"), prefix.join("lib64"), prefix.join(multiarch)] {
        let is_static = lib.join(archive).exists();
        if is_static || lib.join(shared).exists() {
            println!("cargo:rustc-link-search=native={}", lib.display());
            println!("cargo:rustc-link-lib={}vkattn", if is_static { "static=" } else { "" });
            if is_static {
                link_cxx(&target);
            }
            println!("cargo:root={}", prefix.display());
            return Ok(vec![include]);
        }
    }
    Err(format!("VKATTN_PREFIX is {}, expected lib/{archive} or lib/{shared} there", prefix.display()))
}

/// What a static library needs beside itself.
fn link_cxx(target: &str) {
    let libraries: &[&str] = match target {
        _ if target.contains("msvc") => &[],
        _ if target.contains("apple") => &["c++"],
        _ if target.contains("android") => &["c++_static", "c++abi"],
        _ => &["stdc++"],
    };
    for library in libraries {
        println!("cargo:rustc-link-lib={library}");
    }
}

/// Types of Vulkan are ash's.
#[derive(Debug)]
struct AshTypes;

impl bindgen::callbacks::ParseCallbacks for AshTypes {
    fn blocklisted_type_implements_trait(
        &self,
        name: &str,
        derived: bindgen::callbacks::DeriveTrait,
    ) -> Option<bindgen::callbacks::ImplementsTrait> {
        use bindgen::callbacks::{DeriveTrait, ImplementsTrait};
        let implements = !name.starts_with("PFN_") || derived != DeriveTrait::Debug;
        Some(if implements { ImplementsTrait::Yes } else { ImplementsTrait::No })
    }
}

fn bind(include: &[PathBuf]) -> Result<(), String> {
    for path in include {
        println!("cargo:rerun-if-changed={}", path.join("vkattn").display());
    }
    let bindings = bindgen::Builder::default()
        .header_contents("vkattn_sys.h", "#include <vkattn/vkattn.h>\n#include <vkattn/estimate.h>\n")
        .clang_args(include.iter().map(|path| format!("-I{}", path.display())))
        .clang_arg("-fparse-all-comments")
        .allowlist_item("(vkattn|VKATTN)_.*")
        .blocklist_type("Vk.*|PFN_vk.*")
        .raw_line("use crate::vulkan::*;")
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: false })
        .prepend_enum_name(false)
        .derive_default(true)
        .explicit_padding(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .parse_callbacks(Box::new(AshTypes))
        .generate()
        .map_err(|error| format!("the headers of vkattn and Vulkan cannot be read: {error}"))?;
    let bindings = bindings.to_string();
    write("bindings.rs", &bindings)?;
    write("sized.rs", &sized(&bindings))
}

fn write(name: &str, text: &str) -> Result<(), String> {
    let path = out_dir().join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// What lib.rs says of the structures that begin with struct_size.
fn sized(bindings: &str) -> String {
    let mut text = String::new();
    let mut structure = "";
    for line in bindings.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            structure = rest.split([' ', '(']).next().unwrap_or("");
        } else if line == "pub struct_size: u32," {
            text += &format!(
                "unsafe impl Sized32 for {structure} {{
    fn set_size(&mut self) {{
        self.struct_size = std::mem::size_of::<Self>() as u32;
    }}
}}\n"
            );
        }
    }
    text
}
