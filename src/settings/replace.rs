//! The text of a settings file as it is, and another in its place: whole, or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::yaml::MAX_BYTES;

/// What the names of files begin with that are not whole yet.
pub const NEW: &str = ".new-";

/// Changes a settings file, from what is read of it to what is put in its place: one change at a time, so that none is made
/// from a text that another has replaced. Blocks.
pub fn edit<T>(change: impl FnOnce() -> T) -> T {
    static EDITING: Mutex<()> = Mutex::new(());
    let _one = EDITING.lock();
    change()
}

/// Reads a file that stands where it should: what a link leads to is not shown. Blocks.
pub fn text(path: &Path) -> io::Result<String> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("is larger than 1 MiB"));
    }
    Ok(text)
}

/// Puts another text in a file's place and makes that durable. Until it is whole it is in `beside`,
/// on the same file system, where nobody else can write. Blocks.
pub fn replace(path: &Path, beside: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    // A file of its own for each: others may replace the same one now.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let own = format!("{NEW}{}-{}-{}-{number}", name(folder), name(path), process::id());
    let new = beside.join(own);
    let written = create(&new, text.as_ref()).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // Whatever is left of it is nobody's file.
        let _ = fs::remove_file(&new);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Makes a file for the owner alone, durable but for its name; one that is there stays. Blocks.
pub(crate) fn create(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (teams, team) = (folder.path(), folder.path().join("ops"));
        fs::create_dir(&team).unwrap();
        let (file, other) = (team.join("config.yaml"), teams.join("other"));
        fs::write(&other, "not for you").unwrap();
        std::os::unix::fs::symlink(&other, &file).unwrap();

        let shown = text(&file);
        replace(&file, teams, "description: new\n").unwrap();

        assert!(shown.is_err());
        assert_eq!(text(&file).unwrap(), "description: new\n");
        assert_eq!(fs::read_to_string(&other).unwrap(), "not for you");
        assert_eq!(fs::read_dir(teams).unwrap().count(), 2);
    }

    /// Two that replace a file at once both succeed, and what is there then is the text of one of them.
    #[test]
    fn changes_at_once_lose_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let (counted, fought_over) = (&folder.join("counted"), &folder.join("other"));
        fs::write(counted, "").unwrap();
        let whole = |letter: char| String::from(letter).repeat(100_000);

        std::thread::scope(|scope| {
            for letter in 'a'..='h' {
                scope.spawn(move || {
                    for _ in 0..5 {
                        replace(fought_over, folder, whole(letter)).unwrap();
                        edit(|| {
                            let more = format!("{}{letter}", text(counted).unwrap());
                            replace(counted, folder, more).unwrap();
                        });
                    }
                });
            }
        });

        assert_eq!(text(counted).unwrap().len(), 8 * 5);
        let left = text(fought_over).unwrap();
        assert!(('a'..='h').any(|letter| left == whole(letter)));
        assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
    }
}
