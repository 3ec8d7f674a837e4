//! Plugins at the start: settled for every team, and again whenever a team, a package or a secret changes.

use std::sync::Arc;

use hivewright_actors::{blocking, org::record::TeamState, spine::Spine};
use tokio::sync::Notify;

use super::storage::Context;
use crate::plugins::instance::Instances;

/// Settles the plugins of all teams until the service ends.
pub(super) fn settle(
    plugins: Instances,
    context: &Context,
    spine: &Spine,
) -> impl Future<Output = ()> + use<> {
    let (live, view) = (context.live.clone(), spine.view.clone());
    let secrets = Arc::new(Notify::new());
    let changed = Arc::clone(&secrets);
    context.vault.on_change(move |_| changed.notify_one());
    let (mut packages, mut teams) = (plugins.catalogue().changes(), view.changes());
    async move {
        loop {
            packages.borrow_and_update();
            let tree = teams.borrow_and_update().clone();
            let (settling, live) = (plugins.clone(), live.clone());
            let settled = blocking::run(move || {
                let teams = tree.iter().filter(|team| team.state == TeamState::Active);
                for team in teams {
                    // A file that is wrong counts again once it is put right.
                    if let Ok(file) = live.team_now(&team.name) {
                        for plugin in settling.settle(&team.key(), &file.plugins).absent {
                            tracing::error!(team = %team.name, plugin = plugin.key, "a plugin is switched on and not there: no call of the team passes until it is installed or switched off");
                        }
                    }
                }
            });
            if settled.await.is_err() {
                tracing::error!(
                    "plugins of teams were not switched on or off as settings say; the next change tries again"
                );
            }
            tokio::select! {
                changed = packages.changed() => if changed.is_err() { return },
                changed = teams.changed() => if changed.is_err() { return },
                () = secrets.notified() => {}
            }
        }
    }
}
