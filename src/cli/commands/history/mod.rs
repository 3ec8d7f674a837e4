//! `hivewright history`: what was said and done, word for word.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use hivewright_actors::{clock::Timestamp, ids::MAIN};

use crate::{
    api::{
        endpoint::{ById, ByName, Empty},
        sessions::*,
        transcript::{Block, Message},
        when::Moment,
    },
    cli::{
        answer::{Answer, Listing},
        client::{Service, target},
        context::Context,
        events::until_stopped,
        failure::{Exit, Failure},
        screen::printable,
        table::{columns, exact, moment},
        watch::Watched,
    },
};

mod import;
mod tail;

/// Read what was said and done, word for word
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright history list --team research\n  \
    hivewright history show research --full\n  \
    hivewright history export main:t-61c8864680b583eb > transcript.jsonl")]
pub(super) enum Action {
    /// List sessions, the one used last first
    #[command(after_help = "Example:\n  hivewright history list --team research --since 24h")]
    List(Watched<Listing<SessionFilter>>),
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
        hivewright history export research -o research.jsonl\n  \
        hivewright history export main --topic t-61c8864680b583eb | jq .role")]
    Export {
        #[command(flatten)]
        which: Which,
        /// Write it to this file, in place of what is there
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    Import(import::Arguments),
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
        #[arg(long, value_name = "NUMBER", default_value_t = 10)]
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
                Err(Failure::usage("a session has one topic; leave `--topic` out, or name a team"))
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
                let answer = service.call(&SHOW_TEAM_HISTORY, &team, &part, &Empty {}).await;
                answer.map_err(|failure| self.hint(failure))
            }
        }
    }

    /// Who has the id of a topic from `topics list` is told how it is named.
    fn hint(&self, failure: Failure) -> Failure {
        if failure.exit != Exit::NotFound || self.topic.is_some() || !self.which.starts_with("t-") {
            return failure;
        }
        let message = format!("{}; a topic is named by `--topic {}`", failure.message, self.which);
        Failure { message, ..failure }
    }

    async fn id(&self, service: &Service) -> Result<ById, Failure> {
        let part = HistoryFilter { limit: 1, ..HistoryFilter::default() };
        Ok(ById { id: self.read(service, part).await?.data()?.session.id })
    }
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::List(list) => list.show(&LIST_SESSIONS, context).await,
        Action::Show { which, part } => {
            let answer = which.read(&Service::find(context)?, part).await?;
            if screen.json {
                return screen.document(&answer.document);
            }
            let Transcript { data, prev_before, .. } = answer.data()?;
            screen.write(&data.iter().map(message).collect::<String>());
            if let Some(before) = prev_before {
                screen.remark(&format!("there is more before: `--before {before}`"));
            }
            Ok(())
        }
        Action::Export { which, output } => {
            let service = Service::find(context)?;
            let path = target(&EXPORT_SESSION, &which.id(&service).await?)?;
            match output {
                Some(file) => {
                    export_to(&file, &service, &path).await?;
                    screen.remark(&format!("written to {}", file.display()));
                    Ok(())
                }
                None => service.pass_on(&path, Vec::new(), |chunk| Ok(screen.put(chunk))).await,
            }
        }
        Action::Import(arguments) => import::run(arguments, context).await,
        Action::Compact { which } => {
            let service = Service::find(context)?;
            let path = which.id(&service).await?;
            service.at(&COMPACT_SESSION, &path).await?.tell(screen, |begun| {
                let (id, task) = (&path.id, begun.task_id);
                let watch = context.command(&format!("tasks watch {task}"));
                format!("session {id} is summarised as task {task}; see what came of it: {watch}")
            })
        }
        Action::Tail { which, full, limit } => {
            until_stopped(tail::run(which, full, limit, context)).await
        }
    }
}

/// Writes an export into a file, for its owner alone if it is new.
async fn export_to(file: &Path, service: &Service, path: &str) -> Result<(), Failure> {
    let unwritable = Failure::unwritable(file);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut opened = options.open(file).map_err(unwritable)?;
    let write = |chunk: &[u8]| opened.write_all(chunk).map(|()| true).map_err(unwritable);
    service.pass_on(path, Vec::new(), write).await
}

