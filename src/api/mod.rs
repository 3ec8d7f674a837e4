//! What routes and commands speak: a file per resource with its rows, filters, bodies and endpoints.
//!
//! The server reads requests by these types, the client sends them and prints what comes back, and the
//! API document is made from their schemas.

/// Declares a row of answers, with what each of its fields is made from.
macro_rules! row {
    (
        $(#[$outer:meta])*
        pub struct $name:ident from $source:tt: $of:ty {
            $($(#[$inner:meta])* pub $field:ident: $type:ty = $value:expr,)+
        }
    ) => {
        #[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$outer])*
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)+
        }

        impl From<$of> for $name {
            fn from($source: $of) -> Self {
                Self { $($field: $value,)+ }
            }
        }
    };
}

pub mod approvals;
pub mod audit;
pub mod backups;
pub mod changes;
pub mod channels;
pub mod check;
pub mod config;
pub mod doctor;
pub mod draft;
pub mod endpoint;
pub mod events;
pub mod files;
pub mod flags;
pub mod grants;
pub mod identities;
pub mod inbox;
pub mod input;
pub mod instructions;
pub mod jobs;
pub mod logins;
pub mod logs;
pub mod markdown;
pub mod mcp;
pub mod me;
pub mod memories;
pub mod messages;
pub mod models;
pub mod monitoring;
pub mod overview;
pub mod page;
pub mod plugin_tools;
pub mod plugins;
pub mod policies;
pub mod profiles;
pub mod questions;
pub mod reply;
pub mod scope;
pub mod search;
pub mod session;
pub mod sessions;
pub mod snapshot;
pub mod tasks;
pub mod team_plugins;
pub mod teams;
pub mod tokens;
pub mod topics;
pub mod transcript;
pub mod trigger_form;
pub mod triggers;
pub mod trust;
pub mod untrusted_files;
pub mod usage;
pub mod vault;
pub mod when;
