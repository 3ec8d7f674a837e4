//! `hivewright token`: who may talk to the service.

use clap::Subcommand;
use hivewright_actors::{
    clock::{Clock, Timestamp},
    ids::MAIN,
    storage::Storage,
};
use serde_json::json;

use crate::{
    api::{
        endpoint::{ById, Empty},
        scope::Scope,
        session::MAKE_LOGIN_LINK,
        tokens::*,
    },
    cli::{
        answer::Answer,
        blocking::blocking,
        client::{Service, token_path},
        context::Context,
        failure::Failure,
        screen,
        stopped::Stopped,
        table::{columns, or_never},
    },
    http::auth::{error::AuthError, offline},
    settings::{home::Home, load},
    storage,
    system::WallClock,
    text::no_such,
};

/// Make, list and revoke tokens, or a link that logs a browser in
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright token create ci --scope chat --scope read --expires 30d\n  \
    hivewright token link")]
pub(super) enum Action {
    /// Make a token and print it, this once
    #[command(after_help = "Example:\n  hivewright token create ci --scope chat --scope read")]
    Create(NewToken),
    /// List all tokens; none is shown itself
    #[command(after_help = "Example:\n  hivewright token list --json")]
    List,
    /// End a token, and every connection that uses it
    #[command(aliases = ["delete", "remove", "rm"], after_help = "Example:\n  hivewright token revoke ci")]
    Revoke {
        /// The id or name of the token
        id: String,
        #[command(flatten)]
        revocation: Revocation,
    },
    /// Replace the operator token; the new one is in its file
    #[command(after_help = "Example:\n  hivewright token rotate-operator")]
    RotateOperator,
    /// Print a link that logs one browser in, once, within two minutes
    #[command(after_help = "Example:\n  xdg-open \"$(hivewright token link)\"")]
    Link,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::Create(new) => create(new, context).await,
        Action::List => list(context).await?.table(screen),
        Action::Revoke { id, revocation } => {
            revoke(id.clone(), revocation, context).await?;
            Answer::naming("revoked", &id).tell(screen, |_| format!("revoked {id}"))
        }
        Action::RotateOperator => {
            let file = token_path(&context.home);
            let file = file.display();
            rotate_operator(context).await?;
            // A service elsewhere has its own file, on its own machine.
            let place =
                context.url.as_ref().map_or(file.to_string(), |url| format!("the home of {url}"));
            Answer::naming("file", &place)
                .tell(screen, |_| format!("the new operator token is in {place}"))
        }
        Action::Link => {
            // A link leads to a running service.
            let service = Service::find(context)?;
            let made = service.at(&MAKE_LOGIN_LINK, &Empty {}).await?.data()?;
            let mut url = service.url().clone();
            url.set_fragment(Some(&format!("code={}", made.code)));
            Answer::naming("url", url.as_str()).show(screen, |_| format!("{url}\n"))
        }
    }
}

/// A token that nobody has seen is of no use, and is revoked.
async fn create(new: NewToken, context: &Context) -> Result<(), Failure> {
    let made = match Service::if_running(context)? {
        Some(service) => service.give(&CREATE_TOKEN, &new).await?,
        None => {
            refuse_unknown(new.teams.iter().flatten(), &context.home)?;
            let make = |storage: &dyn Storage, now| offline::create(storage, new, now);
            let minted = on_store(context, make).await?;
            let token = Some(minted.text.expose().to_owned());
            Answer::new(json!({"data": TokenRow { token, ..TokenRow::from(minted.row) }}))
        }
    };
    let row = made.data()?;
    let screen = context.screen;
    made.show(screen, |row| format!("{}\n", row.token.unwrap_or_default()))?;
    if let Some(fault) = screen::fault() {
        revoke(row.id.to_string(), Revocation::default(), context).await?;
        return Err(Failure::system("the token could not be shown, and was revoked", fault));
    }
    if !screen.json {
        screen.remark("keep it safe: it is not shown again");
    }
    Ok(())
}

