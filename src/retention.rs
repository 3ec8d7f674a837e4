//! What retention has to know of the edges: the settings, the records that only they can read, the trash.

use std::{fs, io, path::Path, time::SystemTime};

use hivewright_actors::{
    clock::{Timestamp, millis},
    ids::TaskId,
    retention::terms::{Cut, Keeping, Lot, Terms},
    task::records::LaneKey,
};

use crate::{
    memory::rows,
    removal::{if_there, remove_tree},
    settings::{home::Home, live::Live},
    teams::self_changes,
    time,
    tools::org::{escalate, idempotency},
    transcript::files,
    vault::audit,
};

/// See [`Keeping`].
#[derive(Clone, Debug)]
pub struct Keeper {
    /// How long things are kept, as it is set then.
    pub live: Live,
    pub home: Home,
}

impl Keeping for Keeper {
    fn terms(&self) -> Result<Terms, String> {
        let config = self.live.config_now().map_err(|problems| problems.to_string())?;
        Ok(config.retention)
    }

    fn lots(&self, cut: Cut) -> Vec<Lot> {
        vec![
            Lot::all(audit::before(cut.audit)),
            idempotency::lot(cut.now),
            escalate::before(cut.tasks),
            self_changes::before(cut.audit),
        ]
    }

    fn chains(&self) -> Vec<u8> {
        rows::prefix()
    }

    fn told_by(&self, key: &[u8], value: &[u8]) -> Option<TaskId> {
        rows::told_by(key, value)
    }

    fn empty_trash(&self, before: Timestamp) {
        let emptied = empty(&self.home.trash(), before);
        if let Err(error) = emptied {
            tracing::warn!(%error, "the trash cannot be emptied; look at the folder `trash` of the run dir");
        }
    }

    fn remove_transcript(&self, session: &LaneKey) -> Result<(), String> {
        files::remove(&self.home.history(), session).map_err(|error| error.to_string())
    }
}

/// Removes what was moved into a folder before a moment. One thing that stays keeps no other.
fn empty(trash: &Path, before: Timestamp) -> io::Result<()> {
    let Some(entries) = if_there(fs::read_dir(trash))? else { return Ok(()) };
    let mut failed = None;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let found = entry.metadata()?;
        if moved_at(&entry.file_name().to_string_lossy(), &found) >= before {
            continue;
        }
        let removed = if found.is_dir() { remove_tree(&path) } else { fs::remove_file(&path) };
        match removed {
            Ok(()) => tracing::info!(path = %path.display(), "removed from the trash"),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// When something was put there: its name says so, or else when it was last changed.
fn moved_at(name: &str, found: &fs::Metadata) -> Timestamp {
    let said = name.rsplit('-').next().and_then(time::parse_compact);
    let changed = || {
        Some(Timestamp(millis(found.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?)))
    };
    // What cannot be dated stays.
    said.or_else(changed).unwrap_or(Timestamp(u64::MAX))
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{ids::TeamKey, store::keys::prefix_of};

    use super::*;
    use crate::{
        removal::tests::{closed_folder, unprivileged},
        settings::tests::place,
    };

    /// OR-97: seven days, whether or not something in a folder was changed since.
    #[test]
    fn the_trash_is_emptied_of_what_is_old() {
        let place = place();
        let trash = place.home.trash();
        for name in ["scouts-1-20231114T221320Z", "scouts-2-20231121T221320Z", "notes"] {
            place.write(&trash.join(name).join("team-rules/a.md"), "rule");
        }
        place.write(&trash.join("old-1-20231114T221320Z"), "a file");
        closed_folder(&trash.join("closed-1-20231114T221320Z"));

        // 2023-11-20T00:00:00Z
        unprivileged(|| empty(&trash, Timestamp(1_700_438_400_000))).unwrap();

        let mut left: Vec<_> = fs::read_dir(&trash)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["notes", "scouts-2-20231121T221320Z"]);
        empty(&place.home.run().join("nothing"), Timestamp(0)).unwrap();
    }

    /// OR-97: what teams changed about themselves is kept as long as audits are.
    #[test]
    fn old_changes_of_teams_go() {
        let change = |at| {
            let row = serde_json::json!({
                "id": "c1", "team": { "name": "scouts", "generation": 1 }, "file": "team-rules/a.md",
                "reason": "", "before": "", "after": "", "task": "task-1", "at": at,
            });
            row.to_string().into_bytes()
        };
        let place = place();
        let live = Live::new(place.home.clone(), place.environment.clone());
        let keeper = Keeper { live, home: place.home.clone() };
        let cut = Cut { now: Timestamp(9), tasks: Timestamp(7), audit: Timestamp(5) };
        let key = prefix_of("edge\0self-change", &());
        let lots = keeper.lots(cut);
        let lot = lots.iter().find(|lot| lot.range.0 == key).unwrap();

        let gone = [4, 5, 8].map(|at| (lot.is_old)(&key, &change(at)).unwrap());

        assert_eq!(gone, [true, false, false]);
    }

    /// CH-91: whether or not transcripts are written, and also if there is none.
    #[test]
    fn a_transcript_is_removed_with_its_session() {
        let place = place();
        let [gone, stays] = ["t-1", "t-2"]
            .map(|topic| place.home.history().join(format!("main-main-{topic}.jsonl")));
        place.write(&gone, "words");
        place.write(&stays, "words");
        let live = Live::new(place.home.clone(), place.environment.clone());
        let keeper = Keeper { live, home: place.home.clone() };
        let session = LaneKey::of(TeamKey::first("main"), "t-1");

        let removed = [keeper.remove_transcript(&session), keeper.remove_transcript(&session)];

        assert_eq!(removed, [Ok(()), Ok(())]);
        assert!(!gone.exists() && stays.exists());
    }
}
