//! The table of all routes: which handler answers which endpoint.

use super::{
    approvals, audit, backups, changes, channel_webhooks, channels, config, doctor, events, files,
    health, identities, inbox, instructions, jobs, logs, markdown, mcp, me, memories, messages,
    metrics, models, openapi, overview, page, plugin_tools, plugins, policies, profiles, questions,
    search, session, sessions, tasks, team_plugins, teams, tokens, topics, triggers, trust,
    untrusted_files, usage, vault, webhooks,
};
use crate::{
    api,
    http::kit::resource::{Resource, on},
};

/// All routes, in the order in which their paths are tried.
pub(in crate::http) fn table() -> Vec<Resource> {
    let mut table: Vec<Resource> = Vec::new();
    let groups = [of_access(), of_conversations(), of_teams(), of_decisions(), of_service()];
    for resource in groups.into_iter().flatten() {
        match table.iter_mut().find(|known| known.path == resource.path) {
            Some(known) => known.join(resource),
            None => table.push(resource),
        }
    }
    table
}

/// Who may come in.
fn of_access() -> Vec<Resource> {
    vec![
        on(&api::session::SHOW_SESSION, session::show),
        on(&api::session::LOG_IN, session::log_in),
        on(&api::session::LOG_OUT, session::log_out),
        on(&api::session::MAKE_LOGIN_LINK, session::make_link),
        on(&api::tokens::LIST_TOKENS, tokens::list),
        on(&api::tokens::CREATE_TOKEN, tokens::create),
        on(&api::tokens::ROTATE_OPERATOR, tokens::rotate),
        on(&api::tokens::REVOKE_TOKEN, tokens::revoke),
        on(&api::logins::LIST_LOGINS, tokens::list_logins),
        on(&api::logins::END_LOGIN, tokens::end_login),
        on(&api::trust::LIST_TRUST, trust::list),
        on(&api::trust::GRANT_TRUST, trust::grant),
        on(&api::trust::LIST_TRUST_DECISIONS, trust::list_decisions),
        on(&api::trust::REVOKE_TRUST, trust::revoke),
        on(&api::identities::LIST_IDENTITIES, identities::list),
        on(&api::identities::LINK_IDENTITY, identities::link),
        on(&api::identities::UNLINK_IDENTITY, identities::unlink),
    ]
}

/// What makes teams work, and what was said.
fn of_conversations() -> Vec<Resource> {
    vec![
        on(&api::files::UPLOAD_FILE, files::upload),
        on(&api::files::DOWNLOAD_FILE, files::download),
        on(&api::triggers::LIST_TRIGGERS, triggers::list),
        on(&api::triggers::CREATE_TRIGGER, triggers::create),
        on(&api::triggers::PREVIEW_TRIGGER, triggers::look),
        on(&api::triggers::LIST_DUE, triggers::list_due),
        on(&api::triggers::ENABLE_TRIGGER, triggers::enable),
        on(&api::triggers::DISABLE_TRIGGER, triggers::disable),
        on(&api::triggers::RUN_TRIGGER, triggers::run),
        on(&api::triggers::LIST_RUNS, triggers::history),
        on(&api::triggers::SET_CURSORS, triggers::set_cursors),
        on(&api::triggers::SHOW_TRIGGER, triggers::show),
        on(&api::triggers::CHANGE_TRIGGER, triggers::change),
        on(&api::triggers::DELETE_TRIGGER, triggers::remove),
        on(&api::plugins::LIST_PLUGINS, plugins::list),
        on(&api::plugins::INSTALL_PLUGIN, plugins::install),
        on(&api::plugins::CHECK_PLUGIN, plugins::check),
        on(&api::plugins::SHOW_PLUGIN, plugins::show),
        on(&api::plugins::UNINSTALL_PLUGIN, plugins::uninstall),
        on(&api::plugins::APPROVE_PLUGIN, plugins::approve),
        on(&webhooks::CALL_HOOK, webhooks::receive),
        on(&channel_webhooks::CALL_CHANNEL, channel_webhooks::receive),
        on(&api::topics::LIST_TOPICS, topics::list),
        on(&api::topics::SHOW_RUNNING_TURN, topics::running),
        on(&api::topics::SHOW_TOPIC, topics::show),
        on(&api::topics::CHANGE_TOPIC, topics::change),
        on(&api::topics::DELETE_TOPIC, topics::remove),
        on(&api::me::LIST_OWN_CHANNELS, me::list_channels),
        on(&api::me::LIST_OWN_MESSAGES, me::list_messages),
        on(&api::me::LIST_OWN_NOTIFICATIONS, me::list_notifications),
        on(&api::me::LIST_OWN_TEAM_MESSAGES, me::list_team_messages),
        on(&api::messages::SEND_MESSAGE, messages::send),
        on(&api::messages::SHOW_MESSAGE, messages::show),
        on(&api::sessions::LIST_SESSIONS, sessions::list),
        on(&api::sessions::SHOW_HISTORY, sessions::show),
        on(&api::sessions::EXPORT_SESSION, sessions::hand_out),
        on(&api::sessions::RESET_SESSION, sessions::begin_anew),
        on(&api::sessions::COMPACT_SESSION, sessions::compact),
        on(&api::sessions::SHOW_TEAM_HISTORY, sessions::show_of_team),
        on(&api::search::SEARCH_HISTORY, search::find),
    ]
}

