//! Everything that an installation holds, read once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    rows::Tables,
    schema::Extra,
    source::{Copy, Source, SourceError},
    yaml::{self, Yaml},
};
use crate::storage::folder::{self, Found as Entry};

/// A settings file: what it says, or why it cannot be read. None if there is none.
pub(super) type File = Result<Option<Yaml>, String>;

/// What an installation holds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) config: File,
    pub(super) providers: File,
    pub(super) channels: File,
    /// Rules of the operator, by file name.
    pub(super) rules: BTreeSet<String>,
    /// What lies beside the rules and is none.
    pub(super) other_rules: BTreeSet<String>,
    /// Folders of teams, by name.
    pub(super) folders: BTreeMap<String, Folder>,
    pub(super) tables: Tables,
    pub(super) extras: Vec<Extra>,
}

/// The folder of a team.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) config: File,
    /// Links in it, which are not followed.
    pub(super) links: Vec<String>,
    /// Sources of tools that the team wrote, by file name.
    pub(super) plugins: BTreeSet<String>,
    /// Subagents by what they are called, with the skills they list.
    pub(super) subagents: BTreeMap<String, BTreeSet<String>>,
    /// The tools that each skill needs.
    pub(super) skills: BTreeMap<String, BTreeSet<String>>,
}

impl Found {
    /// Reads an installation.
    pub(super) fn read(source: &Source, with_logs: bool) -> Result<Self, SourceError> {
        let copy = Copy::make(source)?;
        let tables = Tables::read(&copy, with_logs)?;
        let extras = copy.extras.clone();
        // It holds secrets: no longer than needed.
        drop(copy);
        let file = |name: &str| yaml::read(&source.data.join("config").join(name));
        let (rules, other_rules) = rules(&source.data.join("rules"))?;
        Ok(Self {
            config: file("config.yaml"),
            providers: file("providers.yaml"),
            channels: file("channels.yaml"),
            rules,
            other_rules,
            folders: folders(&source.run.join("teams"))?,
            tables,
            extras,
        })
    }
}

fn disk(path: &Path) -> impl Fn(io::Error) -> SourceError {
    let path = path.to_owned();
    move |source| SourceError::Disk { path: path.clone(), source }
}

/// The names in a folder with what they are; nothing if there is no folder.
fn names(path: &Path) -> Result<Vec<(String, fs::FileType)>, SourceError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(disk(path))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(disk(path))?;
        let kind = entry.file_type().map_err(disk(path))?;
        names.push((entry.file_name().to_string_lossy().into_owned(), kind));
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

fn rules(path: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>), SourceError> {
    let (rules, others) = names(path)?
        .into_iter()
        .partition::<Vec<_>, _>(|(name, kind)| kind.is_file() && name.ends_with(".md"));
    let only_names = |list: Vec<(String, fs::FileType)>| list.into_iter().map(|(name, _)| name);
    Ok((only_names(rules).collect(), only_names(others).collect()))
}

fn folders(path: &Path) -> Result<BTreeMap<String, Folder>, SourceError> {
    let mut folders = BTreeMap::new();
    for (name, kind) in names(path)? {
        if kind.is_dir() {
            let folder = Folder::read(&path.join(&name))?;
            folders.insert(name, folder);
        }
    }
    Ok(folders)
}

impl Folder {
    fn read(path: &Path) -> Result<Self, SourceError> {
        let mut folder = Self {
            path: path.to_owned(),
            config: yaml::read(&path.join("config.yaml")),
            links: Vec::new(),
            plugins: BTreeSet::new(),
            subagents: BTreeMap::new(),
            skills: BTreeMap::new(),
        };
        folder::walk(path, Path::new(""), &mut |place, entry| {
            folder.note(place, entry);
            Ok(())
        })
        .map_err(disk(path))?;
        Ok(folder)
    }

    fn note(&mut self, place: &Path, entry: Entry) {
        let name = place.to_string_lossy();
        let file = match entry {
            Entry::Folder => return,
            Entry::Link(_) => return self.links.push(name.into_owned()),
            Entry::File(file) => file,
        };
        match name.split_once('/') {
            Some(("plugins", rest)) => {
                self.plugins.insert(rest.to_owned());
            }
            Some((kind @ ("subagents" | "skills"), rest)) => {
                let Some(stem) = rest.strip_suffix(".md").filter(|stem| !stem.contains('/')) else {
                    return;
                };
                let text = io::read_to_string(file).unwrap_or_default();
                if kind == "skills" {
                    let tools = listed(&text, "## Required Tools");
                    self.skills.insert(stem.to_owned(), tools);
                } else {
                    let called = heading(&text).unwrap_or(stem).to_owned();
                    self.subagents.insert(called, listed(&text, "## Skills"));
                }
            }
            _ => {}
        }
    }
}

/// What a subagent calls itself.
fn heading(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("# "))?;
    let name = line[2..].trim().strip_prefix("Agent:")?.trim();
    (!name.is_empty()).then_some(name)
}

/// The first words of the items below a heading.
fn listed(text: &str, heading: &str) -> BTreeSet<String> {
    text.lines()
        .skip_while(|line| line.trim() != heading)
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("- ")?.split_whitespace().next())
        .map(|word| word.trim_end_matches([':', ',']).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_folder_is_read_without_following_links() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        for (name, text) in [
            ("config.yaml", "name: research\n"),
            ("plugins/lookup.ts", "export const x = 1;"),
            ("subagents/scout.md", "# Agent: Scout\n## Role\nLooks.\n## Skills\n- dig: finds\n"),
            ("subagents/plain.md", "Does things.\n"),
            (
                "skills/dig.md",
                "# Skill: dig\n## Required Tools\n- lookup: finds\n- web_fetch\n## Steps\n- no\n",
            ),
        ] {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", path.join("notes")).unwrap();

        let folder = Folder::read(path).unwrap();

        assert_eq!(folder.links, ["notes"]);
        assert_eq!(folder.plugins, ["lookup.ts".to_owned()].into());
        assert_eq!(folder.subagents["Scout"], ["dig".to_owned()].into());
        assert!(folder.subagents["plain"].is_empty());
        let tools = ["lookup".to_owned(), "web_fetch".to_owned()];
        assert_eq!(folder.skills["dig"], tools.into());
        assert!(folder.config.unwrap().is_some());
    }
}
