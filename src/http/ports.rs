//! Ports: what routes need of the service beside its spine.

use std::{future::Future, io, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use hivewright_actors::{
    ids::{TeamKey, TeamName},
    policy::Subject,
};
use serde_json::Value;

use super::jobs::Work;
use crate::{
    api::{backups::BackupRow, profiles::ProfileRow, teams::Equipment},
    channels::discord::connection_state::ConnectionState as Discord,
    settings::{channels::WebSocket, home::Home, problem::Problems, references::Environment},
    storage::backup::BackupName,
    tools::judge::Judgement,
};

/// What is to be known of the service beyond its spine.
pub trait Service: Send + Sync + 'static {
    /// No model is configured: a script answers.
    fn is_demo(&self) -> bool;
    /// It is about to stop.
    fn is_draining(&self) -> bool;
    /// Who may open a WebSocket.
    fn websocket(&self) -> WebSocket;
    /// How Discord stands.
    fn discord(&self) -> Discord {
        Discord::Off
    }
    /// Lets the bot on Discord connect anew.
    fn reconnect_discord(&self) {}
    /// What is wrong with the channels, until it is cured.
    fn channels_fault(&self) -> Option<String> {
        None
    }
    /// What is wrong with the settings files, until it is cured. What they said before counts meanwhile.
    fn settings_fault(&self) -> Option<String> {
        None
    }
    /// Why no model can be asked. Does not look at files.
    fn providers_fault(&self) -> Option<String> {
        None
    }
    /// The profiles that can be used. Does not look at files.
    fn profiles(&self) -> Vec<ProfileRow> {
        Vec::new()
    }
    /// A topic without work for this long is idle.
    fn topics_idle_after(&self) -> Duration {
        Duration::from_secs(30 * 60)
    }
    /// How large the store is. May block.
    fn store_bytes(&self) -> u64;
    /// How many bytes are free on its disk. May block.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// The living team of a name.
    fn team(&self, name: &str) -> Option<TeamKey>;
}

/// Says what a team has to work with, below these teams. Blocks.
pub type Equipper = dyn Fn(&TeamKey, &[TeamName]) -> Equipment + Send + Sync;

/// Judges a call of a team that nobody makes. Blocks. An error is in words for a person.
pub type Explainer =
    dyn Fn(&TeamKey, &str, &Value, &Subject) -> Result<Judgement, String> + Send + Sync;

/// Makes backups and knows those that are kept. All of it blocks.
pub trait Backups: Send + Sync + 'static {
    /// Makes one where backups go, under this name or as a regular one. Returns the file, or why there is
    /// none. Takes long, reports how far it is, and leaves nothing behind if it is cancelled.
    fn make(&self, name: Option<BackupName>, work: &Work) -> Result<PathBuf, String>;

    /// Those that are where backups go, newest first. There are never many.
    fn list(&self) -> io::Result<Vec<BackupRow>>;
}

/// Reads the files again that count while the service runs, and tells what is wrong with them.
pub type Reload =
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Problems>> + Send>> + Send + Sync;

/// Where the settings files are, and what they refer to.
pub struct Files {
    pub home: Home,
    /// What references stand for.
    pub environment: Environment,
    pub reload: Arc<Reload>,
}