/// Teams, what they do, use and know.
fn of_teams() -> Vec<Resource> {
    vec![
        on(&api::teams::LIST_TEAMS, teams::list),
        on(&api::teams::LIST_TEMPLATES, teams::list_templates),
        on(&api::teams::CREATE_TEAM, teams::acting::create),
        on(&api::teams::SHOW_ORG, teams::show_tree),
        on(&api::teams::PAUSE_TEAM, teams::acting::pause_one),
        on(&api::teams::RESUME_TEAM, teams::acting::resume_one),
        on(&api::teams::BOOTSTRAP_TEAM, teams::acting::set_up_again),
        on(&api::teams::PAUSE_ALL, teams::acting::pause_every),
        on(&api::teams::RESUME_ALL, teams::acting::resume_every),
        on(&api::teams::SHOW_TEAM, teams::show),
        on(&api::teams::CHANGE_TEAM, teams::acting::update),
        on(&api::teams::SHUT_DOWN_TEAM, teams::acting::shut_down),
        on(&api::tasks::LIST_TASKS, tasks::list),
        on(&api::tasks::CREATE_TASK, tasks::giving::create),
        on(&api::tasks::COUNT_TASKS, tasks::stats::show),
        on(&api::tasks::CANCEL_TASK, tasks::cancel),
        on(&api::tasks::RETRY_TASK, tasks::retry),
        on(&api::tasks::SHOW_TASK, tasks::show),
        on(&api::changes::LIST_CHANGES, changes::list),
        on(&api::changes::ROLL_BACK_CHANGE, changes::roll_back),
        on(&api::instructions::LIST_INSTRUCTIONS, instructions::list),
        on(&api::instructions::SHOW_INSTRUCTION, instructions::show),
        on(&api::instructions::REPLACE_INSTRUCTION, instructions::put),
        on(&api::instructions::DELETE_INSTRUCTION, instructions::remove),
        on(&api::untrusted_files::LIST_UNTRUSTED_FILES, untrusted_files::list),
        on(&api::untrusted_files::ACCEPT_FILES, untrusted_files::accept),
        on(&api::mcp::LIST_SERVERS, mcp::list),
        on(&api::mcp::TRY_SERVER, mcp::try_out),
        on(&api::mcp::RESTART_SERVER, mcp::restart),
        on(&api::team_plugins::LIST_TEAM_PLUGINS, team_plugins::list),
        on(&api::team_plugins::SET_TEAM_PLUGIN, team_plugins::set),
        on(&api::team_plugins::RESTART_TEAM_PLUGIN, team_plugins::restart),
        on(&api::team_plugins::BEGIN_SETUP, team_plugins::begin_setup),
        on(&api::team_plugins::POLL_SETUP, team_plugins::poll_setup),
        on(&api::team_plugins::SUBMIT_SETUP, team_plugins::submit_setup),
        on(&api::team_plugins::CANCEL_SETUP, team_plugins::cancel_setup),
        on(&api::plugin_tools::LIST_PLUGIN_TOOLS, plugin_tools::list),
        on(&api::plugin_tools::GET_PLUGIN_TOOL, plugin_tools::get),
        on(&api::plugin_tools::DEPRECATE_PLUGIN_TOOL, plugin_tools::deprecate),
        on(&api::plugin_tools::REMOVE_PLUGIN_TOOL, plugin_tools::remove),
        on(&api::memories::LIST_MEMORIES, memories::list),
        on(&api::memories::SAVE_MEMORY, memories::save),
        on(&api::memories::REVIEW_MEMORIES, memories::review_several),
        on(&api::memories::LIST_MEMORY_VERSIONS, memories::list_versions),
        on(&api::memories::ROLL_BACK_MEMORY, memories::roll_back),
        on(&api::memories::REVIEW_MEMORY, memories::review_one),
        on(&api::memories::PIN_MEMORY, memories::pin),
        on(&api::memories::SHOW_MEMORY, memories::show),
        on(&api::memories::CORRECT_MEMORY, memories::correct),
        on(&api::memories::END_MEMORY, memories::end),
    ]
}

