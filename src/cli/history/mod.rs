//! `hivewright history`: what was said and done, word for word.

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use hivewright_actors::ids::MAIN;

use super::{
    Context,
    events::until_stopped,
    failure::{Exit, Failure, chain},
    screen::printable,
    service::{Answer, Service, target},
};
use crate::api::{
    endpoint::{ById, ByName, Empty},
    flags::Limit,
    sessions::{
        COMPACT_SESSION, EXPORT_SESSION, HistoryFilter, LIST_SESSIONS, SHOW_HISTORY,
        SHOW_TEAM_HISTORY, SessionFilter, TeamHistoryFilter, Transcript,
    },
};

mod show;
mod tail;

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
        #[command(flatten)]
        filter: SessionFilter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show the newest part of a session, oldest first
    #[command(after_help = "Examples:\n  \
        hivewright history show\n  \
        hivewright history show research --full --limit 20\n  \
        hivewright history show main:t-61c8864680b583eb --before 120")]
    Show {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        part: HistoryFilter,
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
        limit: usize,
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

/// How the service knows a session: by its id, or by its team and a key.
enum Named {
    Session(ById),
    Team(ByName, Option<String>),
}

impl Which {
    fn named(&self) -> Result<Named, Failure> {
        match (self.which.clone(), &self.topic) {
            (id, None) if id.contains(':') => Ok(Named::Session(ById { id })),
            (id, Some(_)) if id.contains(':') => {
                let message = "a session has one topic; leave `--topic` out, or name a team";
                Err(Failure::new(Exit::Usage, message))
            }
            (name, topic) => {
                let key = topic.as_ref().map(|topic| format!("topic:{topic}"));
                Ok(Named::Team(ByName { name }, key))
            }
        }
    }

    /// A part of its transcript.
    async fn read(
        &self,
        service: &Service,
        part: HistoryFilter,
    ) -> Result<Answer<Transcript>, Failure> {
        match self.named()? {
            Named::Session(id) => service.call(&SHOW_HISTORY, &id, &part, &Empty {}).await,
            Named::Team(team, session_key) => {
                let part = TeamHistoryFilter { part, session_id: None, session_key };
                service.call(&SHOW_TEAM_HISTORY, &team, &part, &Empty {}).await
            }
        }
    }

    async fn id(&self, service: &Service) -> Result<ById, Failure> {
        let part = HistoryFilter { limit: 1, ..HistoryFilter::default() };
        let found = self.read(service, part).await?.data()?;
        Ok(ById { id: found.session.id })
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match arguments.action {
        Action::List { filter, limit } => {
            let service = Service::find(context)?;
            screen.rows(&service.rows(&LIST_SESSIONS, &filter, &limit).await?)
        }
        Action::Show { which, part } => {
            let answer = which.read(&Service::find(context)?, part).await?;
            if screen.json {
                return screen.document(&answer.document);
            }
            let Transcript { data, prev_before, .. } = answer.data()?;
            screen.write(&data.iter().map(show::message).collect::<String>());
            if let Some(before) = prev_before {
                screen.remark(&format!("there is more before: `--before {before}`"));
            }
            Ok(())
        }
        Action::Export { which } => export(&which, context).await,
        Action::Compact { which } => {
            let service = Service::find(context)?;
            let path = which.id(&service).await?;
            let compacted = service.at(&COMPACT_SESSION, &path).await?;
            let (id, task) = (path.id, compacted.data()?.task_id);
            let task = printable(task.as_str());
            let remark = format!(
                "session {id} is summarised as task {task}; see what came of it: `hivewright tasks watch {task}`"
            );
            screen.done(&compacted, &remark)
        }
        Action::Tail { which, full, limit } => {
            until_stopped(tail::run(which, full, limit, context)).await
        }
    }
}

/// Passes the lines on as they come, whatever the form of results is: they are JSON in any case.
async fn export(which: &Which, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let path = target(&EXPORT_SESSION, &which.id(&service).await?)?;
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
        let path = which.named().and_then(|named| match named {
            Named::Session(id) => Ok((target(&SHOW_HISTORY, &id)?, None)),
            Named::Team(team, key) => Ok((target(&SHOW_TEAM_HISTORY, &team)?, key)),
        });
        path.map_err(|failure| failure.exit)
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
