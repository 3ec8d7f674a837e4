//! `hivewright token`: who may talk to the service.

use clap::{Args, Subcommand};
use hivewright_actors::clock::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use time::{OffsetDateTime, macros::format_description};

use super::{Context, failure::Failure, service::Service};

/// Make, list and revoke tokens, or a link that logs a browser in
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright token create ci --scope chat --scope read --expires 30d\n  \
    hivewright token link")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with tokens.
#[derive(Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// Make a token and print it, this once
    #[command(after_help = "Example:\n  hivewright token create ci --scope chat --scope read")]
    Create {
        /// The name of its holder
        name: String,
        /// What it allows: read, chat, assert_sender, operate, admin, metrics
        #[arg(long = "scope", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// How long it is good, such as 12h or 30d, or `never`
        #[arg(long, default_value = "90d")]
        expires: String,
    },
    /// List all tokens; none is shown itself
    #[command(after_help = "Example:\n  hivewright token list --json")]
    List,
    /// End a token, and every connection that uses it
    #[command(after_help = "Example:\n  hivewright token revoke ci")]
    Revoke {
        /// Its id
        id: String,
    },
    /// Replace the operator token; the new one is in its file
    #[command(after_help = "Example:\n  hivewright token rotate-operator")]
    RotateOperator,
    /// Print a link that logs one browser in, once, within two minutes
    #[command(after_help = "Example:\n  xdg-open \"$(hivewright token link)\"")]
    Link,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::Create {
            name,
            scopes,
            expires,
        } => {
            let wish = json!({"name": name, "scopes": scopes, "expires": expires});
            let answer = service.post("/api/v1/tokens", &wish).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.say(text(&answer, "token")?);
            screen.remark("keep it safe: it is not shown again");
        }
        Action::List => {
            let answer = service.get("/api/v1/tokens").await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&table(&answer)?);
        }
        Action::Revoke { id } => {
            service.delete(&format!("/api/v1/tokens/{id}")).await?;
            if screen.json {
                return screen.document(&json!({"data": {"revoked": id}}));
            }
            screen.remark(&format!("revoked {id}"));
        }
        Action::RotateOperator => {
            service
                .post("/api/v1/tokens/operator/rotate", &json!({}))
                .await?;
            let path = super::service::token_path(&context.home);
            if screen.json {
                return screen.document(&json!({"data": {"file": path}}));
            }
            screen.remark(&format!("the new operator token is in {}", path.display()));
        }
        Action::Link => {
            let answer = service.post("/api/v1/session/links", &json!({})).await?;
            let mut url = service.url().clone();
            url.set_fragment(Some(&format!("code={}", text(&answer, "code")?)));
            if screen.json {
                return screen.document(&json!({"data": {"url": url.as_str()}}));
            }
            screen.say(url.as_str());
        }
    }
    Ok(())
}

fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str, Failure> {
    answer["data"][field]
        .as_str()
        .ok_or_else(|| Failure::failed(format!("the service's answer holds no `{field}`")))
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    name: String,
    scopes: Vec<String>,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

fn table(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = serde_json::from_value(answer["data"].clone())
        .map_err(|error| Failure::system("the service's answer cannot be read", error))?;
    let mut lines = vec![["ID", "NAME", "SCOPES", "EXPIRES", "LAST USED"].map(str::to_owned)];
    lines.extend(rows.into_iter().map(|row| {
        [
            row.id,
            row.name,
            row.scopes.join(","),
            row.expires_at.map_or("never".to_owned(), moment),
            row.last_used_at.map_or("never".to_owned(), moment),
        ]
    }));
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let aligned = lines.iter().map(|line| {
        let cells = line.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    });
    Ok(aligned.collect())
}

/// A moment in UTC, to the minute.
fn moment(at: Timestamp) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let nanoseconds = i128::from(at.0) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .ok()
        .and_then(|moment| moment.format(&format).ok())
        .unwrap_or_else(|| at.0.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OP-82
    #[test]
    fn tokens_are_listed_in_columns() {
        let answer = json!({"data": [
            {"id": "operator", "name": "operator", "scopes": ["read", "chat"], "created_at": 1, "expires_at": null, "last_used_at": 1_794_700_000_000_u64},
            {"id": "t-1", "name": "ci", "scopes": ["chat"], "expires_at": 1_794_800_000_000_u64, "last_used_at": null},
        ], "total": 2});

        let expected = "\
ID        NAME      SCOPES     EXPIRES               LAST USED
operator  operator  read,chat  never                 2026-11-14 23:46 UTC
t-1       ci        chat       2026-11-16 03:33 UTC  never
";
        assert_eq!(table(&answer).unwrap(), expected);
    }
}
