//! `hivewright init`: the first files of a home.

use std::io::{self, IsTerminal};

use clap::Args;
use serde_json::json;

use super::{Context, failure::Failure};
use crate::{
    api::flags,
    settings::{
        providers::Provider,
        scaffold::{self, ModelSettings},
    },
};

mod discord;
mod model;

/// Write commented example settings; what is there stays as it is
///
/// At a terminal it asks which model answers, and has it answer once. With `--yes` it does not.
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
    let written = scaffold::init(home, model, settings)?;
    if let Some(bot) = &bot {
        bot.keep_token(context)?;
    }
    if let Some(chosen) = &chosen {
        chosen.keep_key(context)?;
    }
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
    screen.remark(&format!("next: {}", context.command("serve")));
    Ok(())
}

/// Somebody is there to say which model answers, and nobody has said it.
fn is_asked(context: &Context) -> bool {
    let screen = context.screen;
    let is_there = io::stdin().is_terminal() && screen.live && !screen.json && !context.yes;
    is_there && !context.home.providers_file().exists()
}
