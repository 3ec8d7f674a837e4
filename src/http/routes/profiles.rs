//! `/api/v1/profiles`: whose models may answer in a topic.

use hivewright_actors::ids::MAIN;

use crate::{
    api::{profiles::ProfileRow, reply::*},
    http::{
        kit::{call::*, error::*, listing},
        state::State,
    },
};

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<ProfileRow>> {
    caller.team(MAIN)?;
    listing::page(state.service.profiles(), &page, |row| row.name.clone())
}

/// Refuses a profile that there is none of. An empty one is the team's.
pub(super) fn check(state: &State, name: Option<&str>) -> ApiResult<()> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let profiles = state.service.profiles();
    if profiles.iter().any(|row| row.name == name) {
        return Ok(());
    }
    let known = profiles.iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ");
    let reason = format!("there is no profile `{name}`; there are: {known}");
    Err(ApiError::invalid_field("profile", reason))
}
