// SPDX-License-Identifier: MIT
//! Compiles tarn's engine from `vendor/`, or in tarn's repository from the repository itself, into a static library.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Those of tarn_engine_options in cmake/tarn_flags.cmake, as tests/package/check_manifests.py checks, and what keeps the
/// checks of _FORTIFY_SOURCE and of the stack protector out, which are functions of libc.
const FLAGS: &[&str] = &[
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ftls-model=initial-exec",
    "-fno-plt",
    "-fno-semantic-interposition",
    "-U_FORTIFY_SOURCE",
    "-fno-stack-protector",
    "-fno-builtin-malloc",
    "-fno-builtin-free",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fomit-frame-pointer",
];

/// Files of the layers' folders that are no part of the layers, by the beginning of their names. The same test checks this.
const NOT_IN_LAYERS: &[&str] = &["hardened_", "override", "program_start", "shared_"];

fn fail(problem: &str, advice: &str) -> ! {
    eprintln!("tarn-sys: {problem}\n  {advice}");
    process::exit(1);
}

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

fn check_target() {
    let part = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let fits = part("OS") == "linux" && part("ENV") == "gnu" && ["x86_64", "aarch64"].contains(&part("ARCH").as_str());
    if !fits {
        fail(
            &format!("the target {} is not supported", env::var("TARGET").unwrap_or_default()),
            "tarn runs on Linux with glibc, on x86-64 and aarch64. Make the dependency conditional: \
             [target.'cfg(all(target_os = \"linux\", target_env = \"gnu\"))'.dependencies]",
        );
    }
}

/// The folder that has src/ and include/.
fn sources() -> PathBuf {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let places = [manifest.join("vendor"), manifest.join("../../..")];
    for place in &places {
        if place.join("src/CMakeLists.txt").is_file() {
            return place.clone();
        }
    }
    fail(
        &format!("there are no C++ sources in {} or {}", places[0].display(), places[1].display()),
        "The published crate has them. From a checkout, use the crate where it lies in tarn's repository.",
    )
}

/// The folders of the engine, from the line `set(TARN_LAYERS …)`.
fn layers(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source.join("CMakeLists.txt")).unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("set(TARN_LAYERS ")?.strip_suffix(')'));
    match list {
        Some(names) => names.split_whitespace().map(str::to_owned).collect(),
        None => fail("src/CMakeLists.txt does not list the engine's folders", "Restore the vendored sources."),
    }
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = match entries {
        Ok(paths) => paths.filter(|path| path.extension().is_some_and(|extension| extension == "cpp")).collect(),
        Err(error) => fail(&format!("{}: {error}", folder.display()), "Restore the vendored sources."),
    };
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    check_target();
    let root = sources();
    let source = root.join("src");
    let include = root.join("include");
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-changed={}", include.display());
    println!("cargo:include={}", include.display());
    println!("cargo:rustc-env=TARN_INCLUDE={}", include.display());

    let hardened = has_feature("HARDENED");
    let mut engine = cc::Build::new();
    engine
        .cpp(true)
        .std("c++20")
        .cpp_link_stdlib(None) // the engine needs libc alone
        .pic(true)
        .warnings(false)
        .opt_level(2) // in the dev profile too: an allocator without optimisation slows the whole program down
        .force_frame_pointer(false)
        .include(&include)
        .include(&source)
        .define("_GNU_SOURCE", None)
        .define("NDEBUG", None)
        .define("TARN_CHECKS", "0")
        .define("TARN_VERSION", format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str());
    for flag in FLAGS {
        engine.flag(flag);
    }
    if hardened {
        engine.define("TARN_HARDENED", "1");
    }
    if !engine.is_flag_supported("-std=c++20").unwrap_or(false) {
        fail(
            "the C++ compiler does not accept -std=c++20",
            "Install g++ 12 or clang++ 16, or newer, and name it by CXX, e.g. CXX=g++-12 cargo build",
        );
    }

    let mut throwing = engine.clone();
    throwing.flag("-fexceptions");
    for layer in layers(&source) {
        for file in files_of(&source.join(layer)) {
            let name = name_of(&file);
            if name == "override_new.cpp" && has_feature("OVERRIDE") {
                throwing.file(&file); // operator new throws std::bad_alloc
            } else if !NOT_IN_LAYERS.iter().any(|prefix| name.starts_with(prefix))
                || (hardened && name.starts_with("hardened_"))
                || (has_feature("OVERRIDE") && name == "override.cpp")
            {
                engine.file(&file);
            }
        }
    }
    if has_feature("OVERRIDE") {
        for object in throwing.compile_intermediates() {
            engine.object(object);
        }
    }
    engine.compile("tarn_engine");
}
