//! Snapshots: files of the repository that are made from the code, for its users and for tests in other languages.

use std::{env, fs, path::Path};

/// Holds a file against what the code makes of it, or writes it anew where that is asked for.
pub(crate) fn assert_snapshot(path: &str, made: &str, module: &str) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let kept = fs::read_to_string(&place).unwrap_or_default();
    if kept == made {
        return;
    }
    if env::var_os("HIVEWRIGHT_RECORD").is_some() {
        fs::write(&place, made).unwrap();
        return;
    }
    let same = kept.lines().zip(made.lines()).take_while(|(kept, made)| kept == made).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(the end)").to_owned();
    let (_, module) = module.split_once("::").unwrap();
    panic!(
        "line {} of `{path}` is not what the code makes of it; \
         `HIVEWRIGHT_RECORD=1 cargo test --lib {module}` makes it anew:\n  is:     {}\n  should: {}",
        same + 1,
        line(&kept),
        line(made),
    );
}
