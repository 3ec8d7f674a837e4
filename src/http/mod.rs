//! The way in over HTTP: one file per resource.

use std::{sync::Arc, time::Duration, time::Instant};

use actix_web::{HttpResponse, middleware, web};
use hivewright_actors::{budget::Days, ids::TeamKey, spine::Spine};

pub mod access;
mod approvals;
mod audit;
pub mod auth;
pub mod backups;
mod changes;
mod channels;
pub mod config;
pub mod connections;
mod doctor;
#[cfg(test)]
pub(crate) mod doubles;
pub mod edge;
pub mod error;
mod events;
mod health;
mod identities;
mod inbox;
pub mod jobs;
mod json;
mod logs;
mod memories;
mod messages;
pub mod metrics;
pub mod origin;
mod overview;
mod page;
pub mod policies;
mod query;
mod questions;
mod routes;
mod session;
mod sessions;
mod snapshot;
mod tasks;
mod teams;
#[cfg(test)]
mod tests;
pub mod tokens;
mod topics;
mod triggers;
mod trust;
pub mod ui;
mod usage;
mod vault;
pub mod webhooks;

use access::Access;
use auth::identities::Identities;
use backups::BackupRunner;
use config::Files;
use error::ApiError;
use jobs::Jobs;
use metrics::Metrics;
use policies::Explainer;

use crate::{
    changes::Changes, logging::Secrets, memory::Memory, rulebook::Rulebook,
    tools::org::office::Office, triggers::desk::Desk, vault::Vault,
};

/// For the server's `client_request_timeout`: the header has to be there by then.
pub const SLOWEST_HEADER: Duration = Duration::from_secs(10);
/// For the server's `keep_alive`: an idle connection is closed by then.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// The longest body, in bytes.
const LONGEST_BODY: usize = 1024 * 1024;
/// The longest header, in bytes.
const LONGEST_HEADER: usize = 16 * 1024;
/// The most fields of a header.
const MOST_HEADERS: usize = 100;
/// Of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is to be known of the service beyond its spine.
pub trait Service: Send + Sync + 'static {
    /// No model is configured: a script answers.
    fn is_demo(&self) -> bool;
    /// It is about to stop.
    fn is_draining(&self) -> bool;
    /// Clients may open WebSockets.
    fn has_websocket(&self) -> bool;
    /// What is wrong with the channels, until it is cured.
    fn channels_fault(&self) -> Option<String> {
        None
    }
    /// A topic without work for this long is idle.
    fn topics_idle_after(&self) -> Duration {
        Duration::from_secs(30 * 60)
    }
    /// How large the store is. May block.
    fn store_bytes(&self) -> u64;
    /// How many teams there are. May block.
    fn teams(&self) -> usize;
    /// The living team of a name.
    fn team(&self, name: &str) -> Option<TeamKey>;
}

/// What the handlers share.
pub struct State {
    /// Who may do what.
    pub access: Access,
    /// Which senders of channels are principals.
    pub identities: Identities,
    /// The actors.
    pub spine: Spine,
    /// What teams remember.
    pub memory: Memory,
    /// What teams changed about themselves.
    pub changes: Changes,
    /// What the operator allows, denies or wants to be asked for.
    pub rules: Rulebook,
    /// Judges calls that nobody makes.
    pub explainer: Arc<Explainer>,
    /// The teams, and what is done to them.
    pub office: Office,
    /// What the service and its teams keep secret.
    pub vault: Vault,
    /// Where triggers are managed.
    pub desk: Desk,
    /// How often webhooks were called lately.
    pub callers: webhooks::Callers,
    /// The service around them.
    pub service: Arc<dyn Service>,
    /// Figures.
    pub metrics: Arc<Metrics>,
    /// Long work.
    pub jobs: Jobs,
    /// What no answer shows.
    pub secrets: Secrets,
    /// The settings files.
    pub files: Files,
    /// The days that budgets count.
    pub days: Arc<dyn Days>,
    /// Makes backups.
    pub backups: Arc<BackupRunner>,
    /// When the service came up.
    pub started: Instant,
}

/// All routes, for an `App`. `others` adds those that live elsewhere; they pass the same checks,
/// and a refusal of theirs gets its body the same way.
pub fn configure(
    state: web::Data<State>,
    others: impl Fn(&mut web::ServiceConfig) + Clone,
) -> impl Fn(&mut web::ServiceConfig) + Clone {
    move |app| {
        let all = web::scope("")
            .wrap(middleware::from_fn(edge::pass))
            .configure(others.clone())
            .service(session::resource())
            .service(session::links())
            .service(tokens::rotation())
            .service(tokens::resource())
            .service(tokens::one())
            .service(trust::resource())
            .service(trust::decisions())
            .service(trust::one())
            .service(identities::resource())
            .service(identities::one())
            .service(triggers::resource())
            .service(triggers::looks())
            .service(triggers::enabling())
            .service(triggers::disabling())
            .service(triggers::running())
            .service(triggers::runs())
            .service(triggers::cursors())
            .service(triggers::one())
            .service(webhooks::resource())
            .service(overview::resource())
            .service(events::resource())
            .service(snapshot::resource())
            .service(channels::resource())
            .service(topics::resource())
            .service(topics::live())
            .service(topics::one())
            .service(sessions::resource())
            .service(sessions::history())
            .service(sessions::export())
            .service(sessions::of_team())
            .service(usage::resource())
            .service(usage::budgets())
            .service(audit::resource())
            .service(config::resource())
            .service(config::validation())
            .service(config::reloading())
            .service(config::of_team())
            .service(doctor::resource())
            .service(logs::resource())
            .service(approvals::resource())
            .service(approvals::one())
            .service(questions::resource())
            .service(questions::answer())
            .service(policies::resource())
            .service(policies::explanation())
            .service(policies::one())
            .service(inbox::resource())
            .service(inbox::all_read())
            .service(inbox::read())
            .service(teams::resource())
            .service(teams::tree())
            .service(teams::acting::pause())
            .service(teams::acting::resume())
            .service(teams::acting::bootstrap())
            .service(teams::acting::pause_all())
            .service(teams::acting::resume_all())
            .service(teams::one())
            .service(messages::resource())
            .service(messages::one())
            .service(tasks::resource())
            .service(tasks::counts())
            .service(tasks::cancel())
            .service(tasks::retry())
            .service(tasks::one())
            .service(changes::resource())
            .service(changes::rollback())
            .service(memories::resource())
            .service(memories::chain())
            .service(memories::rollback())
            .service(memories::review())
            .service(memories::pin())
            .service(memories::one())
            .service(vault::resource())
            .service(vault::audit())
            .service(vault::rotation())
            .service(vault::one())
            .service(backups::resource())
            .service(jobs::one())
            .service(health::alive())
            .service(health::ready())
            .service(health::counts())
            .service(metrics::resource())
            .service(page::root())
            .service(page::files())
            .default_service(web::to(nothing));
        app.app_data(state.clone()).service(all);
    }
}

async fn nothing() -> Result<HttpResponse, ApiError> {
    Err(ApiError::not_found("there is nothing under this path"))
}
