//! Upkeep: what team files ask for is done. Their triggers are kept, work that waits for money tries
//! again when caps change, and the scheduler hears of teams that rest, work again or are gone.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use actix::Addr;
use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    budget::Caps,
    ids::{MAIN, TeamKey},
    org::{belongings::Belongings, record::TeamState, tree::Tree, view::OrgView},
    queue::{Queue, parking::UnparkAll},
    scheduler::{
        Scheduler,
        alarm::TeamsChanged,
        maintain::{Maintain, Wanted},
        manage::Forget,
    },
    store::records::Writes,
    task::WaitReason,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    prompt::compose::Prompts,
    settings::{
        home::{Home, TEAM_FILE},
        live::Live,
        watch::FolderWatch,
    },
    teams::last_caps::LastCaps,
};

/// What changes without a sound, such as a file behind a link, is looked at this often.
const LOOKS_ANYWAY: Duration = Duration::from_secs(10);

/// What upkeep works with.
pub struct Keeper {
    pub scheduler: Addr<Scheduler>,
    pub queue: Addr<Queue>,
    pub view: OrgView,
    pub live: Live,
    pub home: Home,
    pub prompts: Prompts,
    pub last_caps: LastCaps,
}

/// What the files of teams said last: the triggers they ask for, and what may be spent.
#[derive(Default)]
struct Found {
    kept: HashMap<TeamKey, Wanted>,
    caps: HashMap<TeamKey, Caps>,
}

impl Keeper {
    /// Begins, and goes on until what it returns is dropped.
    pub fn start(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(hivewright_actors::spawn::local(self.run()))
    }

    async fn run(self) {
        let mut found = Found::default();
        let mut changes = self.view.changes();
        let mut tree = changes.borrow_and_update().clone();
        let mut folder_watch = self.folder_watch(&tree);
        loop {
            if !tree.is_empty() {
                self.maintain(&tree, &mut found).await;
            }
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.scheduler.do_send(TeamsChanged);
                    tree = changes.borrow_and_update().clone();
                    folder_watch = self.folder_watch(&tree);
                }
                () = folder_watch.changed() => {}
                () = tokio::time::sleep(LOOKS_ANYWAY) => {}
            }
        }
    }

    /// Hears of the files of teams.
    fn folder_watch(&self, tree: &Tree) -> FolderWatch {
        let folders: Vec<_> = tree.iter().map(|team| self.home.team(team.name.as_str())).collect();
        FolderWatch::at(folders.iter().map(PathBuf::as_path)).for_file(TEAM_FILE)
    }

    async fn maintain(&self, tree: &Tree, found: &mut Found) {
        let teams: Vec<TeamKey> = tree
            .iter()
            .filter(|team| team.state != TeamState::Draining)
            .map(|team| team.key())
            .collect();
        found.kept.retain(|team, _| teams.contains(team));
        found.caps.retain(|team, _| teams.contains(team));
        for team in teams {
            // A file that is wrong takes nothing away.
            let Ok(file) = self.live.team(&team.name).await else { continue };
            let caps = file.budgets;
            self.last_caps.note(&team.name, caps);
            let before = found.caps.insert(team.clone(), caps);
            // More may be allowed than before: whoever waits for money tries again.
            if before.is_some_and(|before| before != caps) {
                self.queue.do_send(UnparkAll { reason: WaitReason::Budget, team: None });
            }
            let learning = if file.learning && team.name.as_str() != MAIN {
                Some(self.subagents(&team).await)
            } else {
                None
            };
            let wanted = Wanted { heartbeat: file.heartbeat.0, learning };
            let known = found.kept.get(&team);
            // Nothing was wanted and nothing is: the usual case costs no message after the first.
            if known == Some(&wanted) {
                continue;
            }
            let maintain = Maintain { team: team.clone(), wanted: wanted.clone() };
            if let Ok(Ok(())) = self.scheduler.send(maintain).await {
                found.kept.insert(team, wanted);
            }
        }
    }

    async fn subagents(&self, team: &TeamKey) -> Vec<String> {
        let (prompts, of) = (self.prompts.clone(), team.name.clone());
        blocking::run(move || prompts.subagents(&of)).await.unwrap_or_default()
    }
}

/// The triggers of a team that is being shut down.
pub struct Triggers(pub Addr<Scheduler>);

impl Belongings for Triggers {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let forgotten = self.0.send(Forget { team: team.clone() });
        Box::pin(async move {
            // The scheduler has deleted them itself: it alone knows what it is about to write.
            let _gone = forgotten.await;
            Vec::new()
        })
    }
}
