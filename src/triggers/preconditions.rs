//! Preconditions of a firing beyond its trigger: subagents, the heartbeat list, whether there is
//! anything to learn from.

use std::{
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    clock::Timestamp,
    excerpt::{self, Unit},
    ids::{TeamKey, TeamName},
    inbox,
    org::{record::Phase, view::OrgView},
    scheduler::{
        firing::{Findings, Preconditions},
        maintain::HEARTBEAT_OK,
        trigger::{SystemKind, Trigger, validation::Problem},
    },
    store::StoreHandle,
    task::{
        Audience, Kind, Lane, Task,
        cause::Cause,
        records::{self as tasks, EndedTask},
    },
};

use crate::{
    prompt::compose::Prompts,
    removal::if_there,
    settings::home::Home,
    taint::{Taint, seen::Seen},
};

/// The list that a heartbeat goes through.
const HEARTBEAT_FILE: &str = "HEARTBEAT.md";
/// The longest such list, in bytes.
const LONGEST_LIST: u64 = 64 * 1024;

/// See [`Preconditions`]. Cheap to clone.
#[derive(Clone)]
pub struct TeamPreconditions {
    pub home: Home,
    pub prompts: Prompts,
    pub view: OrgView,
    pub store: StoreHandle,
}

impl TeamPreconditions {
    async fn heartbeat(&self, team: &TeamKey) -> Findings {
        let folder = self.home.team(team.name.as_str());
        let taint = self.prompts.taint().clone();
        let list = blocking::run(move || read_list(&folder, &taint)).await;
        let list = match list.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(list) => list,
            Err(error) => {
                let text = format!("{HEARTBEAT_FILE} is not read: {error}");
                self.prompts.taint().report(&team.name, &text);
                String::new()
            }
        };
        if list.trim().is_empty() && !self.has_mail(team).await {
            return Findings::nothing("nothing to check");
        }
        let order = format!(
            "This is your heartbeat. Go through the list below and through what is in your inbox, and say what needs a person's attention. \
             If nothing does, report `noop`, or answer {HEARTBEAT_OK} and nothing else.\n\n## {HEARTBEAT_FILE}\n\n{}",
            match list.trim() {
                "" => "(the list is empty)",
                list => list,
            }
        );
        Findings { order: Some(order), ..Findings::default() }
    }

    async fn has_mail(&self, team: &TeamKey) -> bool {
        let generation = team.generation;
        let lane = Lane { team: team.name.clone(), topic: None };
        // What people caused waits for them.
        let everyone = Audience::new(Cause::System, None);
        let read = self.store.read(move |storage| {
            let events = inbox::waiting(storage, &lane, generation)?;
            Ok(events.iter().any(|(_, event)| event.is_for(&lane, &everyone)))
        });
        read.await.unwrap_or_default()
    }

    async fn cycle(&self, kind: SystemKind, trigger: &Trigger) -> Findings {
        let team = &trigger.team;
        let unready = match self.view.now().get(team.name.as_str()) {
            None => Some("the team is gone"),
            Some(record) if record.phase != Phase::Ready => Some("the team has not set itself up"),
            Some(record) if record.scope.is_empty() => Some("the team has no scope"),
            Some(_) => None,
        };
        if let Some(reason) = unready {
            return Findings::nothing(reason);
        }
        if !self.worked_since(team, trigger.last_fired_at.unwrap_or_default()).await {
            return Findings::nothing("nothing happened since the last cycle");
        }
        let name = match kind {
            SystemKind::Learning => "learning-cycle",
            _ => "reflection-cycle",
        };
        let (this, of) = (self.clone(), team.name.clone());
        let text = blocking::run(move || {
            let library = this.prompts.library(&of);
            library.body(library.skill(name)?).ok()
        });
        // In full, also where a subagent does it, which has skills of its own.
        match text.await.unwrap_or_default() {
            Some(text) => Findings {
                order: Some(format!("{}\n\n{text}", trigger.definition.task)),
                ..Findings::default()
            },
            None => Findings {
                problem: Some(Problem::new("skill", format!("`{name}` cannot be read"))),
                ..Findings::default()
            },
        }
    }

    /// The team has ended something that is no cycle itself.
    async fn worked_since(&self, team: &TeamKey, since: Timestamp) -> bool {
        let store = &self.store;
        let key = team.clone();
        let read = store.read(move |storage| {
            let of = |ended: &EndedTask| ended.team == key.name && !ended.is_chat;
            let wanted = |task: &Task| {
                let of_cycle = task.kind == Kind::Trigger
                    && (task.from.starts_with("trigger learning-cycle")
                        || task.from.starts_with("trigger reflection-cycle"));
                task.generation == key.generation && !of_cycle
            };
            tasks::ended(storage, since, 1, of, wanted)
        });
        // A look that fails keeps nobody from learning.
        read.await.map_or(true, |tasks| !tasks.is_empty())
    }

    async fn subagent(&self, team: &TeamKey, subagent: &str) -> Option<Problem> {
        let (prompts, of) = (self.prompts.clone(), team.name.clone());
        let known = blocking::run(move || prompts.subagents(&of)).await;
        unknown_subagent(&team.name, subagent, &known.ok()?)
    }
}

