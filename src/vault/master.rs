//! The master key: where it is found, made and replaced. It is never in the store.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use zeroize::Zeroizing;

use super::{
    error::{Locked, Result, VaultError},
    seal::Key,
};
use crate::{
    removal::if_there,
    settings::{references::Environment, replace::create},
    system::hex_digits,
    time,
};

/// The systemd credential that holds the key, if the unit file names one.
const CREDENTIAL: &str = "hivewright-master-key";
/// The file in the folder of secrets.
const NAME: &str = "master.key";
/// What the names of older replaced keys begin with. The moment follows at which the next one was replaced.
const OLDER: &str = "master.key.old-";

#[derive(Clone, Debug, Default)]
pub struct KeyFiles {
    folder: PathBuf,
    credential: Option<PathBuf>,
}

/// The keys that were found, before it is known which of them fits.
pub struct MasterKeys {
    pub(super) files: KeyFiles,
    /// Best first; a file that holds none is an error.
    pub(super) candidates: Vec<(Place, Result<Key, Locked>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Given by systemd.
    Credential,
    /// The file in use.
    Current,
    /// Made by a rotation that is not through.
    New,
    /// Replaced by the last rotation.
    Old,
    /// Replaced by a rotation before that: the file.
    Older(PathBuf),
}

impl Place {
    /// A rotation replaced it: only a store from before that one needs it.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self, Self::Old | Self::Older(_))
    }
}

impl KeyFiles {
    /// The key of a folder of secrets, unless systemd gives one.
    pub fn new(secrets: &Path, environment: &Environment) -> Self {
        let credentials = environment.get("CREDENTIALS_DIRECTORY");
        Self {
            folder: secrets.to_owned(),
            credential: credentials.map(|folder| Path::new(&folder).join(CREDENTIAL)),
        }
    }

    pub(super) fn path(&self, place: &Place) -> Option<PathBuf> {
        let file = self.folder.join(NAME);
        match place {
            Place::Credential => self.credential.clone(),
            Place::Current => Some(file),
            Place::New => Some(file.with_extension("key.new")),
            Place::Old => Some(file.with_extension("key.old")),
            Place::Older(path) => Some(path.clone()),
        }
    }

    /// All places, in the order in which they are tried. Blocks.
    fn all(&self) -> Vec<Place> {
        let mut older: Vec<PathBuf> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default();
                name.as_encoded_bytes().starts_with(OLDER.as_bytes())
            })
            .collect();
        // The names hold the moment, so they sort by it.
        older.sort_unstable_by(|a, b| b.cmp(a));
        [Place::Credential, Place::Current, Place::New, Place::Old]
            .into_iter()
            .chain(older.into_iter().map(Place::Older))
            .collect()
    }

    /// Reads the keys that are there. Blocks.
    pub fn read(self) -> MasterKeys {
        let there = self.all().into_iter().filter_map(|place| {
            let key = read(&self.path(&place)?)?;
            Some((place, key))
        });
        MasterKeys { candidates: there.collect(), files: self }
    }

    /// Makes the first key. Nothing that is there is overwritten. Blocks.
    pub(super) fn create(&self) -> Result<Key> {
        let key = Key::random()?;
        self.write(&Place::Current, &key)?;
        Ok(key)
    }

    /// Writes a key beside the one in use. Blocks.
    pub(super) fn write_new(&self, key: &Key) -> Result<()> {
        self.remove(&Place::New)?;
        self.write(&Place::New, key)
    }

    /// Keeps the key in use under another name, if it is still there, and the one before it too: backups
    /// from before its rotation need it. Blocks.
    pub(super) fn set_aside(&self) -> Result<()> {
        let is_file = |place| self.path(place).is_some_and(|path| path.is_file());
        if !is_file(&Place::Current) {
            return Ok(());
        }
        if is_file(&Place::Old) {
            let older = self.folder.join(format!("{OLDER}{}", time::compact_now()));
            self.rename(&Place::Old, &Place::Older(older))?;
        }
        self.rename(&Place::Current, &Place::Old)
    }

    /// Puts the new key into use. Blocks.
    pub(super) fn put_in_use(&self) -> Result<()> {
        self.rename(&Place::New, &Place::Current)
    }

    /// Ends a rotation whose new key is the one that fits. Blocks.
    pub(super) fn finish(&self) -> Result<()> {
        self.set_aside()?;
        self.put_in_use()
    }

    /// Returns whether there was one. Blocks.
    pub(super) fn remove(&self, place: &Place) -> Result<bool> {
        let Some(path) = self.path(place) else { return Ok(false) };
        match fs::remove_file(&path) {
            Ok(()) => self.sync(&path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(VaultError::File { path, source }),
        }
    }

    /// Removes all replaced keys; false if there was none. Blocks.
    pub(super) fn forget_replaced(&self) -> Result<bool> {
        let mut replaced = self.all().into_iter().filter(Place::is_replaced);
        replaced.try_fold(false, |removed, place| Ok(removed | self.remove(&place)?))
    }

    /// The name of a place, for people.
    pub(super) fn name(&self, place: &Place) -> String {
        let path = self.path(place).unwrap_or_default();
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where a key was looked for, for people.
    pub(super) fn places(&self) -> String {
        let paths = [Place::Credential, Place::Current].map(|place| self.path(&place));
        let shown = paths.into_iter().flatten().map(|path| format!("`{}`", path.display()));
        shown.collect::<Vec<_>>().join(" and ")
    }

    fn write(&self, place: &Place, key: &Key) -> Result<()> {
        let Some(path) = self.path(place) else { return Err(VaultError::NotOurKey) };
        let text = hex_line(key.bytes());
        // A crash leaves a part beside, never half a key under the name of a whole one.
        let part = path.with_extension("key.part");
        let written = if_there(fs::remove_file(&part))
            .and_then(|_| create(&part, text.as_bytes()))
            // Nothing that is there is overwritten.
            .and_then(|()| fs::hard_link(&part, &path))
            .and_then(|()| fs::remove_file(&part));
        match written {
            Ok(()) => self.sync(&path),
            Err(source) => Err(VaultError::File { path, source }),
        }
    }

    fn rename(&self, from: &Place, to: &Place) -> Result<()> {
        let (Some(from), Some(path)) = (self.path(from), self.path(to)) else {
            return Err(VaultError::NotOurKey);
        };
        match fs::rename(from, &path) {
            Ok(()) => self.sync(&path),
            Err(source) => Err(VaultError::File { path, source }),
        }
    }

    fn sync(&self, path: &Path) -> Result<()> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| VaultError::File { path: path.to_owned(), source })
    }
}

