//! `hivewright history`: what was said and done, word for word.

use clap::{Args, Subcommand, ValueEnum};
use futures_util::StreamExt;
use hivewright_actors::ids::MAIN;
use serde_json::{Value, json};

use super::{
    Context,
    events::until_stopped,
    failure::{Exit, Failure, chain},
    screen::printable,
    service::{Service, given},
};

mod show;
mod tail;

const SESSIONS: &str = "/api/v1/sessions";

/// Read what was said and done, word for word
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright history list --team research\n  \
    hivewright history show research --full\n  \
    hivewright history export main:t-61c8864680b583eb > transcript.jsonl")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with what was said.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List sessions, the one used last first
    #[command(after_help = "Example:\n  hivewright history list --team research --since 24h")]
    List {
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only of this topic
        #[arg(long, value_name = "ID")]
        topic: Option<String>,
        /// Only those used since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
        #[arg(long)]
        since: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show the newest part of a session, oldest first
    #[command(after_help = "Examples:\n  \
        hivewright history show\n  \
        hivewright history show research --full --limit 20\n  \
        hivewright history show main:t-61c8864680b583eb --before 120")]
    Show {
        #[command(flatten)]
        which: Which,
        /// Also tool calls, their results, and reasoning
        #[arg(long)]
        full: bool,
        /// As it happened, or one message of the model for each turn
        #[arg(long, value_enum, default_value = "ordered")]
        layout: Layout,
        /// Only what comes after this event
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// Only what came before this event
        #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
        before: Option<u64>,
        /// How many messages, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Print a whole session, one JSON object a line
    #[command(after_help = "Examples:\n  \
        hivewright history export research > research.jsonl\n  \
        hivewright history export main --topic t-61c8864680b583eb | jq .role")]
    Export {
        #[command(flatten)]
        which: Which,
    },
    /// Have a session summarised, so that the model is shown less of it
    #[command(after_help = "Example:\n  hivewright history compact main:t-61c8864680b583eb")]
    Compact {
        #[command(flatten)]
        which: Which,
    },
    /// Show the end of a session, and go on with what comes, until Ctrl-C
    #[command(after_help = "Example:\n  hivewright history tail research --full")]
    Tail {
        #[command(flatten)]
        which: Which,
        /// Also tool calls, their results, and reasoning
        #[arg(long)]
        full: bool,
        /// How many messages to begin with, 1 to 200
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
}

/// A session.
#[derive(Clone, Debug, PartialEq, Args)]
pub(super) struct Which {
    /// A team, whose session that was used last is meant, or a session by its id
    #[arg(default_value = MAIN, value_name = "TEAM|SESSION")]
    which: String,
    /// The session of the team in this topic
    #[arg(long, value_name = "ID")]
    topic: Option<String>,
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    Ordered,
    Grouped,
}

impl Which {
    /// Where its transcript is, and what else names it. What would lead elsewhere is no name.
    fn path(&self) -> Result<(String, Option<String>), Failure> {
        let Self { which, topic } = self;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~:".contains(&byte);
        if which.is_empty() || !which.bytes().all(plain) {
            let message = format!("`{which}` is neither a team nor a session");
            return Err(Failure::new(Exit::Usage, message));
        }
        match (which.contains(':'), topic) {
            (true, Some(_)) => {
                let message = "a session has one topic; leave `--topic` out, or name a team";
                Err(Failure::new(Exit::Usage, message))
            }
            (true, None) => Ok((format!("{SESSIONS}/{which}/history"), None)),
            (false, topic) => {
                let key = topic.as_ref().map(|topic| format!("topic:{topic}"));
                Ok((format!("/api/v1/teams/{which}/history"), key))
            }
        }
    }

    /// A part of its transcript.
    async fn read(&self, service: &Service, part: Part) -> Result<Value, Failure> {
        let (path, session_key) = self.path()?;
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let fields = [
            ("session_key", session_key),
            ("view", part.full.then(|| "full".to_owned())),
            ("layout", part.grouped.then(|| "grouped".to_owned())),
            ("after", number(part.after)),
            ("before", number(part.before)),
            ("limit", Some(part.limit.to_string())),
        ];
        service.search(&path, given(fields)).await
    }

    /// Its id.
    async fn id(&self, service: &Service) -> Result<String, Failure> {
        let part = Part { limit: 1, ..Part::default() };
        let answer = self.read(service, part).await?;
        session_of(&answer).map(str::to_owned)
    }
}

fn session_of(answer: &Value) -> Result<&str, Failure> {
    let id = answer["session"]["id"].as_str();
    id.ok_or_else(|| Failure::failed("the service's answer names no session"))
}

/// Which part of a transcript.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    full: bool,
    grouped: bool,
    after: Option<u64>,
    before: Option<u64>,
    limit: u32,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match arguments.action {
        Action::List { team, topic, since, limit } => {
            let fields = [
                ("team", team),
                ("topic", topic),
                ("since", since),
                ("limit", Some(limit.to_string())),
            ];
            let service = Service::find(context)?;
            let answer = service.search(SESSIONS, given(fields)).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&show::sessions(&answer)?);
        }
        Action::Show { which, full, layout, after, before, limit } => {
            let part = Part { full, grouped: layout == Layout::Grouped, after, before, limit };
            let answer = which.read(&Service::find(context)?, part).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&show::transcript(&answer)?);
            if let Some(before) = answer["prev_before"].as_u64() {
                screen.remark(&format!("there is more before: `--before {before}`"));
            }
        }
        Action::Export { which } => export(&which, context).await?,
        Action::Compact { which } => {
            let service = Service::find(context)?;
            let id = which.id(&service).await?;
            let path = format!("{SESSIONS}/{id}/compact");
            let answer = service.post(&path, &json!({})).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let task = answer["data"]["task_id"].as_str().unwrap_or_default();
            let task = printable(task);
            screen.remark(&format!(
                "session {id} is summarised as task {task}; see what came of it: `hivewright tasks watch {task}`"
            ));
        }
        Action::Tail { which, full, limit } => {
            return until_stopped(tail::run(which, full, limit, context)).await;
        }
    }
    Ok(())
}

/// Passes the lines on as they come, whatever the form of results is: they are JSON in any case.
async fn export(which: &Which, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let id = which.id(&service).await?;
    let path = format!("{SESSIONS}/{id}/export");
    let mut chunks = service.stream(&path, [], None).await?.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            Failure::system("the transcript was cut off before its end", chain(&error))
        })?;
        if !context.screen.put(&chunk) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn path(which: &str, topic: Option<&str>) -> Result<(String, Option<String>), Exit> {
        let which = Which { which: which.to_owned(), topic: topic.map(str::to_owned) };
        which.path().map_err(|failure| failure.exit)
    }

    #[test]
    fn a_session_is_named_by_its_id_or_by_its_team() {
        let team = "/api/v1/teams/ops/history".to_owned();
        let session = "/api/v1/sessions/ops~2:t-1/history".to_owned();

        assert_eq!(path("ops", None), Ok((team.clone(), None)));
        assert_eq!(path("ops", Some("t-1")), Ok((team, Some("topic:t-1".into()))));
        assert_eq!(path("ops~2:t-1", None), Ok((session, None)));
        for (which, topic) in [("", None), ("../tokens", None), ("a?b", None), ("a:b", Some("c"))] {
            assert_eq!(path(which, topic), Err(Exit::Usage), "{which}");
        }
    }
}
