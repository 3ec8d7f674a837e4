//! `/api/v1/models`: model APIs, tried out before a profile is written.

use serde_json::json;

use super::{call::*, config::refused, error::*};
use crate::{
    api::{endpoint::*, models::*, reply::*},
    doctor::models,
    engines::{Engines, native::retry::RetryPolicy},
    providers::{client, models as listing},
    scrub::REDACTED,
    settings::{
        problem::Problems,
        providers::{self, Profile},
        reader::Document,
        references::{Environment, References},
    },
};

const NAME: &str = "new";

pub(super) async fn try_out(
    Call { state, caller, body, .. }: Call<Empty, Empty, ModelTrial>,
) -> ApiResult<Data<ModelTried>> {
    // It reaches whatever address is named, with what is sent.
    caller.everything()?;
    let key = body.api_key.clone();
    let profile = profile(&body).map_err(|problems| refused(&state.secrets, problems))?;
    let http = client::build().map_err(|error| ApiError::internal(error.to_string()))?;
    let models = listing::list(&http, &profile).await.unwrap_or_default();
    let model = profile.model.clone();
    let engines = Engines::new(http, RetryPolicy::default());
    let asked = models::answer(&engines, profile).await;
    // A provider may repeat the key when it refuses it.
    let unseen = |text: String| match &key {
        Some(key) if !key.is_empty() => text.replace(key.as_str(), REDACTED),
        _ => text,
    };
    let (answer, error) = match asked {
        Ok(answer) => (Some(unseen(answer)), None),
        Err(failure) => (None, Some(unseen(failure.to_string()))),
    };
    Ok(Data(ModelTried { model, answer, error, models }))
}

/// The profile that such a section of `providers.yaml` would be.
fn profile(trial: &ModelTrial) -> Result<Profile, Problems> {
    let file = json!({"profiles": {NAME: trial}}).to_string();
    let document = Document::with_references("providers.yaml", References::unfollowed());
    let read = providers::read(&file, document, &Environment::fixed([])).0?;
    let found = read.profiles.into_values().next();
    Ok(found.unwrap_or_else(|| Profile::new(NAME, trial.provider)))
}
