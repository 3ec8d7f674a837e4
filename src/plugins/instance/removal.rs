//! Removal of what plugins keep for teams: folders and rows, gone with a team, or with a plugin that is purged.

use std::{fs, io, path::PathBuf, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use hivewright_actors::{
    blocking,
    ids::{TeamKey, TeamName},
    org::belongings::Belongings,
    plugin::records::{PluginState, TeamPlugin as Row, WebhookCall},
    store::{StoreHandle, records::Writes},
};

use super::{END, Instances, TeamPlugin, channel, data_of};
use crate::removal::{if_there, remove_tree};

/// What plugins of teams leave behind.
struct Estate {
    plugins: Vec<Arc<TeamPlugin>>,
    /// The keys of their rows.
    rows: Vec<(TeamKey, String)>,
}

impl Estate {
    /// Ends the plugins, and returns what removes their rows. Nothing of them is written after that.
    async fn settle(self, store: &StoreHandle) -> Vec<Writes> {
        for plugin in &self.plugins {
            let mut state = plugin.state();
            state.is_retired = true;
            state.wizard = None;
        }
        let ending = join_all(self.plugins.iter().map(|plugin| plugin.disable()));
        // What has not ended by then is killed all the same.
        let _ = tokio::time::timeout(END, ending).await;
        let of = self.rows.clone();
        let calls = store.read(move |storage| {
            let calls = of.iter().map(|of| channel::calls(storage, of, |_| true));
            calls.collect::<Result<Vec<_>, _>>()
        });
        let calls = calls.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "calls of the webhooks of a removed plugin stay in the store");
            Vec::new()
        });
        let calls = calls.iter().flatten().map(|key| Writes::new().delete::<WebhookCall>(key));
        let gone = |key| Writes::new().delete::<Row>(key).delete::<PluginState>(key);
        self.rows.iter().map(gone).chain(calls).collect()
    }
}

impl Instances {
    /// Takes out of memory what is known of plugins of teams.
    fn take(&self, is_meant: impl Fn(&TeamName, &str) -> bool) -> Estate {
        let known: Vec<_> =
            self.known().extract_if(.., |(team, key), _| is_meant(team, key)).collect();
        let plugins: Vec<_> = known.into_iter().map(|(_, plugin)| plugin).collect();
        let mut before = self.0.rows.lock();
        let before = before.extract_if(.., |(team, key), _| is_meant(&team.name, key));
        let rows = before.map(|(row, _)| row);
        let rows = rows.chain(plugins.iter().map(|it| (it.team.clone(), it.key.clone())));
        Estate { rows: rows.collect(), plugins }
    }

    /// Ends a plugin for all teams, and removes what it keeps for them. What they set for it stays in their files.
    pub async fn purge(&self, key: &str) -> io::Result<()> {
        let estate = self.take(|_, of| of == key);
        for plugin in &estate.plugins {
            plugin.state().is_lifted = true;
        }
        let gone = estate.settle(&self.0.grounds.store).await;
        let (data, key) = (self.0.grounds.home.plugin_data(), key.to_owned());
        let removed = blocking::run(move || {
            for team in if_there(fs::read_dir(data))?.into_iter().flatten() {
                remove(team?.path().join(&key))?;
            }
            Ok::<_, io::Error>(())
        });
        removed.await.map_err(io::Error::other)??;
        let gone = gone.into_iter().fold(Writes::new(), Writes::and);
        self.0.grounds.store.commit(gone).await.map(drop).map_err(io::Error::other)
    }
}

fn remove(folder: PathBuf) -> io::Result<()> {
    if_there(remove_tree(&folder)).map(drop)
}

/// The plugins of a team that is shut down, with all they kept.
impl Belongings for Instances {
    fn rest(&self, team: &TeamName, now: bool) -> BoxFuture<'static, ()> {
        let mut plugins = self.all();
        // A channel goes on: what people write is taken while the team rests.
        plugins
            .retain(|plugin| now && plugin.team.name == *team && plugin.state().channel.is_none());
        Box::pin(async move {
            let ending = join_all(plugins.iter().map(|plugin| plugin.disable()));
            // What has not ended by then ends without anybody waiting for it.
            let _ = tokio::time::timeout(END, ending).await;
        })
    }

    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let estate = self.take(|of, _| *of == team.name);
        let data = data_of(&self.0.grounds.home, &team.name);
        let (team, store) = (team.clone(), self.0.grounds.store.clone());
        Box::pin(async move {
            let gone = estate.settle(&store).await;
            if let Ok(Err(error)) = blocking::run(move || remove(data)).await {
                tracing::warn!(team = %team.name, %error, "the files of plugins of a team that is gone stay");
            }
            gone
        })
    }
}
