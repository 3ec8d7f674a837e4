//! What the build makes beside the code: the files of the web page, compressed, and an argument for the linker.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use flate2::{Compression, write::GzEncoder};

const PAGE: &str = "src/http/ui";
/// What the names of its files end in.
const KINDS: [&str; 6] = ["css", "html", "js", "png", "svg", "webmanifest"];
/// What stands beside them.
const OTHERS: [&str; 2] = ["mod.rs", "package.json"];
/// The first glibc whose loader knows packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rerun-if-changed={PAGE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut names = Vec::new();
    pack(Path::new(PAGE), "", &out, &mut names)?;
    names.sort();
    fs::write(out.join("ui.rs"), list(&names))?;
    // Each of the 50,000 places that the loader fills in takes two bytes instead of 24.
    if env::var("HOST") == env::var("TARGET") && glibc().is_some_and(|found| found >= PACKED_SINCE)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Compresses the files of a folder, whose names begin with what leads there, each with `.gz` behind its name. What an editor
/// hides there is passed over; anything else would be given to everyone, so the build ends with it.
fn pack(folder: &Path, place: &str, out: &Path, names: &mut Vec<String>) -> io::Result<()> {
    fs::create_dir_all(out.join("ui").join(place))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{place}{}", entry.file_name().display());
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden || OTHERS.contains(&name.as_str()) {
            continue;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if entry.file_type()?.is_dir() {
            pack(&entry.path(), &format!("{name}/"), out, names)?;
        } else if !KINDS.contains(&ending) {
            let kinds = KINDS.join(", ");
            println!(
                "cargo::error=`{PAGE}/{name}` is no file of the page ({kinds}): move it elsewhere"
            );
        } else {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&fs::read(entry.path())?)?;
            fs::write(out.join("ui").join(format!("{name}.gz")), encoder.finish()?)?;
            names.push(name);
        }
    }
    Ok(())
}

/// The files of the page, as the program holds them.
fn list(names: &[String]) -> String {
    let packed = |name| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/ui/{name}.gz\"))");
    let files = names.iter().map(|name| format!("    Asset::new(\"{name}\", {}),\n", packed(name)));
    let files: String = files.collect();
    format!("static FILES: [Asset; {}] = [\n{files}];\n", names.len())
}

/// The version of the system's glibc; none of another libc.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
