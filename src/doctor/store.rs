//! The store, read whole: whether every record can be read and agrees with the others.

use std::ops::ControlFlow;

use hivewright_actors::{
    consistency,
    storage::{Order, Storage, StorageError},
};

use crate::api::doctor::Finding;

const ID: &str = "store";
/// More faults than this are counted, and not named.
const NAMED: usize = 100;
/// What to do about a record that cannot be read, or that others do not agree with.
const OF_RECORDS: &str = "what depends on it ends visibly; a backup may hold it whole";
/// What to do about the archive. An index holds nothing that is not in records, but records may be torn as well.
const OF_ARCHIVE: &str = "stop the service, then `hivewright backup` and `hivewright restore FILE --force` with the file that it names: \
    the indexes are made anew; if that backup cannot be made, records are torn, too: `hivewright restore --newest`";

/// Reads every record, and tells each time how many were read. Blocks; commits go on meanwhile.
pub fn read_all(storage: &dyn Storage, read: &dyn Fn(u64)) -> Result<Vec<Finding>, StorageError> {
    let (mut records, mut damaged, mut findings) = (0, 0, Vec::new());
    let mut note = |fault: String, fix: &str| {
        damaged += 1;
        if damaged <= NAMED {
            findings.push(Finding::error(ID, fault, fix));
        }
    };
    let archive = storage.tiers().map_or(Ok(Vec::new()), |tiers| tiers.faults())?;
    let is_torn = !archive.is_empty();
    archive.into_iter().for_each(|fault| note(fault, OF_ARCHIVE));
    let scanned = storage.scan(&[], &[0xff; 16], Order::Rising, &mut |_, value| {
        records += 1;
        read(records);
        if let Err(error) = value {
            note(error.to_string(), OF_RECORDS);
        }
        ControlFlow::Continue(())
    });
    match scanned.and_then(|()| consistency::faults(storage)) {
        Ok(faults) => faults.into_iter().for_each(|fault| note(fault, OF_RECORDS)),
        // An archive that is torn may not be read to its end.
        Err(error) if is_torn => note(error.to_string(), OF_RECORDS),
        Err(error) => return Err(error),
    }
    let summary = match damaged {
        0 => Finding::ok(ID, format!("all {records} records are readable")),
        _ => {
            let message = format!("{damaged} faults in {records} records");
            Finding::error(ID, message, "keep a copy of the store before you change anything")
        }
    };
    findings.insert(0, summary);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hivewright_actors::{
        archive::Archive, audit::Audit, clock::Timestamp, store::records::Writes,
    };

    use super::*;
    use crate::{
        api::doctor::FindingState,
        settings::config::Durability,
        storage::{Home, open, unwatched},
    };

    /// SC-111
    #[test]
    fn an_archive_whose_index_is_lost_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(&dir.path().join("data"), &dir.path().join("run"));
        fs::create_dir_all(dir.path().join("run")).unwrap();
        let storage = open::open(&home, Durability::Process, &unwatched).unwrap();
        let sound = read_all(&storage, &|_| {}).unwrap();

        let archive = rusqlite::Connection::open(home.store.join("history.db")).unwrap();
        let tear =
            "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'done.by_facet'";
        archive.execute_batch(tear).unwrap();
        let torn = read_all(&storage, &|_| {}).unwrap();

        assert!(matches!(&*sound, [summary] if summary.fix.is_none()), "{sound:?}");
        assert!(torn.iter().any(|found| found.message.starts_with("`history.db`: ")), "{torn:?}");
    }

    /// SC-111: what a list would lack is an error, and the way out is said.
    #[test]
    fn an_index_that_lacks_a_record_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(&dir.path().join("data"), &dir.path().join("run"));
        fs::create_dir_all(dir.path().join("run")).unwrap();
        let storage = open::open(&home, Durability::Process, &unwatched).unwrap();
        let line = Audit {
            id: "a".to_owned(),
            at: Timestamp(1),
            actor: "ann".into(),
            action: "pause".to_owned(),
            target: String::new(),
            from: "api".to_owned(),
            outcome: "ok".to_owned(),
            call: None,
        };
        storage.commit(&Writes::new().put(&line).batch().unwrap()).unwrap();
        while storage.take_next().unwrap() {}
        let sound = read_all(&storage, &|_| {}).unwrap();

        let archive = rusqlite::Connection::open(home.store.join("history.db")).unwrap();
        archive.execute_batch("UPDATE audit SET facet = 0").unwrap();
        let damaged = read_all(&storage, &|_| {}).unwrap();

        assert!(matches!(&*sound, [summary] if summary.fix.is_none()), "{sound:?}");
        let [_, found] = &*damaged else { panic!("{damaged:?}") };
        assert!(
            found.message.starts_with("`history.db`: the index of the audit lacks "),
            "{found:?}"
        );
        assert_eq!((found.state, found.fix.as_deref()), (FindingState::Error, Some(OF_ARCHIVE)));
    }
}
