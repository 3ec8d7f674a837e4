//! Loading of a team's tools for a turn: each is what was verified, or is withheld.

use std::{io, sync::Arc};

use hivewright_actors::{
    ids::TeamName,
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

use super::{
    PluginTool, PluginTools,
    files::{self, Sources},
};
use crate::{plugins::written::Status, sandbox::workspace::Workspace, system::sha256};

/// A tool that a turn can call: it is what was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub tool: Arc<PluginTool>,
    pub source: Arc<str>,
}

/// The tools of a turn, and why others that it needs are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedTools {
    pub tools: Vec<Loaded>,
    /// Names with reasons.
    pub missing: Vec<(String, String)>,
}

/// Why a source is not run.
enum Unfit {
    /// It cannot be read now: nobody knows what it is.
    Unreadable(String),
    /// It is gone, or is not what was verified.
    Other(String),
}

impl PluginTools {
    /// The tools of a team by these names, as far as each is what was verified. Blocks.
    pub fn load<'a>(
        &self,
        team: &TeamName,
        workspace: &Workspace,
        names: impl IntoIterator<Item = &'a str>,
    ) -> LoadedTools {
        let mut loaded = LoadedTools::default();
        let mut sources = None;
        for name in names {
            let reason = match self.find(team, name) {
                None => "there is no such tool".to_owned(),
                Some(row) if row.status != Status::Active => match row.reason.as_str() {
                    "" => format!("it is {}", row.status),
                    reason => format!("it is {}: {reason}", row.status),
                },
                Some(tool) => {
                    let sources = sources.get_or_insert_with(|| Sources::open(workspace));
                    match self.verified(sources, &tool) {
                        Ok(source) => {
                            self.unreadable().remove(&(team.clone(), name.to_owned()));
                            loaded.tools.push(Loaded { tool, source });
                            continue;
                        }
                        Err(Unfit::Unreadable(reason)) => {
                            self.tell_unreadable(team, &tool, &reason);
                            reason
                        }
                        Err(Unfit::Other(reason)) => {
                            self.withhold(team, &tool, &reason);
                            reason
                        }
                    }
                }
            };
            loaded.missing.push((name.to_owned(), reason));
        }
        loaded
    }

    /// Takes a tool out of use whose source is not what was verified, and tells the operator. While it changes, and if it
    /// has changed since it was looked at, nothing is said of it: the next look finds what there is then.
    pub(super) fn withhold(&self, team: &TeamName, seen: &Arc<PluginTool>, reason: &str) {
        let Ok(_one) = self.0.changing.try_lock() else { return };
        let Ok((key, now)) = self.known(team, &seen.tool) else { return };
        if !Arc::ptr_eq(&now, seen) {
            return;
        }
        let row = PluginTool {
            reason: reason.to_owned(),
            ..self.changed(seen, Status::FailedVerification, "hivewright")
        };
        let text = format!(
            "The tool `{team}.{}` is withheld: {reason}. Register it anew, or remove it.",
            row.tool
        );
        tracing::warn!(%team, tool = row.tool, error = reason, "a tool of a team is withheld");
        let notice = self.notice(team, text);
        let writes = Writes::new().put_at(&format!("{key}/{}", row.tool), &row).put(&notice);
        // If it cannot be written, the next look finds the same.
        drop(self.0.store.commit(writes));
        self.know(&key, row);
    }

    /// Tells the operator of a tool whose source cannot be read now: once for each reason, until it can be read again.
    fn tell_unreadable(&self, team: &TeamName, tool: &PluginTool, reason: &str) {
        let place = (team.clone(), tool.tool.clone());
        let before = self.unreadable().insert(place, reason.to_owned());
        if before.as_deref() == Some(reason) {
            return;
        }
        let name = &tool.tool;
        tracing::warn!(%team, tool = name, error = reason, "a tool of a team cannot be read");
        let text = format!("The tool `{team}.{name}` cannot be used now: {reason}.");
        drop(self.0.store.commit(Writes::new().put(&self.notice(team, text))));
    }

    fn notice(&self, team: &TeamName, text: String) -> Notice {
        let (kind, now) = (NoticeKind::PluginFailed, self.0.clock.now());
        Notice::of_team(&self.0.ids, kind, team, text, Vec::new(), now)
    }

    /// The source of a tool, if it is what was verified; else why not. Blocks.
    fn verified(
        &self,
        sources: &io::Result<Sources>,
        tool: &PluginTool,
    ) -> Result<Arc<str>, Unfit> {
        let path = files::path(&tool.tool);
        let unreadable = |error: &io::Error| {
            let reason = format!("`{path}` cannot be read: {error}");
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::InvalidData => Unfit::Other(reason),
                _ => Unfit::Unreadable(reason),
            }
        };
        let sources = sources.as_ref().map_err(|error| {
            Unfit::Unreadable(format!("the sources of the team's tools cannot be used: {error}"))
        })?;
        let is_verified = |source: &String| sha256(source.as_bytes()) == tool.sha256;
        let found = sources.read(&tool.tool);
        if !tool.placed && !found.as_ref().is_ok_and(is_verified) {
            let kept = sources.read_version(&tool.tool, tool.version);
            let kept = kept.map_err(|error| unreadable(&error))?;
            if is_verified(&kept) {
                // A kill came between the row and the file: the version that was kept is put in its place, unless
                // somebody is about to. What cannot be put there now is put there by the next look.
                if let Ok(_one) = self.0.changing.try_lock() {
                    let _ = sources.place(&tool.tool, &kept);
                }
                return Ok(kept.into());
            }
        }
        match found {
            Ok(source) if is_verified(&source) => Ok(source.into()),
            Ok(_) => Err(Unfit::Other(format!("`{path}` is not what was verified"))),
            Err(error) => Err(unreadable(&error)),
        }
    }
}