/// What operators decide and look after.
fn of_decisions() -> Vec<Resource> {
    vec![
        on(&api::usage::LIST_USAGE, usage::list),
        on(&api::usage::LIST_BUDGETS, usage::list_budgets),
        on(&api::usage::EXPORT_USAGE, usage::export),
        on(&api::audit::LIST_AUDIT, audit::list),
        on(&api::logs::LIST_LOGS, logs::list),
        on(&api::config::SHOW_CONFIG, config::show),
        on(&api::config::VALIDATE_CONFIG, config::validate),
        on(&api::config::RELOAD_CONFIG, config::reload),
        on(&api::config::SHOW_TEAM_CONFIG, config::show_team),
        on(&api::config::REPLACE_TEAM_CONFIG, config::put_team),
        on(&api::config::SHOW_SETTINGS_FILE, config::show_service_file),
        on(&api::config::REPLACE_SETTINGS_FILE, config::put_service_file),
        on(&api::models::LIST_MODELS, models::list),
        on(&api::profiles::LIST_PROFILES, profiles::list),
        on(&api::models::TRY_MODEL, models::try_out),
        on(&api::doctor::SHOW_FINDINGS, doctor::look),
        on(&api::doctor::EXAMINE, doctor::look_closely),
        on(&api::approvals::LIST_APPROVALS, approvals::list),
        on(&api::approvals::DECIDE_SEVERAL, approvals::decide_several),
        on(&api::approvals::SHOW_APPROVAL, approvals::show),
        on(&api::approvals::DECIDE, approvals::decide),
        on(&api::grants::LIST_GRANTS, approvals::list_grants),
        on(&api::grants::REVOKE_GRANT, approvals::revoke_grant),
        on(&api::questions::LIST_QUESTIONS, questions::list),
        on(&api::questions::SHOW_QUESTION, questions::show),
        on(&api::questions::ANSWER_QUESTION, questions::reply),
        on(&api::policies::LIST_RULES, policies::list),
        on(&api::policies::ADD_RULE, policies::add),
        on(&api::policies::EXPLAIN_CALL, policies::explain),
        on(&api::policies::REMOVE_RULE, policies::remove),
        on(&api::inbox::LIST_NOTICES, inbox::list),
        on(&api::inbox::READ_ALL_NOTICES, inbox::read_all),
        on(&api::inbox::READ_NOTICE, inbox::read_one),
        on(&api::vault::LIST_VAULT, vault::list),
        on(&api::vault::LIST_VAULT_AUDIT, vault::list_audit),
        on(&api::vault::ROTATE_VAULT, vault::rotate),
        on(&api::vault::SHOW_VAULT_ENTRY, vault::show),
        on(&api::vault::SET_VAULT_ENTRY, vault::set),
        on(&api::vault::DELETE_VAULT_ENTRY, vault::remove),
        on(&api::backups::LIST_BACKUPS, backups::list),
        on(&api::backups::MAKE_BACKUP, backups::make),
        on(&api::jobs::LIST_JOBS, jobs::list),
        on(&api::jobs::SHOW_JOB, jobs::show),
        on(&api::jobs::CANCEL_JOB, jobs::cancel),
    ]
}

/// The service as a whole.
fn of_service() -> Vec<Resource> {
    vec![
        on(&api::overview::SHOW_OVERVIEW, overview::show),
        on(&api::snapshot::SHOW_SNAPSHOT, overview::show_snapshot),
        on(&api::events::WATCH_EVENTS, events::watch),
        on(&api::channels::LIST_CHANNELS, channels::list),
        on(&api::channels::TRY_DISCORD, channels::try_discord),
        on(&api::channels::RECONNECT_CHANNEL, channels::reconnect),
        on(&api::markdown::PARSE_MARKDOWN, markdown::parse),
        on(&openapi::SHOW_OPENAPI, |call| openapi::show(call, table)),
        on(&openapi::SHOW_DOCS, |call| openapi::read(call, table)),
        on(&api::monitoring::SHOW_ALIVE, health::show_alive),
        on(&api::monitoring::SHOW_READINESS, health::show_ready),
        on(&api::monitoring::SHOW_HEALTH, health::show_counts),
        on(&api::monitoring::SHOW_METRICS, metrics::show),
        on(&page::SHOW_PAGE, page::serve),
        on(&page::SERVE_FILE, page::serve).deep(),
    ]
}
