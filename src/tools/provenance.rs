//! Provenance: what a call reads and changes, as whoever reads it later must know.

use std::{ffi::OsStr, os::fd::AsFd, path::Path};

use hivewright_actors::task::Label;

use super::{contract::ToolContext, error::ToolError, grant::Grant};
use crate::{
    sandbox::workspace::{governance, write::Written},
    taint::{TaintError, label::Worker, seen::Seen, watch::Watch, window::Window},
};

impl From<TaintError> for ToolError {
    fn from(error: TaintError) -> Self {
        tracing::error!(%error, "the label of a file cannot be kept; the call fails");
        Self::failed("the change cannot be recorded now; try again later")
    }
}

/// How a call changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Whole,
    /// A part: the rest is what it was.
    Part,
}

/// Watches a command.
pub(super) enum Supervision {
    /// What it changes is labelled.
    Untrusted(Window),
    /// What it changes is labelled if it reads something that is.
    Trusted(Box<Watch>),
}

impl ToolContext {
    fn worker(&self, tool: &str) -> Worker {
        Worker {
            team: self.grant.team.clone(),
            task: self.caller.task.clone(),
            tool: tool.to_owned(),
        }
    }

    /// The answer holds something of this open file. Said after it was read.
    pub(super) fn has_read(&self, place: &Path, file: impl AsFd) {
        if !self.grant.taint.is_quiet()
            && Seen::of(file).is_ok_and(|seen| self.grant.taint.holds(place, &seen))
        {
            self.believe(Label::Untrusted);
        }
    }

    /// The answer names this entry of a folder.
    pub(super) fn has_named(&self, place: &Path, (folder, name): (impl AsFd, &OsStr)) {
        if !self.grant.taint.is_quiet()
            && Seen::at(folder, name).is_ok_and(|seen| self.grant.taint.holds(place, &seen))
        {
            self.believe(Label::Untrusted);
        }
    }

    /// Writes a file, if there is room for it.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> Result<Written, ToolError> {
        let Grant { workspace, sandbox, .. } = &self.grant;
        sandbox.quota().admit(workspace, path, content.len() as u64)?;
        Ok(workspace.write(path, content, &|place| self.admit(place))?)
    }

    /// Changes a file, and labels what a turn wrote that is not believed. The work answers what it wrote,
    /// if it did.
    pub(super) async fn change(
        &self,
        tool: &str,
        path: &str,
        scope: Scope,
        work: impl FnOnce(&Self) -> Result<(String, Option<Written>), ToolError> + Send + 'static,
    ) -> Result<String, ToolError> {
        let Grant { team, workspace, taint, .. } = &self.grant;
        let window = match (self.label, workspace.named_place(path)) {
            (Label::Untrusted, Some(place)) => {
                Some(taint.begin(self.worker(tool), vec![place]).await?)
            }
            _ => None,
        };
        let (told, written) = match self.blocking(work).await {
            Ok((told, Some(written))) => (told, written),
            unwritten => {
                if let Some(window) = window {
                    window.label_changes().await?;
                }
                return unwritten.map(|(told, _)| told);
            }
        };
        let seen = Seen::of(&written.file).ok();
        let inside = written.path.strip_prefix(workspace.real_path());
        let governed = inside.ok().filter(|inside| governance::is_governed(inside));
        if let Some(inside) = governed {
            // What a part was changed of may hold more than anyone looked at.
            if scope == Scope::Whole {
                taint.trust(&written.path);
            }
            taint.audit_governed(&self.worker(tool), inside, written.class).await?;
        }
        match window {
            // A person agreed to it, or a rule of the operator does.
            Some(window) if governed.is_some() => window.dismiss().await,
            Some(window) => window.label(vec![(written.path.clone(), seen)]).await,
            None if scope == Scope::Whole => taint.written_anew(&written.path).await,
            None => taint.edited(&written.path, seen).await,
        }?;
        tracing::debug!(%team, tool, path, class = %written.class, "file changed");
        Ok(told)
    }

    /// Comes before a command.
    pub(super) async fn before_command(&self, tool: &str) -> Result<Supervision, ToolError> {
        let Grant { workspace, taint, .. } = &self.grant;
        let (roots, worker) = (workspace.real_roots(), self.worker(tool));
        Ok(match self.label {
            Label::Untrusted => {
                Supervision::Untrusted(taint.begin_for_command(worker, workspace).await?)
            }
            Label::Trusted => {
                let roots = roots.map(|(path, _)| path.to_owned()).collect();
                Supervision::Trusted(Box::new(taint.watch(worker, roots).await?))
            }
        })
    }

    /// Comes after it, when nothing that it started lives any more.
    pub(super) async fn after_command(&self, supervision: Supervision) -> Result<(), ToolError> {
        match supervision {
            Supervision::Untrusted(window) => window.label_changes().await?,
            Supervision::Trusted(watch) => {
                if watch.end().await? {
                    self.believe(Label::Untrusted);
                }
            }
        }
        Ok(())
    }
}
