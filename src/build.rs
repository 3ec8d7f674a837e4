//! What the build makes beside the code: the files of the web page, compressed, and an argument for the linker.

use std::{
    env, fs,
    io::{self, Write},
    path::Path,
    process::Command,
};

use flate2::{Compression, write::GzEncoder};

const PAGE: &str = "src/http/ui";
/// The first glibc whose loader knows packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rerun-if-changed={PAGE}");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    pack(Path::new(PAGE), &Path::new(&out).join("ui"))?;
    // Each of the 50,000 places that the loader fills in takes two bytes instead of 24.
    if env::var("HOST") == env::var("TARGET") && glibc().is_some_and(|found| found >= PACKED_SINCE)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Compresses the files of a folder, each under its name with `.gz` behind it.
fn pack(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, mut packed) = (entry?, to.as_os_str().to_owned());
        packed.push("/");
        packed.push(entry.file_name());
        if entry.file_type()?.is_dir() {
            pack(&entry.path(), Path::new(&packed))?;
            continue;
        }
        packed.push(".gz");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(entry.path())?)?;
        fs::write(packed, encoder.finish()?)?;
    }
    Ok(())
}

/// The version of the system's glibc; none of another libc.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
