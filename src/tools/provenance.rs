//! Provenance: what a call reads and changes, as whoever reads it later must know.

use std::{ffi::OsStr, os::fd::AsFd, path::Path, sync::Arc};

use hivewright_actors::{policy::caution::SELF_FILE, task::Label};

use super::contract::{ToolContext, ToolError};
use crate::{
    sandbox::{
        process,
        workspace::{governance, write::Written},
    },
    settings::team::Access,
    taint::{TaintError, Window, Worker, seen::Seen, watch::Watch},
};

impl From<TaintError> for ToolError {
    fn from(error: TaintError) -> Self {
        tracing::error!(%error, "a file's label cannot be kept");
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

    /// Comes before a change of a file, in a turn that is not believed.
    pub(super) async fn before_change(
        &self,
        tool: &str,
        path: &str,
    ) -> Result<Option<Window>, ToolError> {
        match (self.label, self.grant.workspace.named_place(path)) {
            (Label::Untrusted, Some(place)) => {
                let window = self.grant.taint.begin(self.worker(tool), vec![place]);
                Ok(Some(window.await?))
            }
            _ => Ok(None),
        }
    }

    /// Comes after it.
    pub(super) async fn after_change(
        &self,
        tool: &str,
        window: Option<Window>,
        written: &Result<Written, ToolError>,
        scope: Scope,
    ) -> Result<(), ToolError> {
        let (window, written) = match (window, written) {
            (Some(window), Ok(written)) => (Some(window), written),
            (Some(window), Err(_)) => return Ok(window.label_changes().await?),
            (None, Ok(written)) => (None, written),
            (None, Err(_)) => return Ok(()),
        };
        let seen = Seen::of(&written.file).ok();
        let inside = written.path.strip_prefix(self.grant.workspace.real_path());
        let governed = inside.ok().filter(|inside| governance::is_governed(inside));
        if let Some(inside) = governed {
            // What a part was changed of may hold more than anyone looked at.
            if scope == Scope::Whole {
                self.grant.taint.trust(&written.path);
            }
            let worker = self.worker(tool);
            self.grant.taint.audit_governed(&worker, inside, written.class).await?;
        }
        match window {
            // A person agreed to it, or a rule of the operator does.
            Some(window) if governed.is_some() => window.dismiss().await,
            Some(window) => window.label(vec![(written.path.clone(), seen)]).await,
            None if scope == Scope::Whole => self.grant.taint.written_anew(&written.path).await,
            None => self.grant.taint.edited(&written.path, seen).await,
        }?;
        Ok(())
    }

    /// Comes before a command.
    pub(super) async fn before_command(&self, tool: &str) -> Result<Supervision, ToolError> {
        let is_changed = |access| access == Access::ReadWrite;
        let roots = self.grant.workspace.real_roots();
        let worker = self.worker(tool);
        Ok(match self.label {
            Label::Untrusted => {
                // What the sandbox makes there is nobody's work.
                let (workspace, taint) =
                    (Arc::clone(&self.grant.workspace), self.grant.taint.clone());
                self.blocking(move |_| {
                    process::protect_self(&workspace)?;
                    for name in [SELF_FILE, governance::GOVERNED_FILE] {
                        taint.trust_if_undoubted(&workspace.real_path().join(name));
                    }
                    Ok(())
                })
                .await?;
                let roots = roots.filter(|(_, access)| is_changed(*access));
                let roots = roots.map(|(path, _)| path.to_owned()).collect();
                Supervision::Untrusted(self.grant.taint.begin(worker, roots).await?)
            }
            Label::Trusted => {
                let roots = roots.map(|(path, _)| path.to_owned()).collect();
                Supervision::Trusted(Box::new(self.grant.taint.watch(worker, roots).await?))
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
