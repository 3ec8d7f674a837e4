//! `hivewright teams untrusted` and `accept`: files that untrusted turns of a team wrote.

use super::{
    Context,
    failure::{Exit, Failure},
    service::Service,
    table::{columns, date},
};
use crate::api::{
    endpoint::{ByName, Empty},
    untrusted_files::{ACCEPT_FILES, AcceptFiles, LIST_UNTRUSTED_FILES, UntrustedFileRow},
};

pub(super) async fn list(
    service: &Service,
    context: &Context,
    name: String,
) -> Result<(), Failure> {
    let files = service.all_rows_at(&LIST_UNTRUSTED_FILES, &ByName { name }).await?;
    context.screen.rows(&files)
}

/// Accepts files by their paths, or all of them.
pub(super) async fn accept(
    service: &Service,
    context: &Context,
    name: String,
    paths: Option<&[String]>,
) -> Result<(), Failure> {
    let team = ByName { name };
    let files = service.all_rows_at(&LIST_UNTRUSTED_FILES, &team).await?.data()?;
    let ids = match paths {
        Some(paths) => paths.iter().map(|path| id_of(&files, path)).collect::<Result<_, _>>()?,
        None => files.into_iter().map(|file| file.id).collect(),
    };
    let answer = service.call(&ACCEPT_FILES, &team, &Empty {}, &AcceptFiles { ids }).await?;
    let accepted = answer.data()?.accepted;
    let named = if accepted.is_empty() { "none".to_owned() } else { accepted.join(", ") };
    context.screen.done(&answer, &format!("accepted: {named}"))
}

fn id_of(files: &[UntrustedFileRow], path: &str) -> Result<String, Failure> {
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| {
        let message =
            format!("`{path}` is not among the untrusted files; see `hivewright teams untrusted`");
        Failure::new(Exit::Usage, message)
    })?;
    Ok(file.id.clone())
}

columns!(UntrustedFileRow {
    "PATH" => |file| file.path.clone(),
    "EXTENT" => |file| file.extent.to_string(),
    "TOOL" => |file| file.tool.clone(),
    "TASK" => |file| file.task_id.clone(),
    "SINCE" => |file| date(&file.at),
});
