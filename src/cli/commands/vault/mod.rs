//! `hivewright vault`: secrets of the service and of teams. None is ever shown.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use crate::{
    api::{endpoint::Empty, vault::*},
    cli::{
        answer::{Answer, Listing},
        blocking::blocking,
        client::Service,
        context::Context,
        failure::Failure,
        progress::Gauge,
        prompt::{self, confirm},
        stopped::Stopped,
    },
    system::WallClock,
    vault::{
        entry::is_key,
        master::KeyFiles,
        rotate::{forget_old_at_rest, rotate_at_rest},
    },
};

mod show;

/// Keep secrets for the service and its teams; none is ever shown
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright vault set OPENAI_API_KEY --system\n  \
    pass show forge | hivewright vault set FORGE_TOKEN --team ops --tool bash\n  \
    hivewright vault list")]
pub(super) enum Action {
    /// List what is kept, without values
    #[command(after_help = "Example:\n  hivewright vault list --team ops")]
    List {
        #[command(flatten)]
        of: MaybeScope,
        #[command(flatten)]
        filter: VaultFilter,
    },
    /// Set a secret; its value is asked for without showing it, or read from standard input
    ///
    /// Asks before it replaces a value; `--yes` answers that.
    #[command(after_help = "Examples:\n  \
        hivewright vault set OPENAI_API_KEY --system\n  \
        hivewright vault set FORGE_TOKEN --team ops --tool bash < token.txt\n  \
        hivewright vault set FORGE_TOKEN --team ops --keep-value --host forge.example.org\n\n\
        One line end at the end of standard input is not part of the value.")]
    Set {
        /// Its name: letters, digits, `_`, `.`, `:` and `-`
        key: String,
        /// Never here: histories and process lists would show it
        #[arg(hide = true)]
        value: Option<String>,
        #[command(flatten)]
        of: OneScope,
        #[command(flatten)]
        permitted: VaultUse,
        /// Models may see the value
        #[arg(long)]
        public: bool,
        /// Change the rest, and leave the value as it is
        #[arg(long, conflicts_with = "public")]
        keep_value: bool,
    },
    /// Show what is known of an entry, with its value if that is no secret
    #[command(
        alias = "get",
        after_help = "Example:\n  hivewright vault show FORGE_TOKEN --team ops"
    )]
    Show {
        /// The key of the entry
        key: String,
        #[command(flatten)]
        of: OneScope,
    },
    /// Delete an entry
    #[command(aliases = ["remove", "rm"], after_help = "Example:\n  hivewright vault delete FORGE_TOKEN --team ops")]
    Delete {
        /// The key of the entry
        key: String,
        #[command(flatten)]
        of: OneScope,
    },
    /// Replace the master key; the old one is kept beside it, for backups made before
    #[command(after_help = "Examples:\n  \
        hivewright vault rotate-master\n  \
        hivewright vault rotate-master --forget-old")]
    RotateMaster(VaultRotate),
    /// Show who did what with which entry, newest first
    #[command(after_help = "Example:\n  hivewright vault audit --team ops --since 24h")]
    Audit {
        #[command(flatten)]
        of: MaybeScope,
        #[command(flatten)]
        list: Listing<VaultAuditFilter>,
    },
}

/// Whose entries.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(group = ArgGroup::new("maybe-scope").multiple(false))]
pub(super) struct MaybeScope {
    /// Only of this team
    #[arg(long, value_name = "TEAM", group = "maybe-scope")]
    team: Option<String>,
    /// Only of the service itself
    #[arg(long, group = "maybe-scope")]
    system: bool,
}

/// Whose entry.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(group = ArgGroup::new("scope").required(true).multiple(false))]
pub(super) struct OneScope {
    /// Of this team
    #[arg(long, value_name = "TEAM", group = "scope")]
    team: Option<String>,
    /// Of the service itself: keys of models, tokens of channels
    #[arg(long, group = "scope")]
    system: bool,
}

impl MaybeScope {
    fn name(self) -> Option<String> {
        (self.team.is_some() || self.system).then(|| scope(self.team.as_deref()))
    }
}

impl OneScope {
    /// Where an entry is. What would lead elsewhere is no key.
    fn path(&self, key: &str) -> Result<VaultPath, Failure> {
        if !is_key(key) {
            let message =
                format!("`{key}` is no key: 1 to 128 of letters, digits, `_`, `.`, `:`, `-`");
            return Err(Failure::usage(message));
        }
        Ok(VaultPath { scope: scope(self.team.as_deref()), key: key.to_owned() })
    }
}

