//! The store, read whole: whether every record can be read and agrees with the others.

use std::ops::ControlFlow;

use hivewright_actors::{
    consistency,
    storage::{Order, Storage, StorageError},
};

use crate::api::doctor::Finding;

const ID: &str = "store";
/// More damaged records than this are counted, and not named.
const NAMED: usize = 100;

/// Reads every record, and tells each time how many were read. Blocks; commits go on meanwhile.
pub fn read_all(storage: &dyn Storage, read: &dyn Fn(u64)) -> Result<Vec<Finding>, StorageError> {
    let (mut records, mut damaged, mut findings) = (0, 0, Vec::new());
    let mut note = |fault: String| {
        damaged += 1;
        if damaged <= NAMED {
            let fix = "what depends on it ends visibly; a backup may hold it whole";
            findings.push(Finding::error(ID, fault, fix));
        }
    };
    storage.scan(&[], &[0xff; 16], Order::Rising, &mut |_, value| {
        records += 1;
        read(records);
        if let Err(error) = value {
            note(error.to_string());
        }
        ControlFlow::Continue(())
    })?;
    consistency::faults(storage)?.into_iter().for_each(note);
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
