//! `hivewright complete`: what may stand in place of the word that is being typed, for the scripts of `completions`.
//!
//! Commands, flags and fixed words come from the declarations of the commands; teams, tasks and what else has a name
//! from the service. Without one, or if it is slow, those are missing, and nothing is said.

use std::{collections::BTreeMap, time::Duration};

use clap::{Arg, Args, Command, FromArgMatches};
use tokio::time::timeout;

use crate::{
    api::{
        approvals::{ApprovalFilter, LIST_APPROVALS},
        endpoint::Empty,
        jobs::{JobFilter, LIST_JOBS},
        plugins::{LIST_PLUGINS, PluginFilter},
        questions::{LIST_QUESTIONS, QuestionFilter},
        tasks::{LIST_TASKS, TaskFilter},
        teams::{LIST_TEAMS, TeamFilter},
        tokens::LIST_TOKENS,
        topics::{LIST_TOPICS, TopicFilter},
        triggers::{LIST_TRIGGERS, TriggerFilter},
    },
    cli::{
        client::Service,
        context::{Context, Everywhere},
        failure::Failure,
        named_services,
        screen::{Screen, printable},
        table::beginning,
    },
    settings::effective,
};

/// Nobody waits longer for a key press.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(800);
/// So much is said about a candidate, in characters.
const ABOUT: usize = 60;

/// Print what may stand in place of the last word, a candidate on each line
#[derive(Debug, PartialEq, Args)]
#[command(hide = true, after_help = "Example:\n  hivewright complete -- teams sh")]
pub(super) struct Arguments {
    /// The words of the line up to the one that is being typed, without the program's name
    #[arg(last = true)]
    words: Vec<String>,
}

/// `cli` is the definition of the command line.
pub(super) async fn run(
    arguments: Arguments,
    context: &Context,
    mut cli: Command,
) -> Result<(), Failure> {
    cli.build();
    let typed = Typed::of(&cli, &arguments.words);
    let mut found = typed.fixed();
    if let Some(names) = typed.names() {
        let context = typed.context(&cli, context.screen);
        let named = async { listed(names, &context?).await };
        // Whatever is in the way is no business of somebody who presses a key.
        found.extend(
            timeout(LOOKUP_TIMEOUT, named).await.ok().and_then(Result::ok).unwrap_or_default(),
        );
    }
    for (word, about) in found {
        if let Some(rest) = word.strip_prefix(typed.word.as_str()) {
            let about = about.lines().next().unwrap_or_default();
            let about = beginning(&printable(about), ABOUT);
            context.screen.say(&format!("{}{}{rest}\t{about}", typed.before, typed.word));
        }
    }
    Ok(())
}

/// Things of the service that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Teams,
    Tasks,
    Topics,
    Approvals,
    Questions,
    Triggers,
    Tokens,
    Plugins,
    Jobs,
    Settings,
    Contexts,
}

/// A line as far as it was typed.
struct Typed<'c> {
    /// The command that it has come to, and the first word of it.
    command: &'c Command,
    top: String,
    /// What the last word is a value of.
    argument: Option<&'c Arg>,
    /// How the flags that count everywhere were given, by their names.
    everywhere: BTreeMap<String, String>,
    /// What of the last word is completed, and what stands before it.
    word: String,
    before: String,
}

impl<'c> Typed<'c> {
    fn of(cli: &'c Command, words: &[String]) -> Self {
        let (word, before) =
            words.split_last().map_or(("", words), |(last, rest)| (last.as_str(), rest));
        let mut typed = Self {
            command: cli,
            top: String::new(),
            argument: None,
            everywhere: BTreeMap::new(),
            word: word.to_owned(),
            before: String::new(),
        };
        let (mut flag, mut place) = (None, 0);
        for word in before {
            match (flag.take(), word.as_str()) {
                // Some shells part a flag from its value there.
                (kept, "=") => flag = kept,
                (Some(argument), value) => typed.give(argument, value),
                (None, word) if word.starts_with('-') => flag = typed.take_flag(word),
                (None, word) => match typed.command.find_subcommand(word) {
                    Some(inner) if place == 0 => {
                        if typed.top.is_empty() {
                            inner.get_name().clone_into(&mut typed.top);
                        }
                        typed.command = inner;
                    }
                    _ => place += 1,
                },
            }
        }
        if typed.word == "=" {
            typed.word.clear();
        }
        typed.argument = flag;
        if flag.is_none() {
            if let Some((name, value)) = word.split_once('=')
                && let Some(argument) = typed.flag(name)
            {
                typed.argument = Some(argument);
                (typed.before, typed.word) = (format!("{name}="), value.to_owned());
            } else if !word.starts_with('-') {
                typed.argument = typed.positional(place);
            }
        }
        typed
    }

