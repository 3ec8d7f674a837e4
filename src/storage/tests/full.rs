//! A disk that fills up beneath the store.

use std::io;

use hivewright_actors::storage::StorageError;
use rustix::mount::{MountFlags, UnmountFlags};

use super::*;

/// A small disk of its own below a store, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where nothing may be mounted.
    fn mount(place: &Path, size: &str) -> Option<Self> {
        let options = std::ffi::CString::new(format!("size={size}")).unwrap();
        let mounted = rustix::mount::mount("tmpfs", place, "tmpfs", MountFlags::empty(), &*options);
        match mounted {
            Ok(()) => Some(Self(place.to_owned())),
            Err(errno) => {
                eprintln!("SKIPPED: a disk cannot be mounted here ({errno}); run this as root");
                None
            }
        }
    }

    /// Takes all that is left, as another program would.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// SC-115: a full disk is told before sled meets it, which would give up for good. What was acknowledged is
/// there, and commits go on when there is room.
#[test]
fn a_full_disk_refuses_commits_and_the_store_goes_on_when_there_is_room() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("run"), "64m") else { return };
    let storage = place.open();
    let mut acknowledged = Records::new();
    for round in 0..3 {
        let filler = disk.fill();
        let mut refused = None;
        for number in 0..5_000 {
            let key = format!("{round}/{number:05}").into_bytes();
            let value = noise(round * 5_000 + number, 16_000);
            let batch = Batch::from(vec![(key.clone(), Some(value.clone()))]);
            match storage.commit(&batch) {
                Ok(()) => drop(acknowledged.insert(key, value)),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let refused = refused.expect("the disk is full at some time");
        assert!(matches!(refused, StorageError::Full), "{refused}");
        assert!(!acknowledged.is_empty());
        fs::remove_file(filler).unwrap();

        storage.commit(&one()).unwrap();

        let keys: Vec<_> = acknowledged.keys().cloned().collect();
        for key in keys {
            assert_eq!(storage.get(&key).unwrap(), acknowledged.remove(&key));
            let gone = vec![(key, None)];
            storage.commit(&Batch::from(gone)).unwrap();
        }
    }
}

fn one() -> Batch {
    Batch::from(vec![(b"one".to_vec(), Some(b"1".to_vec()))])
}

/// SC-112: nothing is wrong with a store on a disk without room, so nobody is sent to restore it.
#[test]
fn a_start_on_a_full_disk_says_so_and_leaves_the_store_alone() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("run"), "48m") else { return };
    let storage = place.open();
    storage.commit(&one()).unwrap();
    drop(storage);
    // What was allocated ahead goes too.
    let file = fs::File::options().write(true).open(place.path("run/store/db"));
    let file = file.unwrap();
    file.set_len(file.metadata().unwrap().len()).unwrap();
    let filler = disk.fill();

    let refused = place.try_open().unwrap_err();
    fs::remove_file(filler).unwrap();
    let again = place.open().get(b"one").unwrap();

    let said = refused.to_string();
    assert!(said.contains("is full"), "{said}");
    assert!(!said.contains("restore"), "{said}");
    assert_eq!(again, Some(b"1".to_vec()));
}

/// SC-112
#[test]
fn a_start_on_a_read_only_disk_says_so() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("run"), "48m") else { return };
    drop(place.open());
    rustix::mount::mount_remount(&disk.0, MountFlags::RDONLY, "").unwrap();

    let said = place.try_open().unwrap_err().to_string();

    assert!(said.contains("read-only"), "{said}");
    assert!(!said.contains("restore"), "{said}");
}

/// SC-112: also where what is left is enough for a copy of the store, and not for sled to open it.
#[test]
fn a_start_that_runs_out_of_room_does_not_call_the_store_damaged() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("run"), "96m") else { return };
    let storage = place.open();
    for number in 0..600 {
        commit(&storage, [put(&format!("{number:04}"), noise(number, 8_000))]);
    }
    drop(storage);
    let database = place.path("run/store/db");
    let file = fs::File::options().write(true).open(&database).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length).unwrap();
    drop(file);

    for left in (0..=16).map(|step| length + step * 256 * 1024) {
        let filler = disk.fill();
        let file = fs::File::options().write(true).open(&filler).unwrap();
        let filled = file.metadata().unwrap().len();
        file.set_len(filled.saturating_sub(left)).unwrap();
        let opened = place.try_open();
        fs::remove_file(filler).unwrap();

        if let Err(error) = opened {
            assert!(matches!(error, OpenError::Full { .. }), "{left}: {error}");
        }
    }
    assert_eq!(place.open().records(), 600);
}
