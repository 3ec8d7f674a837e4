//! `hivewright plugin new`: a plugin that works, to begin with.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        context::Context,
        failure::{Exit, Failure},
    },
    plugins::check::check_key,
};

#[derive(Debug, PartialEq, Args)]
pub(in crate::cli) struct New {
    /// Its key, which is its name for good
    key: String,
    /// What it is written in
    #[arg(long, value_enum, default_value = "js")]
    language: Language,
    /// Where it goes [default: a new folder with the name of the key]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Language {
    /// JavaScript, run by the service itself
    Js,
    /// Python, with nothing beside its own library
    Python,
    /// Rust, built by cargo
    Rust,
}

/// A file of a template: its path, its text, whether it is run.
type Template = (&'static str, &'static str, bool);

const MANIFEST: &str = include_str!("templates/plugin.toml");
const JS: &[Template] = &[("main.js", include_str!("templates/main.js"), false)];
const PYTHON: &[Template] = &[
    ("main.py", include_str!("templates/main.py"), true),
    ("test_main.py", include_str!("templates/test_main.py"), false),
];
const RUST: &[Template] = &[
    ("Cargo.toml", include_str!("templates/rust/package.toml"), false),
    ("src/main.rs", include_str!("templates/rust/main.rs"), false),
    ("tests/greet.rs", include_str!("templates/rust/greet.rs"), false),
];
/// How the manifest of each language says what is run.
const RUN_JS: &str = "kind = \"js\"\nentry = \"main.js\"";
const RUN_PYTHON: &str = "kind = \"process\"\ncommand = \"python3\"\nargs = [\"main.py\"]";
const RUN_RUST: &str =
    "kind = \"process\"\n# Put there by `cargo install --path . --root .`\ncommand = \"bin/{key}\"";

pub(super) fn run(New { key, language, dir }: New, context: &Context) -> Result<(), Failure> {
    check_key(&key).map_err(|fault| Failure::usage(format!("`{key}`: {}", fault.reason)))?;
    let folder = dir.unwrap_or_else(|| PathBuf::from(&key));
    let shown = folder.display();
    let is_free = fs::read_dir(&folder).map_or(true, |mut inside| inside.next().is_none());
    if !is_free {
        return Err(Failure::new(Exit::Conflict, format!("`{shown}` is not empty")));
    }
    let namespace: String = key.chars().filter(|c| *c != '-').take(24).collect();
    let (run, files, build) = match language {
        Language::Js => (RUN_JS, JS, ""),
        Language::Python => (RUN_PYTHON, PYTHON, ""),
        Language::Rust => {
            (RUN_RUST, RUST, "build it there with `cargo install --path . --root .`, ")
        }
    };
    let manifest = MANIFEST.replace(RUN_JS, run);
    let cannot = Failure::unwritable(&folder);
    let manifest = ("plugin.toml", manifest.as_str(), false);
    for (path, text, is_run) in files.iter().copied().chain([manifest]) {
        let text = text.replace("{key}", &key).replace("{namespace}", &namespace);
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(cannot)?;
        fs::write(&path, text).map_err(cannot)?;
        if is_run {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
        }
    }
    context.screen.remark(&format!(
        "wrote {shown}; {build}try it with {}, then {}",
        context.command(&format!("plugin doctor {shown}")),
        context.command(&format!("plugin install {shown}")),
    ));
    Ok(())
}