    fn give(&mut self, argument: &Arg, value: &str) {
        if argument.is_global_set() {
            let name = argument.get_long().unwrap_or_default();
            // A shell does not expand what it completes.
            let value = match (value.strip_prefix('~'), std::env::home_dir()) {
                (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                    format!("{}{rest}", home.display())
                }
                _ => value.to_owned(),
            };
            self.everywhere.insert(format!("--{name}"), value);
        }
    }

    /// A flag before the last word. Returned if its value comes with the next.
    fn take_flag(&mut self, word: &str) -> Option<&'c Arg> {
        let (name, value) = word.split_once('=').unzip();
        let argument = self.flag(name.unwrap_or(word))?;
        match value {
            Some(value) => self.give(argument, value),
            None if argument.get_action().takes_values() => return Some(argument),
            None => {}
        }
        None
    }

    fn flag(&self, word: &str) -> Option<&'c Arg> {
        self.command.get_arguments().find(|argument| {
            let long = word.strip_prefix("--");
            let short = word.strip_prefix('-').and_then(|rest| rest.chars().next());
            match long {
                Some(long) => argument.get_long() == Some(long),
                None => short.is_some() && argument.get_short() == short,
            }
        })
    }

    /// What stands there without a flag; the last one may be repeated.
    fn positional(&self, place: usize) -> Option<&'c Arg> {
        let all: Vec<&'c Arg> = self.command.get_positionals().collect();
        let many =
            |argument: &&Arg| argument.get_num_args().is_some_and(|many| many.max_values() > 1);
        all.get(place).copied().or_else(|| all.into_iter().find(many))
    }

    /// Candidates that are known without a service, and what each is.
    fn fixed(&self) -> Vec<(String, String)> {
        let about = |text: Option<&clap::builder::StyledStr>| {
            text.map(ToString::to_string).unwrap_or_default()
        };
        let mut found = Vec::new();
        if let Some(argument) = self.argument {
            let values = argument.get_possible_values().into_iter();
            found
                .extend(values.map(|value| (value.get_name().to_owned(), about(value.get_help()))));
        } else if self.word.starts_with('-') {
            let flags = self.command.get_arguments().filter(|argument| !argument.is_hide_set());
            found.extend(flags.filter_map(|flag| {
                Some((format!("--{}", flag.get_long()?), about(flag.get_help())))
            }));
        }
        if self.before.is_empty() && self.is_at_command() {
            let inner = self.command.get_subcommands().filter(|inner| !inner.is_hide_set());
            found
                .extend(inner.map(|inner| (inner.get_name().to_owned(), about(inner.get_about()))));
        }
        found
    }

    /// No word stands behind the command, so that the next may be one within it.
    fn is_at_command(&self) -> bool {
        let is_first = self.argument.is_none_or(|argument| argument.get_index() == Some(1));
        !self.word.starts_with('-') && is_first
    }

    /// What the last word names.
    fn names(&self) -> Option<Names> {
        let argument = self.argument?;
        match (self.top.as_str(), argument.get_id().as_str()) {
            (_, "team" | "teams") | ("teams", "name") | ("history", "which") => Some(Names::Teams),
            ("tasks", "id") => Some(Names::Tasks),
            ("topics", "id") | (_, "topic") => Some(Names::Topics),
            ("approvals", "id") => Some(Names::Approvals),
            ("questions", "id") => Some(Names::Questions),
            ("trigger", "which") => Some(Names::Triggers),
            ("token", "id") => Some(Names::Tokens),
            ("plugin" | "channel", "key") => Some(Names::Plugins),
            ("jobs", "id") => Some(Names::Jobs),
            (_, "context") | ("context", "name") => Some(Names::Contexts),
            ("config", "key" | "field") => Some(Names::Settings),
            _ => None,
        }
    }

    /// The home or service that the line is about.
    fn context(&self, cli: &Command, screen: Screen) -> Result<Context, Failure> {
        let given =
            self.everywhere.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let line = ["hivewright"].into_iter().chain(given);
        let matches = cli.clone().try_get_matches_from(line);
        let everywhere = matches.and_then(|matches| Everywhere::from_arg_matches(&matches));
        let everywhere = everywhere.map_err(|error| Failure::usage(error.to_string()))?;
        Context::new(everywhere, screen)
    }
}

