//! `hivewright questions`: what teams want to know.

use std::io::{self, IsTerminal, Read};

use clap::{Args, Subcommand};
use hivewright_actors::approvals::question::{AnswerKind, QuestionStatus};
use zeroize::Zeroizing;

use super::{
    Context,
    failure::{Exit, Failure},
    hidden,
    service::Service,
    table::{columns, date},
};
use crate::api::{
    endpoint::{ById, Empty},
    questions::{
        ANSWER_QUESTION, LIST_QUESTIONS, QuestionAnswer, QuestionFilter, QuestionRow, SHOW_QUESTION,
    },
};

/// The largest secret, in bytes.
const LARGEST: u64 = 64 * 1024;

/// See and answer what teams ask
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright questions list\n  \
    hivewright questions answer qst-61c8864680b583eb --text \"the blue one\"\n  \
    hivewright questions answer qst-61c8864680b583eb < key.txt")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with questions.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List what waits for an answer, oldest first
    #[command(after_help = "Example:\n  hivewright questions list --json")]
    List(QuestionFilter),
    /// Answer a question; a secret is asked for, or read from standard input
    #[command(after_help = "Examples:\n  \
        hivewright questions answer qst-61c8864680b583eb --select red --select blue\n  \
        hivewright questions answer qst-61c8864680b583eb --text \"neither\"\n  \
        hivewright questions answer qst-61c8864680b583eb < key.txt")]
    Answer {
        /// The question
        id: String,
        /// One of its options; may be repeated
        #[arg(long = "select", value_name = "OPTION")]
        selected: Vec<String>,
        /// Words
        #[arg(long)]
        text: Option<String>,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List(filter) => {
            screen.rows(&service.call(&LIST_QUESTIONS, &Empty {}, &filter, &Empty {}).await?)
        }
        Action::Answer { id, selected, text } => {
            let path = ById { id };
            let text = match (is_secret(&service, &path).await?, text) {
                (true, Some(_)) => {
                    let message = "it asks for a secret, which must not stand on the command line; \
                        leave `--text` out";
                    return Err(Failure::new(Exit::Usage, message));
                }
                (true, None) => read_secret()?,
                (false, text) => Zeroizing::new(text.unwrap_or_default()),
            };
            let answer = QuestionAnswer { selected, text: text.to_string() };
            let answered = service.call(&ANSWER_QUESTION, &path, &Empty {}, &answer).await?;
            screen.done(&answered, &format!("answered {}", path.id))
        }
    }
}

/// Whether an open question asks for a secret. Why one that is not there cannot be answered, its answer is told.
async fn is_secret(service: &Service, path: &ById) -> Result<bool, Failure> {
    let question = match service.at(&SHOW_QUESTION, path).await {
        Err(failure) if failure.exit == Exit::NotFound => return Ok(false),
        found => found?.data()?,
    };
    Ok(question.status == QuestionStatus::Open && question.kind == AnswerKind::Secret)
}

/// The secret, from the keyboard without showing it, or from standard input.
fn read_secret() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = if io::stdin().is_terminal() {
        hidden::ask("Secret: ")?
    } else {
        let mut bytes = Zeroizing::new(Vec::new());
        io::stdin()
            .take(LARGEST + 2)
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::system("standard input cannot be read", error))?;
        bytes
    };
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(Failure::new(Exit::Usage, "the secret is no text")),
    }
}

columns!(QuestionRow {
    "ID" => |row| row.id.clone(),
    "STATUS" => |row| row.status.to_string(),
    "TEAM" => |row| row.team.clone(),
    "KIND" => |row| row.kind.to_string(),
    "UNTIL" => |row| date(&row.expires_at),
    "QUESTION" => |row| match row.options.as_slice() {
        [] => row.question.clone(),
        options => format!("{} [{}]", row.question, options.join(" | ")),
    },
});

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-84
    #[test]
    fn questions_are_listed_with_their_options() {
        let rows: Vec<QuestionRow> = serde_json::from_value(json!([{
            "id": "qst-1", "team": "main", "kind": "text", "question": "Which\ncolour?",
            "options": ["red", "blue"], "status": "open", "expires_at": null,
            "generation": 1, "lane": {"team": "main", "topic": null}, "task_id": "task-1",
            "multi": false, "key": null, "answer": null, "by": null, "created_at": null,
            "answered_at": null,
        }]))
        .unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID     STATUS  TEAM  KIND  UNTIL  QUESTION\n\
             qst-1  open    main  text         Which colour? [red | blue]\n"
        );
    }
}
