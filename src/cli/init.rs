//! `hivewright init`: the first files of a home.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Context, failure::Failure};
use crate::settings::{providers::Provider, scaffold};

/// Write commented example settings; what is there stays as it is
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Example:\n  hivewright init --provider anthropic")]
pub(super) struct Arguments {
    /// Write an active profile for this model API
    #[arg(long, value_enum)]
    pub(super) provider: Option<Api>,
}

/// The model APIs by the names that settings use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Api {
    /// Anthropic; the key comes from ANTHROPIC_API_KEY
    Anthropic,
    /// OpenAI; the key comes from OPENAI_API_KEY
    Openai,
    /// The demo that answers without a network
    Offline,
}

impl From<Api> for Provider {
    fn from(api: Api) -> Self {
        match api {
            Api::Anthropic => Self::Anthropic,
            Api::Openai => Self::OpenAi,
            Api::Offline => Self::Offline,
        }
    }
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let home = &context.home;
    let written = scaffold::init(home, arguments.provider.map(Provider::from))?;
    let shown: Vec<_> = written.iter().map(|path| path.display()).collect();
    if screen.json {
        let files: Vec<_> = shown.iter().map(ToString::to_string).collect();
        return screen.document(&json!({"data": {"written": files}}));
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
        Some(api) if !written.contains(&providers) => screen.remark(&format!(
            "{} was there already and stays as it is: add a profile with `provider: {}` yourself",
            providers.display(),
            Provider::from(api).as_str()
        )),
        Some(Api::Anthropic) => screen.remark("put the key into the variable ANTHROPIC_API_KEY"),
        Some(Api::Openai) => screen.remark("put the key into the variable OPENAI_API_KEY"),
        Some(Api::Offline) | None => {}
    }
    screen.remark(&format!("next: {}", context.command("serve")));
    Ok(())
}
