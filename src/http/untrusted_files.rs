//! `/api/v1/teams/{name}/untrusted-files`: what untrusted turns wrote, and accepting it.

use std::path::Path;

use actix_web::web;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    json, listing,
    operation::Operation,
    reply::{Clean, Data, Rows},
    routes::{Resource, at},
};
use crate::taint::{Extent, TaintError, UntrustedFile};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/teams/{name}/untrusted-files").get(
            Operation::new("Lists files that untrusted turns of a team wrote or changed.")
                .description("A turn that reads one is untrusted from then on.")
                .pages(&["path", "-at"]),
            list,
        ),
        at("/api/v1/teams/{name}/untrusted-files/accept").post(
            Operation::new("Accepts files as they are now.")
                .description(
                    "By the `id` of each, which names one state of the file: one that was changed \
                     since is refused, and none is accepted.",
                )
                .refuses(&[409])
                .example(r#"{"ids": ["0123456789abcdef"]}"#),
            accept,
        ),
    ]
}

/// A label as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UntrustedFile")]
struct Row {
    /// Names this state of the file.
    id: String,
    /// From the folder of the team, or absolute if it is elsewhere.
    path: String,
    /// Whether it is about a file or all that is below.
    extent: Extent,
    task_id: String,
    tool: String,
    at: Option<String>,
}

impl Row {
    fn new(label: &UntrustedFile, folder: &Path) -> Self {
        let path = Path::new(&label.path);
        let inside = path.strip_prefix(folder).unwrap_or(path);
        Self {
            id: label.id(),
            path: if inside.as_os_str().is_empty() {
                ".".to_owned()
            } else {
                inside.display().to_string()
            },
            extent: label.extent,
            task_id: label.task.to_string(),
            tool: label.tool.clone(),
            at: json::date(label.at),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AcceptFiles")]
struct Acceptance {
    /// Labels by their `id`.
    ids: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AcceptedFiles")]
struct Accepted {
    /// The paths that count as trusted from now on.
    accepted: Vec<String>,
}

/// The real folder of a team that there is.
async fn folder(state: &State, name: &str) -> Result<std::path::PathBuf, ApiError> {
    let team = super::config::known(state, name)?;
    let folder = state.files.home.team(&team);
    let real = folder.clone();
    let real = web::block(move || real.canonicalize()).await;
    Ok(real.ok().and_then(Result::ok).unwrap_or(folder))
}

async fn list(
    state: web::Data<State>,
    caller: Caller<Read>,
    name: web::Path<String>,
) -> Result<Clean<Rows<Row>>, ApiError> {
    caller.team(&name)?;
    let folder = folder(&state, &name).await?;
    let labels = state.taint.list(&name.as_str().into());
    let rows = labels.iter().map(|label| Row::new(label, &folder));
    let rows = listing::page(rows, &caller.query.page()?, |row| row.id.clone())?;
    Ok(Clean::new(&state.secrets, rows))
}

async fn accept(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
    Json(Acceptance { ids }): Json<Acceptance>,
) -> Result<Clean<Data<Accepted>>, ApiError> {
    caller.team(&name)?;
    let folder = folder(&state, &name).await?;
    let accepted =
        state.taint.accept(&name.as_str().into(), &ids, caller.principal.id()).await.map_err(
            |error| match error {
                TaintError::Unknown(_) => ApiError::conflict(error.to_string()),
                error => ApiError::internal(error),
            },
        )?;
    let rows = accepted.iter().map(|label| Row::new(label, &folder).path);
    let accepted = Accepted { accepted: rows.collect() };
    Ok(Clean::new(&state.secrets, Data(accepted)))
}
