//! `/api/v1/logs`: what the service wrote to its log.

use hivewright_actors::store::reads::parse;
use serde_json::json;

use crate::{
    api::{endpoint::*, logs::*, reply::*},
    http::kit::{call::*, error::*, listing},
    logging::{keeper, tap::Line},
    settings::config::Level,
};

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, LogFilter>,
) -> ApiResult<Rows<LogLine>> {
    let LogFilter { level: worst, team, since, words } = query;
    caller.team_or_all(team.as_deref())?;
    let words = words.map(|words| words.to_lowercase());
    let range = keeper::since(since.map(|since| since.from(state.now())).unwrap_or_default());
    let rows = state.read(move |storage| {
        listing::scan(storage, range, &page, |key, line| {
            let says = |words: &String| {
                let whole = format!("{} {} {}", line.target, line.message, json!(line.fields));
                whole.to_lowercase().contains(words.as_str())
            };
            let is_bad = |worst: Level| line.level.parse().is_ok_and(|level: Level| level >= worst);
            let is_wanted = worst.is_none_or(is_bad)
                && (team.is_none() || line.field("team") == team.as_deref())
                && words.as_ref().is_none_or(says);
            is_wanted.then(|| (parse::<Line>(key).unwrap_or_default(), line).into())
        })
    });
    rows.await
}
