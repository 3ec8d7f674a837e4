//! The folders of teams on the disk: made under another name first, moved away as a whole.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    clock::Timestamp,
    ids::{TeamKey, TeamName},
    org::folders::{FolderError, FolderPlan, Folders},
};

use super::file::redescribed;
use crate::{
    removal::{if_there, remove_tree},
    settings::{
        home::{Home, create_private},
        load::{read_team, team_of},
        replace::{NEW, create, edit, replace},
        scaffold::furnish,
        team::{Team, is_team_name},
    },
    time,
};

/// Lies in a folder whose team is not durable yet.
const UNFINISHED: &str = ".unfinished";
/// What a team is told from the start.
const CONTEXT: &str = "team-rules/team-context.md";
/// Where a team keeps what makes it more than a name.
const FURNITURE: [&str; 3] = ["org-rules", "team-rules", "subagents"];

/// The folders in a home.
#[derive(Clone, Debug)]
pub struct TeamFolders {
    home: Home,
}

impl TeamFolders {
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    fn folder(&self, team: &TeamKey) -> PathBuf {
        self.home.team(team.name.as_str())
    }

    fn make_now(&self, team: &TeamKey, plan: &FolderPlan) -> Result<(), FolderError> {
        let folder = self.folder(team);
        if is_unfinished(&folder) {
            remove(&folder)?;
        }
        if fs::symlink_metadata(&folder).is_ok() {
            return Err(FolderError::Taken);
        }
        let new = self.home.teams().join(format!("{NEW}{team}"));
        remove(&new)?;
        let made = fill(&new, plan).and_then(|()| {
            fs::rename(&new, &folder).map_err(|error| disk("rename", &new, &error))?;
            sync(&self.home.teams())
        });
        if made.is_err() {
            let _gone = remove(&new);
        }
        made
    }

    fn settle_now(&self, living: &[TeamName]) -> io::Result<()> {
        for entry in fs::read_dir(self.home.teams())? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let lives = living.iter().any(|team| team.as_str() == name);
            let dropped = match name {
                _ if name.starts_with(NEW) => remove(&path),
                _ if !is_team_name(name) => Ok(()),
                _ if is_unfinished(&path) && lives => finish(&path),
                _ if is_unfinished(&path) => {
                    tracing::info!(
                        team = name,
                        "the folder of a team that was not made after all is removed"
                    );
                    remove(&path)
                }
                _ if !lives => {
                    tracing::warn!(
                        path = %path.display(),
                        "this folder belongs to no team; move it away, or make the team with `hivewright teams create` after that"
                    );
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(error) = dropped {
                tracing::error!(path = %path.display(), %error, "the folder of a team that was not made stays; remove it");
            }
        }
        for team in living {
            if !self.home.team(team.as_str()).is_dir() {
                tracing::error!(%team, "the team has no folder; restore it from a backup, or shut the team down");
            }
        }
        Ok(())
    }

    fn bury_now(&self, team: &TeamKey, at: Timestamp) -> Result<Option<String>, FolderError> {
        let trash = self.home.trash();
        create_private(&trash).map_err(|error| FolderError::Disk(error.to_string()))?;
        let start = format!("{}-{}-", team.name, team.generation);
        let name = format!("{start}{}", time::compact(at));
        let folder = self.folder(team);
        match fs::rename(&folder, trash.join(&name)) {
            Ok(()) => {
                sync(&self.home.teams())?;
                sync(&trash)?;
                Ok(Some(format!("trash/{name}")))
            }
            // It was moved by a process that did not live to say so.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(fs::read_dir(&trash)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .find(|name| {
                    let rest = name.strip_prefix(&start);
                    rest.is_some_and(|rest| !rest.contains('-'))
                })
                .map(|name| format!("trash/{name}"))),
            Err(error) => Err(disk("move", &folder, &error)),
        }
    }

    fn describe_now(&self, team: &TeamName, description: &str) -> Result<(), FolderError> {
        let path = self.home.team_file(team.as_str());
        let old = fs::read_to_string(&path).map_err(|error| disk("read", &path, &error))?;
        let before = read_team(&self.home, team.as_str())
            .map_err(|found| FolderError::Disk(found.to_string()))?;
        let text = redescribed(&old, description);
        let expected = Team { description: description.to_owned(), ..before };
        if team_of(&self.home, team.as_str(), &text).as_ref() != Ok(&expected) {
            let path = path.display();
            let reason = format!("`description` cannot be changed in {path}; change it by hand");
            return Err(FolderError::Disk(reason));
        }
        // Beside the folder, where no tool of the team can put something else in its place.
        replace(&path, &self.home.teams(), text).map_err(|error| disk("write", &path, &error))
    }

    fn has_furniture(&self, team: &TeamName) -> bool {
        let folder = self.home.team(team.as_str());
        let files = FURNITURE
            .iter()
            .filter_map(|name| fs::read_dir(folder.join(name)).ok())
            .flatten()
            .flatten();
        files
            .filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()))
            .any(|file| Path::new(&file.file_name()).extension() == Some(OsStr::new("md")))
    }

    /// Runs blocking work away from the async threads.
    fn off<T: Send + 'static>(
        &self,
        lost: T,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let this = self.clone();
        Box::pin(async move { blocking::run(move || work(&this)).await.unwrap_or(lost) })
    }
}

