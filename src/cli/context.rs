//! Context: the flags that every command understands, and the home or service that they lead to.

use std::path::PathBuf;

use clap::Args;

use super::{
    failure::Failure,
    named_services::{self, Way},
    screen::Screen,
};
use crate::settings::{
    home::{Flags, Home},
    references::Environment,
};

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(super) struct Everywhere {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// The service with this name, see `hivewright context` [default: the one in use]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "url")]
    pub(super) context: Option<String>,
    /// The service to talk to [default: the one that runs in the home]
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,
    /// The token to show it [default: the operator token of the home, on this machine or its network]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Trust the authorities in this file (PEM) and no others, for a service with `https://`
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) cacert: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print nothing beside results and errors
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Print without colours
    #[arg(long, global = true)]
    pub(super) no_color: bool,
    /// Go on without asking
    #[arg(long, short, global = true)]
    pub(super) yes: bool,
}

/// What every command works with.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) home: Home,
    pub(super) environment: Environment,
    pub(super) screen: Screen,
    pub(super) url: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) cacert: Option<PathBuf>,
    /// Nobody is to be asked.
    pub(super) yes: bool,
    /// The flags that lead to the home or service, as they were given, for commands that are suggested.
    pub(super) way: String,
}

impl Context {
    pub(super) fn new(everywhere: Everywhere, screen: Screen) -> Result<Self, Failure> {
        let environment = Environment::system();
        let home = Home::new(&everywhere.flags, &environment)?;
        let way = way(&everywhere);
        let Everywhere { context, url, token_file, cacert, .. } = everywhere;
        let named = match &url {
            Some(_) => None,
            None => named_services::way_to(&home, context.as_deref())?,
        };
        let (url, token_file, cacert) = match named {
            Some(Way { url, token_file: token, cacert: authority }) => {
                (Some(url), token_file.or(Some(token)), cacert.or(authority))
            }
            None => (url, token_file, cacert),
        };
        Ok(Self { home, environment, screen, url, token_file, cacert, yes: everywhere.yes, way })
    }

    /// The folder whose files are changed. Those of a service elsewhere are not here.
    pub(super) fn own_home(&self) -> Result<Home, Failure> {
        match &self.url {
            None => Ok(self.home.clone()),
            Some(url) => Err(Failure::usage(format!(
                "the files of {url} are changed on its own machine, or in its page: this is about the files of this \
                 one, so run it without `--url` or `--context`, or after `hivewright context use local`"
            ))),
        }
    }

    /// A command of this program for the same home, to be suggested.
    pub(super) fn command(&self, words: &str) -> String {
        format!("`hivewright{} {words}`", self.way)
    }

    /// A text of the layers below, which know no flags: commands that it suggests are for the same home. Those about a
    /// service elsewhere stay as they are, since some are to be run there.
    pub(super) fn led(&self, text: &str) -> String {
        if self.way.is_empty() || self.url.is_some() {
            return text.to_owned();
        }
        let led = format!("`hivewright{} ", self.way);
        // What leads there already is left alone.
        let parts = text.split(led.as_str()).map(|part| part.replace("`hivewright ", &led));
        parts.collect::<Vec<_>>().join(led.as_str())
    }
}

pub(super) fn way(everywhere: &Everywhere) -> String {
    let Everywhere { flags, context, url, token_file, cacert, .. } = everywhere;
    let paths = [
        ("--home", &flags.home),
        ("--data-dir", &flags.data_dir),
        ("--run-dir", &flags.run_dir),
        ("--token-file", token_file),
        ("--cacert", cacert),
    ];
    let paths = paths
        .into_iter()
        .filter_map(|(name, path)| Some(format!(" {name} {}", path.as_ref()?.display())));
    let words = [("--context", context), ("--url", url)].into_iter();
    let words = words.filter_map(|(name, word)| Some(format!(" {name} {}", word.as_ref()?)));
    paths.chain(words).collect()
}
