//! `/api/v1/teams/{name}/instructions`: the rules, skills and subagents of a team, as files that operators edit.

use std::io::ErrorKind;

use super::{
    config::{editable, editing, looking, refuse_stale, refuse_unseen, refused, tell_changed},
    teams::known_team,
};
use crate::{
    api::{
        config::{EditableFile, FileContent},
        endpoint::*,
        instructions::*,
        reply::*,
    },
    http::{
        kit::{call::*, error::*, listing},
        state::State,
    },
    prompt::instructions::{self, Instruction},
    sandbox::workspace::{Workspace, WorkspaceError},
    teams::self_changes::{ChangeError, text_of, write},
};

fn missing(file: &str) -> ApiError {
    ApiError::not_found(format!("there is no `{file}`"))
}

/// What a path names, if the caller may act on its team.
fn instruction(state: &State, caller: &Caller, path: &ByInstruction) -> ApiResult<Instruction> {
    let team = known_team(state, caller, &path.team)?.name;
    let kind = path.kind.parse().ok();
    let found = kind.and_then(|kind| Instruction::new(team.clone(), kind, &path.name));
    found.ok_or_else(|| missing(&format!("{}/{}", path.kind, path.name)))
}

/// The text of a file; none if there is no such file.
fn text(workspace: &Workspace, file: &str) -> ApiResult<Option<String>> {
    match text_of(workspace, file) {
        Err(ChangeError::File(WorkspaceError::NotFound(_))) => Ok(None),
        found => Ok(Some(found?)),
    }
}

pub(super) async fn list(
    Call { state, caller, path: ByName { name }, page, .. }: Call<ByName>,
) -> ApiResult<Rows<InstructionRow>> {
    let team = known_team(&state, &caller, &name)?.name;
    let taint = state.taint.clone();
    let rows = looking(&state, move |files| instructions::list(&files.home, &team, &taint));
    listing::page(rows.await?, &page, |row| row.file.clone())
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ByInstruction>,
) -> ApiResult<Data<EditableFile>> {
    let wanted = instruction(&state, &caller, &path)?;
    let secrets = state.secrets.clone();
    let shown = looking(&state, move |files| -> ApiResult<EditableFile> {
        let file = wanted.file(&files.home);
        let folder = files.home.team(wanted.team.as_str());
        let workspace = Workspace::open(&folder, &[]).map_err(ChangeError::File)?;
        let text = text(&workspace, &file)?.ok_or_else(|| missing(&file))?;
        let found = instructions::check(wanted.kind, &file, &text).err().unwrap_or_default();
        Ok(editable(&secrets, text, found))
    });
    Ok(Data(shown.await??))
}

pub(super) async fn put(
    Call { state, caller, path, body, .. }: Call<ByInstruction, Empty, FileContent>,
) -> ApiResult<Data<EditableFile>> {
    let wanted = instruction(&state, &caller, &path)?;
    let secrets = state.secrets.clone();
    let written = editing(&state, move |files| -> ApiResult<_> {
        let FileContent { content, revision } = body;
        let file = wanted.file(&files.home);
        let folder = files.home.team(wanted.team.as_str());
        let workspace = Workspace::open(&folder, &[]).map_err(ChangeError::File)?;
        let before = text(&workspace, &file)?;
        refuse_stale(before.as_deref(), revision.as_deref())?;
        refuse_unseen(&secrets, before.as_deref().unwrap_or_default(), &content)?;
        instructions::check(wanted.kind, &file, &content)
            .map_err(|problems| refused(&secrets, problems))?;
        write(&workspace, &file, &content)?;
        Ok((folder, file, editable(&secrets, content, Default::default())))
    });
    let (folder, file, shown) = written.await??;
    state.taint.operator_wrote(folder.join(&file)).await.map_err(ApiError::internal)?;
    tell_changed(&state, &path.team, &file);
    Ok(Data(shown))
}

pub(super) async fn remove(
    Call { state, caller, path, .. }: Call<ByInstruction>,
) -> ApiResult<Done> {
    let wanted = instruction(&state, &caller, &path)?;
    let taint = state.taint.clone();
    let gone = looking(&state, move |files| wanted.discard(&files.home, &taint)).await?;
    gone.map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(&format!("{}/{}", path.kind, path.name)),
        _ => ApiError::conflict(format!("`{}` cannot be moved: {error}", path.name)),
    })?;
    tell_changed(&state, &path.team, &format!("{}/{}", path.kind, path.name));
    Ok(Done)
}
