//! Settings files and rules.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use hivewright_actors::store::records::Writes;
use serde_json::json;

use super::{
    super::{
        plan::{Marked, NewFile},
        rows::LogRow,
        source::Source,
    },
    ApplyError, Work, disk,
};

impl Work<'_> {
    pub(super) fn files(&mut self, files: &[Marked<NewFile>]) -> Result<(), ApplyError> {
        for Marked { mark, thing } in files {
            let path = self.site.home.data().join("config").join(thing.name);
            write_whole(&path, thing.text.as_bytes()).map_err(disk(&path))?;
            let writes = self.mark(Writes::new(), mark, thing.name);
            self.commit(writes, 1)?;
        }
        Ok(())
    }

    pub(super) fn rules(
        &mut self,
        rules: &[Marked<String>],
        source: &Source,
    ) -> Result<(), ApplyError> {
        for Marked { mark, thing: name } in rules {
            let from = source.data.join("rules").join(name);
            let to = self.site.home.rules().join(name);
            let text = read_plain(&from).map_err(disk(&from))?;
            write_whole(&to, &text).map_err(disk(&to))?;
            let writes = self.mark(Writes::new(), mark, name);
            self.commit(writes, 1)?;
        }
        Ok(())
    }

    pub(super) fn logs(&mut self, logs: &Marked<Vec<LogRow>>) -> Result<(), ApplyError> {
        let path = self.site.beside("log.jsonl");
        let lines: String = logs.thing.iter().map(log_line).collect();
        write_whole(&path, lines.as_bytes()).map_err(disk(&path))?;
        let writes = self.mark(Writes::new(), &logs.mark, "log");
        self.commit(writes, 1)
    }
}

fn log_line(row: &LogRow) -> String {
    let context = row.context.as_deref().map(|context| {
        let parsed = serde_json::from_str(context);
        parsed.unwrap_or_else(|_| serde_json::Value::from(context))
    });
    let line = json!({
        "id": row.id,
        "at": row.created_at,
        "level": row.level,
        "message": row.message,
        "context": context,
        "duration_ms": row.duration_ms,
    });
    format!("{line}\n")
}

/// What a file holds, unless it has become a link since it was looked at.
fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}

/// Writes a file for the owner alone, whole or not at all.
pub(in super::super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".importing");
    let partial = path.with_file_name(name);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