/// Refuses names of teams that there are not, as the service does.
fn refuse_unknown<'a>(teams: impl Iterator<Item = &'a String>, home: &Home) -> Result<(), Failure> {
    let mut known = load::team_names(home);
    if !known.iter().any(|name| name == MAIN) {
        known.push(MAIN.to_owned());
    }
    let mut unknown = teams.filter(|team| !known.contains(team));
    unknown.next().map_or(Ok(()), |team| {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Err(Failure::usage(no_such("team", team, &known)))
    })
}

async fn list(context: &Context) -> Result<Answer<Vec<TokenRow>>, Failure> {
    if let Some(service) = Service::if_running(context)? {
        return service.all(&LIST_TOKENS, &Empty {}).await;
    }
    let grants = on_store(context, |storage, _| offline::list(storage)).await?;
    let rows: Vec<TokenRow> = grants.into_iter().map(TokenRow::from).collect();
    Ok(Answer::new(json!({"data": rows, "total": rows.len()})))
}

async fn revoke(id: String, revocation: Revocation, context: &Context) -> Result<(), Failure> {
    match Service::if_running(context)? {
        Some(service) => {
            service.call(&REVOKE_TOKEN, &ById { id }, &revocation, &Empty {}).await?;
            Ok(())
        }
        None => {
            let end =
                move |storage: &dyn Storage, _| offline::revoke(storage, &id, revocation.minted);
            on_store(context, end).await
        }
    }
}

async fn rotate_operator(context: &Context) -> Result<(), Failure> {
    match Service::if_running(context)? {
        Some(service) => service.at(&ROTATE_OPERATOR, &Empty {}).await.map(drop),
        None => {
            let secrets = context.home.secrets();
            let rotate =
                move |storage: &dyn Storage, now| offline::rotate_operator(storage, &secrets, now);
            on_store(context, rotate).await
        }
    }
}

/// Works on the store of a service that is stopped, on a thread of its own.
async fn on_store<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(&dyn Storage, Timestamp) -> Result<T, AuthError> + Send + 'static,
) -> Result<T, Failure> {
    let context = context.clone();
    blocking(move || {
        let stopped = Stopped::open(&context, &storage::unwatched)?;
        Ok(work(&stopped.storage, WallClock.now())?)
    })
    .await
}

columns!(TokenRow {
    "ID" => |row| row.id.to_string(),
    "NAME" => |row| row.name.clone(),
    "SCOPES" => |row| row.scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(","),
    "TEAMS" => |row| row.teams.as_ref().map_or("all".to_owned(), |teams| teams.join(",")),
    "EXPIRES" => |row| or_never(&row.expires_at),
    "LAST USED" => |row| or_never(&row.last_used_at),
    "MADE BY" => |row| row.minted_by.as_ref().map(|by| by.name.clone()).unwrap_or_default(),
});

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cli::table;

    /// OP-82
    #[test]
    fn tokens_are_listed_in_columns() {
        let rows: Vec<TokenRow> = serde_json::from_value(json!([
            {"id": "operator", "kind": "operator", "name": "operator", "scopes": ["read", "chat"], "created_at": null, "expires_at": null, "last_used_at": "2026-11-14T23:46:40.000Z"},
            {"id": "t-1", "kind": "api", "name": "ci", "teams": ["ops"], "scopes": ["chat"], "created_at": null, "expires_at": "2026-11-16T03:33:20.000Z", "last_used_at": null, "minted_by": {"id": "operator", "name": "operator"}},
        ]))
        .unwrap();

        let expected = "\
ID        NAME      SCOPES     TEAMS  EXPIRES               LAST USED             MADE BY
operator  operator  read,chat  all    never                 2026-11-14 23:46 UTC
t-1       ci        chat       ops    2026-11-16 03:33 UTC  never                 operator
";
        assert_eq!(table::rows(&rows), expected);
    }
}
