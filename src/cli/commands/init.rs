//! `hivewright init`: the first files of a home.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
};

use clap::Args;
use hivewright_actors::storage::Storage;
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    api::{
        flags,
        vault::{SET_VAULT_ENTRY, VaultPath, VaultPut},
    },
    cli::{
        blocking::blocking, client::Service, context::Context, failure::Failure, notice::notice,
        stopped::Stopped,
    },
    settings::{
        providers::Provider,
        scaffold::{self, DISCORD_TOKEN, MODEL_KEY, ModelSettings},
    },
    storage,
    system::WallClock,
    vault::{Vault, audit::Actor, entry::Put, error::VaultError, master::KeyFiles, scope::Scope},
};

mod discord;
pub(super) mod model;

/// Write commented example settings; what is there stays as it is
///
/// At a terminal it asks which model answers, and has it answer once; its key goes into the vault. With `--yes`
/// nobody is asked.
#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "Examples:\n  hivewright init --provider anthropic\n  hivewright init --discord"
)]
pub(super) struct Arguments {
    /// Write an active profile for this model API; its key comes from ANTHROPIC_API_KEY or
    /// OPENAI_API_KEY, and `offline` is a demo that needs none
    #[arg(long, value_parser = flags::words::<Provider>())]
    pub(super) provider: Option<Provider>,
    #[command(flatten)]
    discord: discord::Flags,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    // The files are of this home, so the service is too.
    let context = &Context { url: None, token_file: None, cacert: None, ..context.clone() };
    let screen = context.screen;
    let home = &context.home;
    let bot = if arguments.discord.discord {
        Some(discord::meet(arguments.discord).await?)
    } else {
        None
    };
    let asks = arguments.provider.is_none() && bot.is_none() && is_asked(context);
    let chosen = if asks { Some(model::choose(context).await?) } else { None };
    let settings = bot.as_ref().map(|bot| &bot.settings);
    let named = arguments.provider.map(ModelSettings::from);
    let model = chosen.as_ref().map(|chosen| &chosen.settings).or(named.as_ref());
    let secrets = [
        (DISCORD_TOKEN, bot.as_ref().map(|bot| &bot.token)),
        (MODEL_KEY, chosen.as_ref().and_then(|chosen| chosen.key.as_ref())),
    ];
    // First: settings whose secret is not there would be refused by a service that reads them at once.
    for (key, secret) in secrets {
        if let Some(secret) = secret {
            keep(key, secret, context).await?;
        }
    }
    let written = scaffold::init(home, model, settings)?;
    let shown: Vec<_> = written.iter().map(|path| path.display()).collect();
    if screen.json {
        let files: Vec<_> = shown.iter().map(ToString::to_string).collect();
        let bot = bot.map(|bot| json!({ "name": bot.name, "invite": bot.invite }));
        return screen.document(&json!({"data": {"written": files, "bot": bot}}));
    }
    for path in &shown {
        screen.say(&format!("wrote {path}"));
    }
    if written.is_empty() {
        screen.say(&format!(
            "nothing to write: all files are there already, in {} and {}",
            home.data().display(),
            home.run().display()
        ));
        screen.remark(&format!(
            "to connect a model: Settings, Models in the page, or {}",
            context.command("config edit providers")
        ));
    }
    let providers = home.providers_file();
    match arguments.provider {
        Some(provider) if !written.contains(&providers) => screen.remark(&format!(
            "{} was there already and stays as it is: add a profile with `provider: {provider}` yourself",
            providers.display(),
        )),
        provider => {
            if let Some(variable) = provider.and_then(Provider::key_variable) {
                screen.remark(&format!("put the key into the variable {variable}"));
            }
        }
    }
    if let Some(bot) = &bot {
        bot.explain(context, written.contains(&home.channels_file()));
    }
    for (key, _) in secrets.iter().filter(|(_, secret)| secret.is_some()) {
        screen.remark(&format!("the secret is in the vault as `{key}`"));
    }
    match notice(home)? {
        Some(_) if written.is_empty() => {}
        Some(_) => screen.remark("the running service takes it over"),
        None => screen.remark(&format!("next: {}", context.command("serve"))),
    }
    Ok(())
}

/// Puts a secret of the service into the vault, also while no service runs.
pub(super) async fn keep(
    key: &str,
    secret: &Zeroizing<String>,
    context: &Context,
) -> Result<(), Failure> {
    let (key, secret) = (key.to_owned(), secret.clone());
    if let Some(service) = Service::if_running(context)? {
        let path = VaultPath { scope: Scope::System.to_string(), key };
        let put =
            VaultPut { value: Some(secret.to_string()), secret: Some(true), ..VaultPut::default() };
        return service.send(&SET_VAULT_ENTRY, &path, &put).await.map(drop);
    }
    let context = context.clone();
    let keep = move || {
        let stopped = Stopped::open(&context, &storage::unwatched)?;
        let files = KeyFiles::new(&context.home.secrets(), &context.environment);
        let vault = Vault::open(&stopped.storage, files.read(), Arc::new(WallClock))?;
        let put = [(key, Put::secret(secret.as_bytes()))];
        let writes = vault.set_at_rest(&Scope::System, put, &Actor::System)?;
        let batch = writes.batch().map_err(VaultError::from)?;
        stopped.storage.commit(&batch).map_err(VaultError::from)?;
        Ok(())
    };
    blocking(keep).await
}

/// Somebody is there to say which model answers, and nobody has said it.
fn is_asked(context: &Context) -> bool {
    let screen = context.screen;
    let is_there = io::stdin().is_terminal() && screen.live && !screen.json && !context.yes;
    is_there && !context.home.providers_file().exists()
}