/// Why a team's subagent cannot be asked, if it has none of that name.
pub(crate) fn unknown_subagent(
    team: &TeamName,
    subagent: &str,
    known: &[String],
) -> Option<Problem> {
    let listed = match known {
        [] => "it has none".to_owned(),
        known if known.iter().any(|name| name == subagent) => return None,
        known => format!("there are {}", known.join(", ")),
    };
    let reason = format!("team `{team}` has no subagent `{subagent}`; {listed}");
    Some(Problem::new("subagent", reason))
}

/// The list of a team; empty if there is none.
fn read_list(folder: &Path, taint: &Taint) -> io::Result<String> {
    // A team could have put a link there, to have us read what it cannot.
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = if_there(options.open(folder.join(HEARTBEAT_FILE)))?;
    let Some(file) = file else { return Ok(String::new()) };
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("has more than one hard link, or is no regular file"));
    }
    let mut bytes = Vec::new();
    (&file).take(LONGEST_LIST).read_to_end(&mut bytes)?;
    let place = folder.canonicalize()?.join(HEARTBEAT_FILE);
    if Seen::of(&file).is_ok_and(|seen| taint.holds(&place, &seen)) {
        return Err(io::Error::other(
            "was written or changed by an untrusted turn; accept it, or write it anew",
        ));
    }
    let missing = usize::try_from(found.len().saturating_sub(LONGEST_LIST)).unwrap_or(usize::MAX);
    let rest = format!("they are in {HEARTBEAT_FILE}, which is too long to be followed");
    let list = String::from_utf8_lossy(&bytes);
    Ok(excerpt::marked(&list, missing, Unit::Byte, &rest))
}

impl Preconditions for TeamPreconditions {
    fn look(&self, trigger: &Trigger) -> Option<BoxFuture<'static, Findings>> {
        if trigger.system.is_none() && trigger.definition.subagent.is_none() {
            return None;
        }
        let (this, trigger) = (self.clone(), trigger.clone());
        Some(Box::pin(async move {
            if let Some(subagent) = &trigger.definition.subagent
                && let Some(problem) = this.subagent(&trigger.team, subagent).await
            {
                return Findings { problem: Some(problem), ..Findings::default() };
            }
            match trigger.system {
                None => Findings::default(),
                Some(SystemKind::Heartbeat) => this.heartbeat(&trigger.team).await,
                Some(kind) => this.cycle(kind, &trigger).await,
            }
        }))
    }
}

#[cfg(test)]
#[path = "tests/preconditions.rs"]
mod tests;
