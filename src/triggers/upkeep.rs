//! Upkeep: what team files ask for is done. Their triggers are kept, work that waits for money tries
//! again when caps change, and the scheduler hears of teams that rest, work again or are gone.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use actix::Addr;
use futures_util::future::BoxFuture;
use hivewright_actors::{
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
use tokio::task::JoinHandle;

use super::premises::Outlook;
use crate::{
    settings::{
        home::{Home, TEAM_FILE},
        live::Live,
        watch::FolderWatch,
    },
    teams::last_caps::LastCaps,
};

/// What changes without a sound, such as a file behind a link, is looked at this often.
const LOOKS_ANYWAY: Duration = Duration::from_secs(10);

/// Ends when it is dropped.
pub struct Upkeep(JoinHandle<()>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Upkeep {
    /// Begins, and goes on as long as the service runs.
    pub fn start(
        scheduler: Addr<Scheduler>,
        queue: Addr<Queue>,
        view: OrgView,
        live: Live,
        home: Home,
        outlook: Outlook,
        last_caps: LastCaps,
    ) -> Self {
        let keeper = Keeper {
            scheduler,
            queue,
            caps: HashMap::new(),
            view,
            live,
            home,
            outlook,
            last_caps,
            kept: HashMap::new(),
        };
        Self(actix::spawn(keeper.run()))
    }
}

struct Keeper {
    scheduler: Addr<Scheduler>,
    queue: Addr<Queue>,
    view: OrgView,
    live: Live,
    home: Home,
    outlook: Outlook,
    last_caps: LastCaps,
    kept: HashMap<TeamKey, Wanted>,
    /// What teams may spend, as their files said last.
    caps: HashMap<TeamKey, Caps>,
}

impl Keeper {
    async fn run(mut self) {
        let mut changes = self.view.changes();
        let mut tree = changes.borrow_and_update().clone();
        let mut folder_watch = self.folder_watch(&tree);
        loop {
            if !tree.is_empty() {
                self.maintain(&tree).await;
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
        let folders = tree.iter().map(|team| self.home.team(team.name.as_str()));
        let folders: Vec<_> = folders.collect();
        FolderWatch::at(folders.iter().map(PathBuf::as_path)).for_file(TEAM_FILE)
    }

    async fn maintain(&mut self, tree: &Tree) {
        let teams: Vec<TeamKey> = tree
            .iter()
            .filter(|team| team.state != TeamState::Draining)
            .map(|team| team.key())
            .collect();
        self.kept.retain(|team, _| teams.contains(team));
        self.caps.retain(|team, _| teams.contains(team));
        for team in teams {
            // A file that is wrong takes nothing away.
            let Ok(file) = self.live.team(&team.name).await else {
                continue;
            };
            let caps = file.budgets;
            self.last_caps.note(&team.name, caps);
            let before = self.caps.insert(team.clone(), caps);
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
            let known = self.kept.get(&team);
            // Nothing was wanted and nothing is: the usual case costs no message after the first.
            if known == Some(&wanted) {
                continue;
            }
            let maintain = Maintain { team: team.clone(), wanted: wanted.clone() };
            if let Ok(Ok(())) = self.scheduler.send(maintain).await {
                self.kept.insert(team, wanted);
            }
        }
    }

    async fn subagents(&self, team: &TeamKey) -> Vec<String> {
        let (outlook, of) = (self.outlook.clone(), team.name.clone());
        let names = tokio::task::spawn_blocking(move || outlook.subagents(&of)).await;
        names.unwrap_or_default()
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
