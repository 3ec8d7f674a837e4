//! `/api/v1/models`: models of the profiles, and model APIs that are tried out before a profile is written.

use hivewright_actors::blocking;

use super::config::refused;
use crate::{
    api::{endpoint::*, models::*, reply::*},
    doctor::models::{self, TrialError},
    http::kit::{call::*, error::*, listing},
    providers::client,
    settings::load,
};

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<ModelRow>> {
    caller.all_teams()?;
    let files = state.clone();
    let read =
        blocking::run(move || load::read_providers(&files.files.home, &files.files.environment).0);
    let providers = read.await?.map_err(|problems| refused(&state.secrets, problems))?;
    let http = client::build().map_err(|error| ApiError::internal(error.to_string()))?;
    let rows = models::list_all(&http, &providers).await;
    listing::page(rows, &page, |row| row.profile.clone())
}

pub(super) async fn try_out(
    Call { state, caller, body, .. }: Call<Empty, Empty, ModelTrial>,
) -> ApiResult<Data<ModelTried>> {
    // It reaches whatever address is named, with what is sent.
    caller.everything()?;
    models::try_out(&body).await.map(Data).map_err(|error| match error {
        TrialError::Invalid(problems) => refused(&state.secrets, problems),
        TrialError::Client(error) => ApiError::internal(error.to_string()),
    })
}