/// Writes all that a new team has.
fn fill(new: &Path, plan: &FolderPlan) -> Result<(), FolderError> {
    let refused = |error: crate::settings::error::StartError| FolderError::Disk(error.to_string());
    create_private(new).map_err(refused)?;
    furnish(new).map_err(refused)?;
    let mut files =
        vec![(new.join("config.yaml"), plan.config.as_str()), (new.join(UNFINISHED), "")];
    if let Some(context) = &plan.context {
        files.push((new.join(CONTEXT), context));
    }
    for (path, text) in files {
        create(&path, text.as_bytes()).map_err(|error| disk("write", &path, &error))?;
    }
    sync(&new.join("team-rules"))?;
    sync(new)
}

fn is_unfinished(folder: &Path) -> bool {
    folder.join(UNFINISHED).is_file()
}

fn finish(folder: &Path) -> Result<(), FolderError> {
    remove(&folder.join(UNFINISHED))?;
    sync(folder)
}

/// Removes a file, or a folder with all in it. Nothing there is fine.
fn remove(path: &Path) -> Result<(), FolderError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    if_there(removed).map(drop).map_err(|error| disk("remove", path, &error))
}

/// A folder's names are as durable as its files.
fn sync(folder: &Path) -> Result<(), FolderError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| disk("sync", folder, &error))
}

fn disk(what: &str, path: &Path, error: &io::Error) -> FolderError {
    FolderError::Disk(format!("cannot {what} {}: {error}", path.display()))
}

fn lost() -> FolderError {
    FolderError::Disk("the work on the folder was cut off".to_owned())
}

impl Folders for TeamFolders {
    fn make(&self, team: TeamKey, plan: FolderPlan) -> BoxFuture<'static, Result<(), FolderError>> {
        self.off(Err(lost()), move |folders| folders.make_now(&team, &plan))
    }

    fn keep(&self, team: TeamKey) -> BoxFuture<'static, ()> {
        self.off((), move |folders| {
            if let Err(error) = finish(&folders.folder(&team)) {
                tracing::warn!(team = %team.name, %error, "the mark of an unfinished folder stays until the next start");
            }
        })
    }

    fn unmake(&self, team: TeamKey) -> BoxFuture<'static, ()> {
        self.off((), move |folders| {
            let folder = folders.folder(&team);
            if is_unfinished(&folder)
                && let Err(error) = remove(&folder)
            {
                tracing::warn!(team = %team.name, %error, "the folder of a team that was not made stays until the next start");
            }
        })
    }

    fn settle(&self, living: Vec<TeamName>) -> BoxFuture<'static, ()> {
        self.off((), move |folders| {
            if let Err(error) = folders.settle_now(&living) {
                tracing::error!(%error, "the folders of the teams cannot be looked at; leftovers stay");
            }
        })
    }

    fn bury(
        &self,
        team: TeamKey,
        at: Timestamp,
    ) -> BoxFuture<'static, Result<Option<String>, FolderError>> {
        self.off(Err(lost()), move |folders| folders.bury_now(&team, at))
    }

    fn describe(
        &self,
        team: TeamName,
        description: String,
    ) -> BoxFuture<'static, Result<(), FolderError>> {
        self.off(Err(lost()), move |folders| edit(|| folders.describe_now(&team, &description)))
    }

    fn is_furnished(&self, team: TeamName) -> BoxFuture<'static, bool> {
        self.off(false, move |folders| folders.has_furniture(&team))
    }
}

#[cfg(test)]
mod tests {

    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::settings::tests::{Place, place};

    fn set_up() -> (Place, TeamFolders) {
        let place = place();
        place.home.prepare().unwrap();
        let folders = TeamFolders::new(place.home.clone());
        (place, folders)
    }