/// The key in a file, if the file is there: 64 hexadecimal digits, or base64 of 32 bytes.
fn read(path: &Path) -> Option<Result<Key, Locked>> {
    let locked = |reason: &dyn fmt::Display| Locked(format!("`{}` {reason}", path.display()));
    match fs::read(path) {
        Ok(bytes) => {
            let bytes = Zeroizing::new(bytes);
            let key = std::str::from_utf8(&bytes).ok().and_then(|text| parse(text.trim()));
            Some(key.ok_or_else(|| {
                locked(&"holds no key: expected 64 hexadecimal digits, or base64 of 32 bytes")
            }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(locked(&format!("cannot be read: {error}")))),
    }
}

fn parse(text: &str) -> Option<Key> {
    if text.len() == 64 {
        let digit = |at: usize| char::from(text.as_bytes()[at]).to_digit(16);
        let bytes = (0..32)
            .map(|at| u8::try_from(digit(2 * at)? * 16 + digit(2 * at + 1)?).ok())
            .collect::<Option<Vec<u8>>>();
        return Key::of(&Zeroizing::new(bytes?));
    }
    [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
        .into_iter()
        .find_map(|engine| Key::of(&Zeroizing::new(engine.decode(text).ok()?)))
}

/// Has room for the whole from the beginning: a text that grows leaves a part of the key behind.
fn hex_line(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len() + 1));
    text.extend(hex_digits(bytes).chain(['\n']));
    text
}

#[cfg(test)]
mod tests {

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files(folder: &Path) -> KeyFiles {
        KeyFiles::new(folder, &Environment::fixed([]))
    }

    fn found(files: &KeyFiles) -> Vec<(Place, Option<[u8; 32]>)> {
        let candidates = files.clone().read().candidates.into_iter();
        candidates.map(|(place, key)| (place, key.ok().map(|key| *key.bytes()))).collect()
    }

    /// MV-56
    #[test]
    fn the_first_key_is_for_the_owner_alone_and_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());

        let made = files.create().unwrap();
        let again = files.create();

        let path = folder.path().join("master.key");
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(found(&files), [(Place::Current, Some(*made.bytes()))]);
        assert!(matches!(again, Err(VaultError::File { .. })));
    }

    /// MV-56
    #[test]
    fn a_key_may_be_written_in_hex_or_base64_and_systemd_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = folder.path().join("credentials");
        fs::create_dir(&credentials).unwrap();
        let variable = credentials.to_str().unwrap();
        let files = KeyFiles::new(
            folder.path(),
            &Environment::fixed([("CREDENTIALS_DIRECTORY", variable)]),
        );
        fs::write(credentials.join(CREDENTIAL), STANDARD.encode([1; 32])).unwrap();
        fs::write(folder.path().join("master.key"), "0A".repeat(32) + "\n").unwrap();

        let expected = [(Place::Credential, Some([1; 32])), (Place::Current, Some([10; 32]))];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn what_is_no_key_is_told_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        for text in ["", "0a", &"0".repeat(63), &"x".repeat(64), "\u{fffd}"] {
            fs::write(&path, text).unwrap();

            let candidates = files(folder.path()).read().candidates;

            let reason = candidates[0].1.as_ref().unwrap_err().to_string();
            assert!(reason.contains("master.key` holds no key"), "{reason}");
        }
    }
}