async fn listed(names: Names, context: &Context) -> Result<Vec<(String, String)>, Failure> {
    if names == Names::Settings {
        let fields = effective::fields(&context.home, &context.environment).into_iter();
        return Ok(fields.map(|row| (row.path, row.value.to_string())).collect());
    }
    if names == Names::Contexts {
        return named_services::names(&context.home);
    }
    let service = Service::find(context)?;
    macro_rules! rows {
        ($endpoint:expr, $filter:expr, $candidate:expr) => {{
            let rows = service.rows(&$endpoint, &$filter).await?.data()?;
            Ok(rows.into_iter().map($candidate).collect())
        }};
    }
    match names {
        Names::Teams => rows!(LIST_TEAMS, TeamFilter::default(), |row| {
            (row.name.to_string(), row.state.to_string())
        }),
        Names::Tasks => rows!(LIST_TASKS, TaskFilter::default(), |row| {
            (row.id.to_string(), format!("{}, {}: {}", row.state, row.team, row.body))
        }),
        Names::Topics => {
            rows!(LIST_TOPICS, TopicFilter::default(), |row| (row.id.to_string(), row.name))
        }
        Names::Approvals => {
            rows!(LIST_APPROVALS, ApprovalFilter::default(), |row| (row.short_id, row.summary))
        }
        Names::Questions => rows!(LIST_QUESTIONS, QuestionFilter::default(), |row| {
            (row.id.to_string(), row.question)
        }),
        Names::Triggers => rows!(LIST_TRIGGERS, TriggerFilter::default(), |row| {
            (format!("{}/{}", row.team, row.definition.name), row.state.to_string())
        }),
        Names::Tokens => rows!(LIST_TOKENS, Empty {}, |row| (row.name, row.id.to_string())),
        Names::Plugins => {
            rows!(LIST_PLUGINS, PluginFilter::default(), |row| { (row.key, row.description) })
        }
        Names::Jobs => rows!(LIST_JOBS, JobFilter::default(), |row| {
            (row.id, format!("{}, {}", row.kind, row.state))
        }),
        Names::Settings | Names::Contexts => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::commands::dispatch::Cli;

    fn typed(line: &str) -> (Vec<String>, Option<Names>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut cli = Cli::command();
        cli.build();
        let typed = Typed::of(&cli, &words);
        let found = typed.fixed().into_iter().map(|(word, _)| word);
        let found = found.filter(|word| word.starts_with(&typed.word)).collect();
        (found, typed.names())
    }

    /// OP-82
    #[test]
    fn commands_flags_and_words_are_known_and_names_are_looked_up() {
        let fixed = |line: &str| typed(line).0;
        let names = |line: &str| typed(line).1;

        assert_eq!(fixed("teams sh"), ["show", "shutdown"]);
        assert_eq!(fixed("teams pause --n"), ["--now", "--no-color"]);
        assert_eq!(fixed("tasks list --state wa"), ["waiting"]);
        assert_eq!(fixed("tasks list --state=wa"), ["waiting"]);
        assert_eq!(fixed("--home /x --json history t"), ["tail"]);
        assert_eq!(fixed("comp"), ["completions"]);
        assert_eq!(names("send hello --team re"), Some(Names::Teams));
        assert_eq!(names("teams pause "), Some(Names::Teams));
        assert_eq!(names("tasks show "), Some(Names::Tasks));
        assert_eq!(names("tasks create --priority "), None);
        assert_eq!(names("config set ser"), Some(Names::Settings));
        assert_eq!(names("tea"), None);
        assert_eq!(names("triggers remove "), Some(Names::Triggers));
        assert_eq!(names("context use "), Some(Names::Contexts));
        assert_eq!(names("status --context "), Some(Names::Contexts));
    }

    #[test]
    fn the_home_that_is_typed_is_the_one_that_is_asked() {
        let words = ["--home", "/x", "--run-dir=/y", "teams", "show", ""].map(str::to_owned);
        let mut cli = Cli::command();
        cli.build();

        let typed = Typed::of(&cli, &words);

        let given = [("--home", "/x"), ("--run-dir", "/y")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(typed.everywhere, given.into());
    }
}