columns!(SessionRow {
    "ID" => |row| row.id.clone(),
    "TEAM" => |row| row.team.to_string(),
    "TOPIC" => |row| row.topic_id.as_ref().map_or("-".to_owned(), ToString::to_string),
    "EVENTS" => |row| row.events.to_string(),
    "LAST USED" => |row| moment(row.updated_at),
});

/// One message: who and when, then what, further in.
fn message(message: &Message) -> String {
    let mut text = format!("{}  {}\n", exact(Moment(Timestamp(message.timestamp))), who(message));
    for block in &message.content {
        let words = match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking } => format!("(thinks) {thinking}"),
            Block::ToolCall { name, arguments, .. } => format!("→ {name} {arguments}"),
            Block::File { filename, mime_type, size, .. } => {
                format!("(file) {filename} ({mime_type}, {size} bytes)")
            }
            Block::Unknown => "(something that a newer program shows)".to_owned(),
        };
        for line in words.lines() {
            text += format!("  {line}").trim_end();
            text.push('\n');
        }
    }
    if message.answers.as_ref().is_some_and(|answers| answers.truncated) {
        text += "  (cut here)\n";
    }
    printable(&text)
}

fn who(message: &Message) -> String {
    let who = match (&message.answers, &message.from) {
        (Some(answers), _) => {
            let end = match (answers.denied, answers.is_error) {
                (true, _) => "denied, ",
                (_, true) => "failed, ",
                _ => "",
            };
            format!("{} ({end}{} ms)", answers.tool_name, answers.duration_ms)
        }
        (None, Some(from)) => format!("{} {from}", message.role),
        (None, None) => message.role.to_string(),
    };
    if message.untrusted { format!("{who} · untrusted") } else { who }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::{failure::Exit, table};

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

    /// OP-79, OP-84
    #[test]
    fn sessions_are_listed_in_columns() {
        let rows = json!([
            {"id": "main:t-1", "team": "main", "generation": 1, "topic_id": "t-1", "events": 12,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:46:40.000Z"},
            {"id": "ops:main", "team": "ops", "generation": 1, "events": 3,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:41:00.000Z"},
        ]);
        let rows: Vec<SessionRow> = serde_json::from_value(rows).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID        TEAM  TOPIC  EVENTS  LAST USED\n\
             main:t-1  main  t-1    12      2026-11-14 23:46 UTC\n\
             ops:main  ops   -      3       2026-11-14 23:41 UTC\n"
        );
    }

    /// OP-40
    #[test]
    fn a_transcript_says_who_said_what_and_when() {
        let at = 1_794_700_000_000_u64;
        let messages = json!([
            {"seq": 1, "turn": "t", "role": "user", "timestamp": at, "from": "ann",
             "content": [{"type": "text", "text": "Look\nin here."}]},
            {"seq": 3, "turn": "t", "role": "assistant", "timestamp": at, "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}},
            ]},
            {"seq": 4, "turn": "t", "role": "toolResult", "timestamp": at, "toolName": "bash",
             "toolCallId": "c", "isError": true, "durationMs": 12, "truncated": true,
             "untrusted": true,
             "content": [{"type": "text", "text": "no\u{1b}[2J such file"}]},
            {"seq": 5, "turn": "t", "role": "toolResult", "timestamp": at, "toolName": "bash",
             "toolCallId": "d", "isError": true, "denied": true, "durationMs": 0, "content": []},
        ]);
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();

        let at = exact(Moment(Timestamp(at)));
        let expected = format!(
            "{at}  user ann\n  Look\n  in here.\n\
             {at}  assistant\n  (thinks) Hm.\n  → bash {{\"command\":\"ls\"}}\n\
             {at}  bash (failed, 12 ms) · untrusted\n  no[2J such file\n  (cut here)\n\
             {at}  bash (denied, 0 ms)\n"
        );
        assert_eq!(messages.iter().map(message).collect::<String>(), expected);
    }

    #[test]
    fn a_part_that_only_a_newer_service_says_is_marked() {
        let said = json!({
            "seq": 3, "turn": "t", "role": "assistant", "timestamp": 0,
            "content": [{"type": "drawing", "strokes": [1]}, {"type": "text", "text": "There."}],
        });

        let shown = message(&serde_json::from_value(said).unwrap());

        let (_, shown) = shown.split_once('\n').unwrap();
        assert_eq!(shown, "  (something that a newer program shows)\n  There.\n");
    }
}