    fn plan() -> FolderPlan {
        FolderPlan {
            config: "description: scouts\n".to_owned(),
            context: Some("Look around.\n".to_owned()),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// OR-34, OR-60, OR-05
    #[actix_web::test]
    async fn a_folder_is_made_whole_and_private() {
        let (place, folders) = set_up();
        let key = TeamKey::first("scouts");

        folders.make(key.clone(), plan()).await.unwrap();
        folders.keep(key).await;

        let folder = place.home.team("scouts");
        assert_eq!(
            names(&folder),
            ["config.yaml", "org-rules", "plugins", "skills", "subagents", "team-rules"]
        );
        assert_eq!(names(&place.home.teams()), ["scouts"]);
        let context = fs::read_to_string(folder.join(CONTEXT)).unwrap();
        assert_eq!(context, "Look around.\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("config.yaml")), 0o600);
    }

    /// OR-60: a folder that is somebody's is left alone.
    #[actix_web::test]
    async fn a_folder_that_is_there_already_is_not_touched() {
        let (place, folders) = set_up();
        place.write(&place.home.team_file("scouts"), "mine");

        let made = folders.make(TeamKey::first("scouts"), plan()).await;
        folders.unmake(TeamKey::first("scouts")).await;

        assert_eq!(made, Err(FolderError::Taken));
        let text = fs::read_to_string(place.home.team_file("scouts")).unwrap();
        assert_eq!(text, "mine");
    }

    /// OR-60, OR-90
    #[actix_web::test]
    async fn leftovers_of_a_crash_are_settled_at_the_next_start() {
        let (place, folders) = set_up();
        for name in ["made", "lost"] {
            folders.make(TeamKey::first(name), plan()).await.unwrap();
        }
        fs::create_dir(place.home.teams().join(".new-half~1")).unwrap();
        place.write(&place.home.team_file("foreign"), "mine");

        folders.settle(vec!["made".into()]).await;

        assert_eq!(names(&place.home.teams()), ["foreign", "made"]);
        assert!(!is_unfinished(&place.home.team("made")));
    }

    /// OR-60
    #[actix_web::test]
    async fn an_unfinished_folder_gives_way_to_the_next_try() {
        let (place, folders) = set_up();
        let key = TeamKey::first("scouts");
        folders.make(key.clone(), plan()).await.unwrap();

        folders.make(key.clone(), plan()).await.unwrap();
        folders.unmake(key).await;

        assert_eq!(names(&place.home.teams()), [] as [&str; 0]);
    }

    /// OR-64: moving it again finds where it went.
    #[actix_web::test]
    async fn a_buried_folder_is_found_again() {
        let (place, folders) = set_up();
        let at = Timestamp(1_700_000_000_123);
        for name in ["a1", "a1-1"] {
            folders.make(TeamKey::first(name), plan()).await.unwrap();
            folders.keep(TeamKey::first(name)).await;
        }
        let bury = |name: &str, at| folders.bury(TeamKey::first(name), at);

        let longer = bury("a1-1", at).await.unwrap();
        let first = bury("a1", at).await.unwrap();
        let again = bury("a1", Timestamp(1_800_000_000_000)).await.unwrap();

        assert_eq!(longer.as_deref(), Some("trash/a1-1-1-20231114T221320Z"));
        assert_eq!(first.as_deref(), Some("trash/a1-1-20231114T221320Z"));
        assert_eq!(again, first);
        assert_eq!(bury("nobody", at).await, Ok(None));
        assert!(place.home.trash().join("a1-1-20231114T221320Z").is_dir());
    }

    /// OR-50
    #[actix_web::test]
    async fn a_description_that_cannot_be_changed_leaves_the_file() {
        let (place, folders) = set_up();
        let file = place.home.team_file("scouts");
        let describe = || folders.describe("scouts".into(), "new".to_owned());

        place.write(&file, "description: [old\n");
        assert!(describe().await.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "description: [old\n");

        place.write(&file, "description: old\n");
        describe().await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "description: \"new\"\n");
    }

    /// OR-63
    #[actix_web::test]
    async fn a_rule_or_a_subagent_is_furniture() {
        let (place, folders) = set_up();
        let bare = FolderPlan { context: None, ..plan() };
        folders.make(TeamKey::first("scouts"), bare).await.unwrap();
        let furnished = || folders.is_furnished("scouts".into());
        assert!(!furnished().await);

        let folder = place.home.team("scouts");
        place.write(&folder.join("skills/map/SKILL.md"), "no");
        place.write(&folder.join("team-rules/notes.txt"), "no");
        assert!(!furnished().await);
        place.write(&folder.join("subagents/guide.md"), "yes");
        assert!(furnished().await);
    }
}
