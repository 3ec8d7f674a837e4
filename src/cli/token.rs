//! `hivewright token`: who may talk to the service.

use clap::{Args, Subcommand};
use hivewright_actors::clock::Clock;
use hivewright_actors::text::UnknownWord;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    backup::blocking,
    failure::{Exit, Failure},
    screen::{self, Screen},
    service::{Service, data, token_path},
    stopped::Stopped,
    table::{self, moment},
};
use crate::{
    api::scope::{Scope, Scopes},
    http::{
        auth::{offline, registry::NewToken},
        tokens,
    },
    system::WallClock,
};

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
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// Make a token and print it, this once
    #[command(after_help = "Example:\n  hivewright token create ci --scope chat --scope read")]
    Create {
        /// The name of its holder
        name: String,
        /// What it allows: read, chat, assert_sender, operate, approve, secrets, admin, metrics
        #[arg(long = "scope", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// A team that it is for; all, if none is named
        #[arg(long = "team", value_delimiter = ',')]
        teams: Vec<String>,
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
        /// Its id or name
        id: String,
        /// Also the tokens that it made, and those that they made
        #[arg(long)]
        minted: bool,
    },
    /// Replace the operator token; the new one is in its file
    #[command(after_help = "Example:\n  hivewright token rotate-operator")]
    RotateOperator,
    /// Print a link that logs one browser in, once, within two minutes
    #[command(after_help = "Example:\n  xdg-open \"$(hivewright token link)\"")]
    Link,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let action = arguments.action;
    let running = Service::if_running(context)?;
    let document = match (&action, running) {
        (_, Some(service)) => ask(&action, &service, context).await?,
        // A link leads to a running service.
        (Action::Link, None) => ask(&action, &Service::find(context)?, context).await?,
        (_, None) => work_on_store(&action, context).await?,
    };
    show(&action, &document, context.screen)?;
    match (&action, screen::fault()) {
        (Action::Create { .. }, Some(fault)) => {
            let id = text(&document, "id")?.to_owned();
            let minted = false;
            let revoke = Action::Revoke { id, minted };
            match Service::if_running(context)? {
                Some(service) => ask(&revoke, &service, context).await?,
                None => work_on_store(&revoke, context).await?,
            };
            Err(Failure::system("the token could not be shown, and was revoked", fault))
        }
        _ => Ok(()),
    }
}

/// Does it on the store of a service that is stopped, on a thread of its own.
async fn work_on_store(action: &Action, context: &Context) -> Result<Value, Failure> {
    let (action, context) = (action.clone(), context.clone());
    blocking(move || stopped(&action, &context)).await
}

/// Lets the service do it.
async fn ask(action: &Action, service: &Service, context: &Context) -> Result<Value, Failure> {
    match action {
        Action::Create { name, scopes, teams, expires } => {
            let mut wish = json!({"name": name, "scopes": scopes, "expires": expires});
            if !teams.is_empty() {
                wish["teams"] = json!(teams);
            }
            service.post("/api/v1/tokens", &wish).await
        }
        Action::List => service.list("/api/v1/tokens").await,
        Action::Revoke { id, minted } => {
            let path = format!("/api/v1/tokens/{id}");
            let minted = [("minted", minted.to_string())];
            service.delete(&path, minted).await?;
            Ok(json!({"data": {"revoked": id}}))
        }
        Action::RotateOperator => {
            let path = "/api/v1/tokens/operator/rotate";
            service.act(Method::POST, path).await?;
            Ok(json!({"data": {"file": token_path(&context.home)}}))
        }
        Action::Link => {
            let answer = service.post("/api/v1/session/links", &json!({})).await?;
            let mut url = service.url().clone();
            url.set_fragment(Some(&format!("code={}", text(&answer, "code")?)));
            Ok(json!({"data": {"url": url.as_str()}}))
        }
    }
}

