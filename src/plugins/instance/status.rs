//! Status of a plugin of a team: whether it runs, its last error and its state, as they are shown and stored.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::Clock,
    excerpt,
    live::event::{Event, Kind},
    notice::{Notice, NoticeKind},
    plugin::{
        InstanceStatus,
        lifecycle::Status,
        records::{PluginState, TeamPlugin as Row},
    },
    store::records::Writes,
};
use serde_json::{Map, Value, json};

use super::TeamPlugin;
use crate::{mcp::definition::shown, system::WallClock};

/// What a plugin may put aside, in bytes of JSON.
const MOST_KEPT: usize = 64 << 10;
/// What a plugin may show of itself, in bytes of JSON.
const MOST_SHOWN: usize = 16 << 10;
/// The longest error, in characters.
const LONGEST_ERROR: usize = 2_000;
/// An error that is told again within this time is one.
const SAME_ERROR: Duration = Duration::from_secs(60);
/// What is written of how a plugin stands is gathered for so long.
const GATHERED: Duration = Duration::from_millis(500);

impl TeamPlugin {
    pub(super) fn kept(&self, key: &str) -> Value {
        self.state().kept.get(key).cloned().unwrap_or(Value::Null)
    }

    pub(super) fn all_kept(&self) -> Map<String, Value> {
        self.state().kept.clone()
    }

    /// Puts something aside for the plugin. It is safe when this returns.
    pub(super) async fn keep(&self, key: String, value: Value) -> Result<(), String> {
        let known = self.grounds.scrubbers.of(&self.team.name);
        if known.knows(&value.to_string()) || known.knows(&key) {
            return Err("it holds the value of a secret, which is not kept".to_owned());
        }
        let kept = {
            let mut kept = self.all_kept();
            match value {
                Value::Null => drop(kept.remove(&key)),
                value => drop(kept.insert(key, value)),
            }
            if Value::Object(kept.clone()).to_string().len() > MOST_KEPT {
                return Err("a plugin keeps at most 64 KiB".to_owned());
            }
            let mut state = self.state();
            if state.is_retired {
                return Err("nothing is kept for it any more".to_owned());
            }
            state.kept = kept.clone();
            kept
        };
        let row = PluginState { team: self.team.clone(), plugin: self.key.clone(), state: kept };
        let stored = self.grounds.store.commit(Writes::new().put(&row)).await;
        stored.map(drop).map_err(|error| error.to_string())
    }

    /// What the plugin says is wrong with it; none takes it back.
    pub(super) fn note(self: &Arc<Self>, message: Option<String>) {
        let message = message.map(|message| self.clean(&message));
        let mut state = self.state();
        let now = WallClock.now();
        let row = &mut state.row;
        let is_same = row.last_error == message
            && row.last_error_at.is_none_or(|at| now.since(at) < SAME_ERROR);
        if is_same {
            return;
        }
        let (reports_error, status) = (message.is_some(), row.status);
        if let Some(message) = &message {
            tracing::warn!(team = %self.team.name, plugin = self.key, error = message, "a plugin reports an error");
        }
        row.last_error_at = reports_error.then_some(now);
        row.last_error = message;
        drop(state);
        if reports_error {
            self.publish(json!({"status": status, "reports_error": true}));
        }
        self.changed();
    }

    /// One of its hooks could not do what it is for.
    pub(in crate::plugins) fn fail(self: &Arc<Self>, reason: &str) {
        self.note(Some(reason.to_owned()));
    }

    /// What the plugin shows of itself.
    pub(super) fn show(self: &Arc<Self>, shown: Map<String, Value>) {
        let text = Value::Object(shown).to_string();
        if text.len() > MOST_SHOWN {
            return self.note(Some("its state is larger than 16 KiB, and is not shown".to_owned()));
        }
        let text = self.scrub(&text);
        self.state().row.runtime_state = serde_json::from_str(&text).unwrap_or_default();
        self.changed();
    }

    /// Words of a plugin as people may see them.
    pub(super) fn clean(&self, text: &str) -> String {
        excerpt::line(&self.scrub(&shown(text)), LONGEST_ERROR)
    }

    /// A text without the secrets of its team.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.grounds.scrubbers.of(&self.team.name).scrub(text).into_owned()
    }

    /// A text that goes to people or to a team, without anybody's secrets.
    pub(super) fn scrub_known(&self, text: &str) -> String {
        self.grounds.scrubbers.everything().scrub_known(text).into_owned()
    }

    pub(super) fn stands(self: &Arc<Self>, now: &InstanceStatus) {
        {
            let error = now.error.as_deref().map(|error| self.clean(error));
            if let (Some(error), Status::Backoff) = (&error, now.status) {
                let team = &self.team.name;
                tracing::warn!(%team, plugin = self.key, error, "a plugin has ended, and is started again");
            }
            let mut state = self.state();
            state.row.status = now.status;
            if state.row.last_error != error && (error.is_some() || now.status == Status::Running) {
                state.row.last_error_at = error.is_some().then(|| WallClock.now());
                state.row.last_error = error;
            }
        }
        self.changed();
    }

    pub(super) fn gave_up(&self, reason: &str) {
        let (team, key) = (&self.team.name, &self.key);
        let reason = self.clean(reason);
        tracing::error!(%team, plugin = key, error = reason, "a plugin was given up; `hivewright plugin restart` tries again");
        let text = format!(
            "Plugin `{key}` of team `{team}` does not run: {reason}. \
             `hivewright plugin restart {key} --team {team}` tries again."
        );
        let (kind, now) = (NoticeKind::PluginFailed, WallClock.now());
        let notice = Notice::of_team(&self.grounds.ids, kind, team, text, Vec::new(), now);
        // The store takes it in now; nobody waits until it is safe.
        drop(self.grounds.store.commit(Writes::new().put(&notice)));
    }

    /// Tells whoever watches how it stands.
    fn publish(&self, mut row: Value) {
        let team = &self.team.name;
        (row["team"], row["plugin"]) = (json!(team), json!(self.key));
        self.grounds.live.publish(Event::new(Kind::PluginChanged, row).of_team(team));
    }

    /// Tells whoever watches, and stores how it stands soon.
    pub(super) fn changed(self: &Arc<Self>) {
        let status = {
            let mut state = self.state();
            state.row.updated_at = WallClock.now();
            if std::mem::replace(&mut state.is_dirty, true) {
                return;
            }
            state.row.status
        };
        self.publish(json!({ "status": status }));
        let plugin = Arc::clone(self);
        self.thread.spawn(async move {
            tokio::time::sleep(GATHERED).await;
            let (row, before) = {
                let mut state = plugin.state();
                state.is_dirty = false;
                if state.is_retired {
                    return;
                }
                (state.row.clone(), status)
            };
            if row.status != before {
                plugin.publish(json!({ "status": row.status }));
            }
            // What is lost with the process is found out again.
            drop(plugin.grounds.store.commit(Writes::new().put(&row)));
        });
    }

    /// Sets whose tools' results are believed. It counts, and is safe, when this returns.
    pub async fn trust(self: &Arc<Self>, patterns: Vec<String>) -> Result<(), String> {
        let stored = {
            let state = self.state();
            if state.is_retired {
                return Err("its team or its package is gone".to_owned());
            }
            let row = Row { trusted_output: patterns.clone(), ..state.row.clone() };
            self.grounds.store.commit(Writes::new().put(&row))
        };
        stored.await.map_err(|error| error.to_string())?;
        self.state().row.trusted_output = patterns;
        // Whoever stored the row meanwhile did so without it.
        self.changed();
        Ok(())
    }
}
