//! `hivewright questions`: what teams want to know.

use std::io::{self, IsTerminal, Read};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    Context,
    approvals::safe,
    failure::{Exit, Failure},
    hidden,
    service::{Service, data},
    table::{moment, table},
};

/// The largest secret, in bytes.
const LARGEST: u64 = 64 * 1024;
/// Rows of one answer.
const PAGE: usize = 200;

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
    List {
        /// Those with another end: answered, expired, cancelled
        #[arg(long, default_value = "open")]
        status: String,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
    },
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
        Action::List { status, team } => {
            let fields = [("status", Some(status)), ("team", team)];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let answer = service.search("/api/v1/questions", fields).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&listed(&answer)?);
        }
        Action::Answer { id, selected, text } => {
            let path = format!("/api/v1/questions/{}/answer", safe(&id)?);
            let secret = is_secret(&service, &id).await?;
            let text = match (secret, text) {
                (true, Some(_)) => {
                    let message = "it asks for a secret, which must not stand on the command line; \
                        leave `--text` out";
                    return Err(Failure::new(Exit::Usage, message));
                }
                (true, None) => read_secret()?,
                (false, text) => Zeroizing::new(text.unwrap_or_default()),
            };
            let answer = service.post(&path, &json!({"selected": selected, "text": *text})).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.remark(&format!("answered {id}"));
        }
    }
    Ok(())
}

/// Whether an open question asks for a secret.
async fn is_secret(service: &Service, id: &str) -> Result<bool, Failure> {
    let mut seen = 0;
    loop {
        let fields = [
            ("status", "open".to_owned()),
            ("limit", PAGE.to_string()),
            ("offset", seen.to_string()),
        ];
        let answer = service.search("/api/v1/questions", fields).await?;
        let rows = rows(&answer)?;
        if let Some(found) = rows.iter().find(|row| row.id == id) {
            return Ok(found.kind == "secret");
        }
        if rows.len() < PAGE {
            return Ok(false);
        }
        seen += rows.len();
    }
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

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    team: String,
    kind: String,
    question: String,
    options: Vec<String>,
    status: String,
    expires_at: Option<String>,
}

fn rows(answer: &Value) -> Result<Vec<Row>, Failure> {
    data(answer)
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows = rows(answer)?.into_iter().map(|row| {
        let options = if row.options.is_empty() {
            String::new()
        } else {
            format!(" [{}]", row.options.join(" | "))
        };
        [
            row.id,
            row.status,
            row.team,
            row.kind,
            row.expires_at.as_deref().map(moment).unwrap_or_default(),
            format!("{}{options}", row.question.replace('\n', " ")),
        ]
    });
    Ok(table(["ID", "STATUS", "TEAM", "KIND", "UNTIL", "QUESTION"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-84
    #[test]
    fn questions_are_listed_with_their_options() {
        let answer = json!({"data": [{
            "id": "qst-1", "team": "main", "kind": "text", "question": "Which\ncolour?",
            "options": ["red", "blue"], "status": "open", "expires_at": null,
        }]});

        assert_eq!(
            listed(&answer).unwrap(),
            "ID     STATUS  TEAM  KIND  UNTIL  QUESTION\n\
             qst-1  open    main  text         Which colour? [red | blue]\n"
        );
    }
}