/// Does it on the store of a service that is stopped.
fn stopped(action: &Action, context: &Context) -> Result<Value, Failure> {
    let storage = &Stopped::open(context, &|_| {})?.storage;
    let now = WallClock.now();
    Ok(match action {
        Action::Create { name, scopes, teams, expires } => {
            let wish = NewToken {
                name: name.clone(),
                scopes: named(scopes)?,
                teams: (!teams.is_empty()).then(|| teams.clone()),
                expires_in: tokens::expiry(Some(expires)).ok_or_else(|| {
                    let message = format!("`{expires}` is no duration such as 90d, nor `never`");
                    Failure::new(Exit::Usage, message)
                })?,
            };
            let minted = offline::create(storage, wish, now)?;
            let mut row = json!(tokens::Row::from(minted.row));
            row["token"] = json!(minted.text.expose());
            json!({"data": row})
        }
        Action::List => {
            let grants = offline::list(storage)?.into_iter();
            let rows: Vec<_> = grants.map(tokens::Row::from).collect();
            json!({"data": rows, "total": rows.len()})
        }
        Action::Revoke { id, minted } => {
            offline::revoke(storage, id, *minted)?;
            json!({"data": {"revoked": id}})
        }
        Action::RotateOperator => {
            offline::rotate_operator(storage, &context.home.secrets(), now)?;
            json!({"data": {"file": token_path(&context.home)}})
        }
        Action::Link => json!({}),
    })
}

fn named(names: &[String]) -> Result<Scopes, Failure> {
    let scope = |name: &String| -> Result<Scope, Failure> {
        name.parse().map_err(|UnknownWord { words }| {
            let known = words.join(", ");
            Failure::new(Exit::Usage, format!("unknown scope `{name}`; there are: {known}"))
        })
    };
    names.iter().map(scope).collect()
}

fn show(action: &Action, document: &Value, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        return screen.document(document);
    }
    match action {
        Action::Create { .. } => {
            screen.say(text(document, "token")?);
            screen.remark("keep it safe: it is not shown again");
        }
        Action::List => screen.write(&table(document)?),
        Action::Revoke { id, .. } => screen.remark(&format!("revoked {id}")),
        Action::RotateOperator => {
            let file = text(document, "file")?;
            screen.remark(&format!("the new operator token is in {file}"));
        }
        Action::Link => screen.say(text(document, "url")?),
    }
    Ok(())
}

fn text<'a>(document: &'a Value, field: &str) -> Result<&'a str, Failure> {
    document["data"][field]
        .as_str()
        .ok_or_else(|| Failure::failed(format!("the service's answer holds no `{field}`")))
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    name: String,
    scopes: Vec<String>,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    minted_by: Option<MintedBy>,
}

#[derive(Debug, Deserialize)]
struct MintedBy {
    name: String,
}

fn table(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let or_never = |date: Option<String>| date.as_deref().map_or("never".to_owned(), moment);
        [
            row.id,
            row.name,
            row.scopes.join(","),
            or_never(row.expires_at),
            or_never(row.last_used_at),
            row.minted_by.map(|by| by.name).unwrap_or_default(),
        ]
    });
    let heading = ["ID", "NAME", "SCOPES", "EXPIRES", "LAST USED", "MADE BY"];
    Ok(table::table(heading, rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-82
    #[test]
    fn tokens_are_listed_in_columns() {
        let answer = json!({"data": [
            {"id": "operator", "name": "operator", "scopes": ["read", "chat"], "created_at": 1, "expires_at": null, "last_used_at": "2026-11-14T23:46:40.000Z"},
            {"id": "t-1", "name": "ci", "scopes": ["chat"], "expires_at": "2026-11-16T03:33:20.000Z", "last_used_at": null, "minted_by": {"id": "operator", "name": "operator"}},
        ], "total": 2});

        let expected = "\
ID        NAME      SCOPES     EXPIRES               LAST USED             MADE BY
operator  operator  read,chat  never                 2026-11-14 23:46 UTC
t-1       ci        chat       2026-11-16 03:33 UTC  never                 operator
";
        assert_eq!(table(&answer).unwrap(), expected);
    }
}