fn scope(team: Option<&str>) -> String {
    team.map_or("system".to_owned(), |team| format!("team:{team}"))
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::List { of, filter } => {
            let filter = VaultFilter { scope: of.name(), ..filter };
            Service::find(context)?.all(&LIST_VAULT, &filter).await?.table(screen)
        }
        Action::Set { value: Some(_), .. } => Err(Failure::usage(
            "a value may not stand on the command line, where histories and process lists keep it; \
             leave it out and you are asked for it, or send it to standard input, \
             and use another one, since this may have been recorded",
        )),
        Action::Set { key, value: None, of, permitted, public, keep_value } => {
            let path = of.path(&key)?;
            let service = Service::find(context)?;
            let mut put = VaultPut { permitted, ..VaultPut::default() };
            if !keep_value {
                put.create = !replaces(&path, &service, context).await?;
                put.secret = Some(!public);
                let value = blocking(move || prompt::secret(&format!("Value of {key}: "))).await?;
                if value.is_empty() {
                    return Err(Failure::usage(
                        "there is no value: type it at a terminal, or give it on standard input",
                    ));
                }
                match std::str::from_utf8(&value) {
                    Ok(text) => put.value = Some(text.to_owned()),
                    Err(_) => put.value_base64 = Some(STANDARD.encode(&*value)),
                }
            }
            service.send(&SET_VAULT_ENTRY, &path, &put).await?.tell(screen, show::set)
        }
        Action::Show { key, of } => {
            let entry = Service::find(context)?.at(&SHOW_VAULT_ENTRY, &of.path(&key)?).await?;
            entry.show(screen, |entry| screen.harmless(&show::described(&entry)))
        }
        Action::Delete { key, of } => {
            Service::find(context)?.at(&DELETE_VAULT_ENTRY, &of.path(&key)?).await?;
            Answer::naming("deleted", &key).tell(screen, |_| format!("deleted {key}"))
        }
        Action::RotateMaster(rotate) => {
            let rotated = rotate_master(&rotate, context).await?;
            rotated.tell(screen, |rotated| show::rotated(&rotated, context))
        }
        Action::Audit { of, mut list } => {
            list.filter.scope = of.name();
            Service::find(context)?.list(&LIST_VAULT_AUDIT, &list).await?.table(screen)
        }
    }
}

/// There is a value under this key, and whoever asks wants another in its place.
async fn replaces(path: &VaultPath, service: &Service, context: &Context) -> Result<bool, Failure> {
    let VaultPath { scope, key } = path.clone();
    let filter = VaultFilter { scope: Some(scope), prefix: Some(key), words: None };
    let known = service.call(&LIST_VAULT, &Empty {}, &filter, &Empty {}).await?.data()?;
    let exists = known.iter().any(|entry| entry.key == path.key);
    if exists {
        let what = format!(
            "{} has a value, which is lost; tools, hosts and note stay unless you give others.",
            path.key
        );
        confirm(context, &what, "Replace it?")?;
    }
    Ok(exists)
}

/// Replaces the master key, also of a service that is stopped.
async fn rotate_master(
    rotate: &VaultRotate,
    context: &Context,
) -> Result<Answer<VaultRotated>, Failure> {
    if rotate.forget_old {
        confirm(
            context,
            "The vaults of all backups from before the last rotation cannot be opened any more.",
            "Remove the replaced keys for good?",
        )?;
    }
    match Service::if_running(context)? {
        Some(service) => {
            let gauge = Gauge::new(context.screen, "rotation");
            gauge.set(0, 1, "rotations");
            gauge.over(service.give(&ROTATE_VAULT, rotate)).await
        }
        None => {
            let rotated = at_rest(rotate.forget_old, context).await?;
            Ok(Answer::new(json!({ "data": rotated })))
        }
    }
}

async fn at_rest(forget_old: bool, context: &Context) -> Result<VaultRotated, Failure> {
    let cloned = context.clone();
    let opened = blocking(move || {
        let gauge = Gauge::new(cloned.screen, "store");
        Ok(Stopped::open(&cloned, &|progress| gauge.storage(progress))?)
    });
    let stopped = opened.await?;
    let gauge = Gauge::new(context.screen, "rotation");
    let files = KeyFiles::new(&context.home.secrets(), &context.environment);
    let clock = std::sync::Arc::new(WallClock);
    let mut done = VaultRotated::default();
    if forget_old {
        done.forgotten = Some(forget_old_at_rest(&stopped.storage, files, clock)?);
    } else {
        let step = |done, total| gauge.set(done, total, "steps");
        let rotated = rotate_at_rest(&stopped.storage, files, clock, &step);
        done.data_keys = Some(gauge.over(rotated).await?.data_keys);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cli::{client::target, failure::Exit};

    fn scope(team: Option<&str>) -> OneScope {
        OneScope { team: team.map(str::to_owned), system: team.is_none() }
    }

    fn path(team: Option<&str>, key: &str) -> Result<String, Failure> {
        target(&SHOW_VAULT_ENTRY, &scope(team).path(key)?)
    }

    #[test]
    fn only_a_key_and_a_team_lead_to_an_entry() {
        assert_eq!(path(Some("ops"), "A.b:c").unwrap(), "/api/v1/vault/team:ops/A.b:c");
        assert_eq!(path(None, "K").unwrap(), "/api/v1/vault/system/K");
        for (team, key) in [(None, "a/b"), (None, ""), (Some("a/.."), "k"), (None, "a?b")] {
            let failure = path(team, key).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{team:?} {key}");
        }
    }
}
