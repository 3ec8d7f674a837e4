//! Handing over: files that come with a task are put into the workspace of its team.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use hivewright_actors::{
    blocking,
    briefing::Handed,
    file::{FileRef, numbered_name},
    ids::TaskId,
    task::Label,
};
use sha2::{Digest, Sha256};

use crate::{
    files::{FileError, FileStore},
    sandbox::{quota::Excess, workspace::WorkspaceError},
    system::hex,
    taint::{TaintError, label::Worker, seen::Seen},
    tools::grant::Grant,
};

/// Where a team finds what it is given.
const INBOX: &str = "inbox";
/// What labels name in place of a tool.
const ATTACHMENT: &str = "attachment";
/// So many files of one name are told apart.
const MOST_NUMBERS: u32 = 1_000;

/// Why a file is not in the workspace.
#[derive(Debug, thiserror::Error)]
enum HandingError {
    #[error(transparent)]
    Content(#[from] FileError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Quota(#[from] Excess),
    #[error(transparent)]
    Taint(#[from] TaintError),
    #[error("there are too many files of that name")]
    Crowded,
    #[error("the disk did not answer")]
    CutOff,
}

/// A file in its place.
struct Placed {
    /// As its team names it.
    path: String,
    real: PathBuf,
    seen: Option<Seen>,
    /// It was not there before.
    is_new: bool,
}

/// Puts files into the workspace. One that cannot be put there is named without a place: its team is told.
pub(super) async fn over(store: &FileStore, grant: &Grant, handed: Handed) -> Vec<FileRef> {
    let Handed { files, task, label } = handed;
    let Some(task) = task else { return files };
    let mut placed = Vec::new();
    for file in files {
        let path = match hand(store, grant, &file, &task, label).await {
            Ok(path) => Some(path),
            Err(error) => {
                tracing::warn!(team = %grant.team, %task, file = %file.id, %error, "a file that came with a task cannot be put into the workspace");
                None
            }
        };
        placed.push(FileRef { path, ..file });
    }
    placed
}

async fn hand(
    store: &FileStore,
    grant: &Grant,
    file: &FileRef,
    task: &TaskId,
    label: Label,
) -> Result<String, HandingError> {
    let Grant { team, workspace, taint, .. } = grant;
    // Labelled before it is there: a kill in between leaves nothing that would be believed.
    let window = match (label, workspace.named_place(INBOX)) {
        (Label::Untrusted, Some(inbox)) => {
            let worker =
                Worker { team: team.clone(), task: task.clone(), tool: ATTACHMENT.to_owned() };
            Some(taint.begin(worker, vec![inbox]).await?)
        }
        _ => None,
    };
    let (store, grant, file) = (store.clone(), grant.clone(), file.clone());
    let put = blocking::run({
        let grant = grant.clone();
        move || put(&store, &grant, &file)
    });
    let placed = match put.await.map_err(|_| HandingError::CutOff).flatten() {
        Ok(placed) => placed,
        Err(error) => {
            if let Some(window) = window {
                window.dismiss().await?;
            }
            return Err(error);
        }
    };
    match window {
        Some(window) => window.label(vec![(placed.real, placed.seen)]).await?,
        None if placed.is_new => grant.taint.written_anew(&placed.real).await?,
        None => {}
    }
    Ok(placed.path)
}

/// Puts a file where its name is free, or finds it where an earlier attempt has put it. Blocks.
fn put(store: &FileStore, grant: &Grant, file: &FileRef) -> Result<Placed, HandingError> {
    let Grant { workspace, sandbox, .. } = grant;
    let content = store.read(file)?;
    // No link in the place of the inbox leads into what governs the team.
    let inbox = workspace.real_path().join(INBOX);
    let inside = |place: &Path| match place.parent() {
        Some(folder) if folder == inbox => Ok(()),
        _ => Err(WorkspaceError::Outside(INBOX.to_owned())),
    };
    for number in 1..=MOST_NUMBERS {
        let name = if number == 1 { file.name.clone() } else { numbered_name(&file.name, number) };
        let path = format!("{INBOX}/{name}");
        match workspace.open_file(&path, &inside) {
            Ok(found) if found.size == file.size && is_same(&found.file, &file.digest) => {
                let seen = Seen::of(&found.file).ok();
                return Ok(Placed { path, real: found.path, seen, is_new: false });
            }
            // A folder, a link to elsewhere: its name is taken.
            Ok(_) | Err(WorkspaceError::NotAFile { .. } | WorkspaceError::Outside(_)) => continue,
            Err(WorkspaceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        sandbox.quota().admit(workspace, &path, file.size)?;
        if let Some(written) = workspace.create(&path, &content, &inside)? {
            let seen = Seen::of(&written.file).ok();
            return Ok(Placed { path, real: written.path, seen, is_new: true });
        }
    }
    Err(HandingError::Crowded)
}

fn is_same(mut file: &File, digest: &str) -> bool {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => hash.update(&piece[..read]),
            Err(_) => return false,
        }
    }
    hex(&hash.finalize()) == digest
}
