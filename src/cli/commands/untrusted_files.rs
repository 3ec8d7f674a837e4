//! `hivewright teams untrusted` and `accept`: files that untrusted turns of a team wrote.

use crate::{
    api::{
        endpoint::{ByName, Empty},
        untrusted_files::{ACCEPT_FILES, AcceptFiles, LIST_UNTRUSTED_FILES, UntrustedFileRow},
    },
    cli::{
        answer::Answer,
        client::Service,
        failure::Failure,
        screen::Screen,
        table::{columns, date, joined},
    },
};

pub(super) async fn rows(
    service: &Service,
    team: &ByName,
) -> Result<Answer<Vec<UntrustedFileRow>>, Failure> {
    service.all_rows(&LIST_UNTRUSTED_FILES, team, &Empty {}).await
}

/// Accepts files by their paths, or all of them.
pub(super) async fn accept(
    service: &Service,
    team: &ByName,
    paths: Option<&[String]>,
    screen: Screen,
) -> Result<(), Failure> {
    let files = rows(service, team).await?.data()?;
    let ids = match paths {
        Some(paths) => paths.iter().map(|path| id_of(&files, path)).collect::<Result<_, _>>()?,
        None => files.into_iter().map(|file| file.id).collect(),
    };
    let answer = service.send(&ACCEPT_FILES, team, &AcceptFiles { ids }).await?;
    answer.tell(screen, |answer| format!("accepted: {}", joined(&answer.accepted)))
}

fn id_of(files: &[UntrustedFileRow], path: &str) -> Result<String, Failure> {
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| {
        let see = "see `hivewright teams untrusted`";
        Failure::usage(format!("`{path}` is not among the untrusted files; {see}"))
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
