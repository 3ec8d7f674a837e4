//! Profiles: whose models may answer in a topic.

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::providers::{Profile, Provider};

pub const LIST_PROFILES: Endpoint<Rows<ProfileRow>> =
    get("/api/v1/profiles", Read, "Lists the profiles whose models may answer in a topic.")
        .sorted(&["name"]);

row! {
    /// A profile, and what answers for it.
    #[derive(Clone)]
    #[schemars(rename = "Profile")]
    pub struct ProfileRow from profile: &Profile {
        pub name: String = profile.name.clone(),
        /// The API it speaks.
        pub provider: Provider = profile.provider,
        pub model: String = profile.model.clone(),
    }
}
