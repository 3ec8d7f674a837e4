//! Reach: what a call reaches for beyond its tool, as the operator's rules see it.

use std::path::{Path, PathBuf};

use hivewright_actors::policy::resource::{Mode, Touch};

use crate::sandbox::workspace::{Workspace, plain};

/// Something that a call reaches for, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Read(String),
    Search(String),
    Write(String),
    Command(String),
    /// In lower case.
    Host(String),
}

impl Reach {
    /// What rules see of it. `settle` also looks where a path leads over links: a rule that forbids a
    /// place forbids every way there.
    pub(super) fn touches(&self, workspace: &Workspace, settle: bool) -> Vec<Touch> {
        let path = match self {
            Self::Read(path) | Self::Search(path) | Self::Write(path) => path,
            Self::Command(command) => return vec![Touch::Command(command.clone())],
            Self::Host(host) => return vec![Touch::Host(host.clone())],
        };
        let named = plain(&workspace.path().join(path));
        let mut places = vec![named.clone()];
        if settle {
            places.extend(real(&named).filter(|real| *real != named));
        }
        let touches = places.iter().filter_map(|place| self.touch_at(place, workspace));
        touches.collect()
    }

    /// What rules see of it if it leads to this place; none if it is not about files.
    pub(super) fn touch_at(&self, place: &Path, workspace: &Workspace) -> Option<Touch> {
        let (mode, deep) = match self {
            Self::Read(_) => (Mode::Read, false),
            Self::Search(_) => (Mode::Read, true),
            Self::Write(_) => (Mode::Write, false),
            Self::Command(_) | Self::Host(_) => return None,
        };
        Some(Touch::File {
            inside: inside(place, workspace),
            path: place.to_string_lossy().into_owned(),
            mode,
            deep,
        })
    }

    /// The path it names, if it is about a file or folder.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Read(path) | Self::Search(path) | Self::Write(path) => Some(path),
            Self::Command(_) | Self::Host(_) => None,
        }
    }

    /// The host it names, if it is about one.
    pub(super) fn host(&self) -> Option<&str> {
        match self {
            Self::Host(host) => Some(host),
            _ => None,
        }
    }

    /// Where it leads now, if that is not the place that its path names.
    pub(super) fn elsewhere(&self, workspace: &Workspace) -> Option<PathBuf> {
        let path = self.path()?;
        let named = workspace.named_place(path)?;
        real(&workspace.path().join(path)).filter(|real| *real != named)
    }
}

/// The path from the workspace, by its name or by where it really is.
fn inside(place: &Path, workspace: &Workspace) -> Option<String> {
    let roots = [workspace.path(), workspace.real_path()];
    let rest = roots.iter().find_map(|root| place.strip_prefix(root).ok())?;
    Some(rest.to_string_lossy().into_owned())
}

/// Where a path really leads, as far as it exists.
fn real(path: &Path) -> Option<PathBuf> {
    let mut missing = PathBuf::new();
    let mut known = path;
    loop {
        if let Ok(real) = known.canonicalize() {
            return Some(real.join(missing));
        }
        missing = if missing.as_os_str().is_empty() {
            PathBuf::from(known.file_name()?)
        } else {
            Path::new(known.file_name()?).join(missing)
        };
        known = known.parent()?;
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn inside_of(touches: &[Touch]) -> Vec<Option<String>> {
        let inside = touches.iter().map(|touch| match touch {
            Touch::File { inside, .. } => inside.clone(),
            other => unreachable!("{other:?}"),
        });
        inside.collect()
    }

    #[test]
    fn a_way_over_a_link_is_a_way_to_the_place() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("team-rules")).unwrap();
        std::os::unix::fs::symlink("team-rules", folder.path().join("notes")).unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        let write = Reach::Write("notes/./x/../new.md".to_owned());

        let named = inside_of(&write.touches(&workspace, false));
        let settled = inside_of(&write.touches(&workspace, true));

        assert_eq!(named, [Some("notes/new.md".to_owned())]);
        assert_eq!(
            settled,
            [Some("notes/new.md".to_owned()), Some("team-rules/new.md".to_owned())]
        );
    }

    #[test]
    fn what_is_outside_has_no_place_inside() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();

        let touches = Reach::Read("../../etc/passwd".to_owned()).touches(&workspace, false);

        assert_eq!(inside_of(&touches), [None]);
    }
}
